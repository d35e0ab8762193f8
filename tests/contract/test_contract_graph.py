"""The graph of towers: placement, number of operations, and what is left behind."""

import collections
import functools
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
import selection
from contract import ModeKeys, models

pytestmark = pytest.mark.usefixtures("resource_variables")

LAYERS = 3


def model_fn(features, labels, mode, params):
    """Three dense layers with biases, a penalty, and a metric."""
    x = features["x"]
    for _ in range(LAYERS):
        x = tf.layers.dense(
            x, 4, tf.tanh, kernel_initializer=models.GLOROT(), kernel_regularizer=models.L2(0.1)
        )
    tf.summary.scalar("activation", tf.cast(tf.reduce_mean(x), tf.float32))
    loss = tf.reduce_mean((x - labels) ** 2) + tf.losses.get_regularization_loss()
    if mode == ModeKeys.EVAL:
        metrics = {"mean": tf.metrics.mean(x)}
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    train_op = models.by_minimize(loss, params)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def build(num_towers, batches=contract.EVEN, mode=ModeKeys.TRAIN, fn=model_fn, wrap=None, **kwargs):
    """Builds the graph of `fn` replicated over `num_towers`, un-replicated if 0; returns both."""
    wrap = (wrap or replicate.TowerOptimizer) if num_towers else contract.plain
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(contract.SEED)
        tf.train.create_global_step()
        features, labels = tf.data.make_one_shot_iterator(contract.dataset(batches)).get_next()
        chosen = contract.replicated(fn, num_towers, **kwargs) if num_towers else fn
        spec = chosen(features, labels, mode=mode, params=contract.make_params("adam", wrap=wrap))
    return graph, spec


def devices_by_type(graph, op_type, scope=""):
    ops = [op for op in graph.get_operations() if op.type == op_type and op.name.startswith(scope)]
    return collections.Counter(op.device for op in ops)


def cpu(index):
    return f"/device:CPU:{index}"


@pytest.mark.parametrize("mode", [ModeKeys.TRAIN, ModeKeys.EVAL])
@pytest.mark.parametrize("batches", [contract.EVEN, contract.DYNAMIC])
def test_one_tower_is_the_un_replicated_graph(batches, mode):
    got, want = (build(towers, batches, mode)[0].as_graph_def() for towers in (1, 0))
    assert got == want


@pytest.mark.parametrize("num_towers", [2, 3, 8])
def test_operations_of_a_tower_are_on_its_device(num_towers):
    graph, _ = build(num_towers)
    # In each tower, a product per layer, and two backwards: for its kernel and its input.
    for index in range(num_towers):
        assert devices_by_type(graph, "MatMul", f"tower_{index}/") == {cpu(index): 3 * LAYERS}
    assert set(devices_by_type(graph, "Tanh")) == {cpu(index) for index in range(num_towers)}


@pytest.mark.parametrize("consolidation", [0, 1])
@pytest.mark.parametrize(
    "num_towers", [selection.cell(towers, is_quick=towers == 3) for towers in (2, 3, 8)]
)
@pytest.mark.parametrize("batches", [contract.EVEN, contract.UNEVEN])
@pytest.mark.parametrize(
    ("reduction", "expected"),
    [
        # For the kernel and bias of each layer; also for the loss, for a summary, and for the
        # gradient of an exponent, which `tf.gradients` waits for.
        (replicate.Reduction(pack_bytes=0), 2 * LAYERS + 3),
        # All gradients are small, and packed into one. A step runs this pack, and that of the loss.
        ("consolidation", 4),
    ],
)
def test_sums_are_on_the_consolidation_device(
    batches, num_towers, consolidation, reduction, expected
):
    wrap = functools.partial(replicate.TowerOptimizer, reduction=reduction)
    graph, _ = build(num_towers, batches, wrap=wrap, consolidation_device=cpu(consolidation))
    sums = devices_by_type(graph, "AddN", "replicate/reduce/")
    assert sums == {cpu(consolidation): expected}
    applied = devices_by_type(graph, "ResourceApplyAdam")
    assert sum(applied.values()) == 2 * LAYERS


@pytest.mark.parametrize("num_towers", [2, 3, 8])
@pytest.mark.parametrize("placement", ["consolidation", "round_robin"])
def test_variables_are_placed_on_the_consolidation_device_or_in_turn(placement, num_towers):
    graph, _ = build(num_towers, consolidation_device=cpu(1), variable_placement=placement)
    variables = graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)
    assert len(variables) == 2 * LAYERS
    in_turn = [cpu(index % num_towers) for index in range(2 * LAYERS)]
    want = [cpu(1)] * (2 * LAYERS) if placement == "consolidation" else in_turn
    assert [variable.device for variable in variables] == want
    by_name = {v.op.name: v for v in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)}
    for variable in variables:  # Slots and updates are where their variable is.
        for slot in ("Adam", "Adam_1"):
            assert by_name[f"{variable.op.name}/{slot}"].device == variable.device
        updates = [
            op for op in variable.op.outputs[0].consumers() if op.type == "ResourceApplyAdam"
        ]
        assert [op.device for op in updates] == [variable.device]


def test_a_tower_adds_a_bounded_number_of_operations():
    counts = {towers: len(build(towers)[0].get_operations()) for towers in (0, 1, 2, 4, 8)}
    assert counts[1] == counts[0]
    per_tower = [(counts[4] - counts[2]) / 2, (counts[8] - counts[4]) / 4]
    assert per_tower[0] == per_tower[1]  # Each tower costs the same,
    # and less than one device's graph, which also has variables, slots and updates.
    assert per_tower[0] < 0.75 * counts[0]


@pytest.mark.parametrize("mode", [ModeKeys.TRAIN, ModeKeys.EVAL])
@pytest.mark.parametrize("placement", ["consolidation", "round_robin"])
def test_construction_is_deterministic(placement, mode):
    first, second = (
        build(3, contract.DYNAMIC, mode, variable_placement=placement)[0].as_graph_def()
        for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize("mode", [ModeKeys.TRAIN, ModeKeys.EVAL])
def test_collections_are_those_of_one_device(mode):
    (got, _), (want, _) = build(3, mode=mode), build(0, mode=mode)
    assert sorted(got.get_all_collection_keys()) == sorted(want.get_all_collection_keys())
    for key in want.get_all_collection_keys():
        expected = [getattr(item, "name", item) for item in want.get_collection(key)]
        found = [getattr(item, "name", item) for item in got.get_collection(key)]
        if not (key.startswith("_") or "cond" in str(key)):  # Stores are objects of each graph.
            assert found == expected, key
    metas = [tf.train.export_meta_graph(graph=graph).collection_def for graph in (got, want)]
    assert sorted(metas[0]) == sorted(metas[1])


@pytest.mark.parametrize("fails", [False, True])
def test_construction_leaves_nothing_behind(fails):
    """Threads, and the scopes, dependencies and devices that the caller has open."""

    def failing(features, labels, mode, params):
        spec = model_fn(features, labels, mode, params)
        if fails:
            raise KeyError("broken")
        return spec

    threads = set(threading.enumerate())
    with tf.Graph().as_default() as graph:
        tf.train.create_global_step()
        features, labels = tf.data.make_one_shot_iterator(
            contract.dataset(contract.EVEN)
        ).get_next()
        params = contract.make_params(wrap=replicate.TowerOptimizer)
        towers = contract.replicated(failing, 3)
        with tf.device("/cpu:7"), tf.variable_scope("outer", reuse=tf.AUTO_REUSE) as scope:
            guard = tf.no_op(name="guard")
            with tf.control_dependencies([guard]), tf.name_scope("inner"):
                if fails:
                    with pytest.raises(KeyError, match="broken"):
                        towers(features, labels, mode=ModeKeys.TRAIN, params=params)
                else:
                    towers(features, labels, mode=ModeKeys.TRAIN, params=params)
                after = tf.constant(1.0, name="after")
                assert tf.get_variable_scope() is scope
                assert tf.get_variable_scope().reuse == tf.AUTO_REUSE
        assert after.device == "/device:CPU:7"
        assert after.op.name == "outer/inner/after"
        assert after.op.control_inputs == [guard]
        free = tf.constant(1.0, name="free")
        assert (free.op.name, free.device, free.op.control_inputs) == ("free", "", [])
        assert tf.get_default_graph() is graph
    assert set(threading.enumerate()) == threads
    assert replicate.num_towers() == 1 and replicate.tower_index() == 0


def test_the_callers_scopes_prefix_all_towers():
    def scoped(features, labels, mode, params):
        with tf.variable_scope("outer"), tf.name_scope("inner"):
            w = tf.get_variable("before", [], tf.float64)
            return contract.replicated(model_fn, 3)(
                {"x": features["x"] * w}, labels, mode=mode, params=params
            )

    def plain(features, labels, mode, params):
        with tf.variable_scope("outer"), tf.name_scope("inner"):
            w = tf.get_variable("before", [], tf.float64)
            return model_fn({"x": features["x"] * w}, labels, mode, params)

    wrapped = contract.make_params(wrap=replicate.TowerOptimizer)

    def names(fn, params):
        with tf.Graph().as_default() as graph:
            tf.train.create_global_step()
            features, labels = contract.rows_of(6)
            features = {"x": tf.constant(features["x"])}
            spec = fn(features, tf.constant(labels), ModeKeys.TRAIN, params)
            variables = [v.name for v in tf.global_variables()]
            tanhs = [op.name for op in graph.get_operations() if op.type == "Tanh"]
            assert isinstance(spec.loss, tf.Tensor)
        return variables, tanhs

    (got, tanhs), (want, expected) = names(scoped, wrapped), names(plain, contract.make_params())
    assert got == want
    # One device's operations keep their names; copies have them after their tower's.
    assert tanhs[:LAYERS] == expected
    assert sorted(tanhs[LAYERS:]) == [
        f"tower_{index}/{name}" for index in (0, 1, 2) for name in sorted(expected)
    ]


def test_dropout_differs_between_towers_and_is_tower_0s_of_one_device():
    def masks(features, labels, mode):
        mask = tf.nn.dropout(tf.ones_like(features), rate=0.5)
        return tf.estimator.EstimatorSpec(mode, predictions=mask)

    def run(num_towers, rows):
        with tf.Graph().as_default():
            tf.set_random_seed(contract.SEED)
            x = tf.ones([rows, 64], tf.float64)
            fn = contract.replicated(masks, num_towers) if num_towers else masks
            spec = fn(x, None, ModeKeys.PREDICT)
            config = contract.session_config(max(num_towers, 1))
            with tf.Session(config=config) as session:
                return session.run(spec.predictions)

    towers, one = run(3, 6), run(0, 2)
    np.testing.assert_array_equal(towers[:2], one)  # Same seeds: same weights at first, for one.
    halves = [towers[:2], towers[2:4], towers[4:]]
    assert not any(np.array_equal(halves[i], halves[j]) for i, j in ((0, 1), (0, 2), (1, 2)))


@pytest.mark.parametrize("clipped", [False, True], ids=["minimize", "by hand"])
@pytest.mark.parametrize("resources", [False, True], ids=["reference", "resource"])
def test_what_is_made_after_an_optimizer_starts_as_on_one_device(clipped, resources):
    def train_op(optimizer, loss, scope):
        variables = tf.trainable_variables(scope)
        if not clipped:
            return optimizer.minimize(loss, var_list=variables)
        gradients = optimizer.compute_gradients(loss, variables)
        return optimizer.apply_gradients([(tf.clip_by_norm(g, 1.0), v) for g, v in gradients])

    def one_after_the_other(features, labels, mode, params):
        train_ops, x = [], features
        for name in ("first", "second"):
            with tf.variable_scope(name, use_resource=resources):
                # TensorFlow 1.15 takes a seed that is not given from the number of operations.
                w = tf.get_variable("w", [4, 4], initializer=tf.random_uniform_initializer())
            x = tf.tanh(x @ tf.cast(w, x.dtype))
            loss = tf.reduce_mean(x**2)
            optimizer = params["wrap"](tf.train.MomentumOptimizer(0.1, 0.9))
            train_ops.append(train_op(optimizer, loss, name))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(*train_ops))

    def initial_values(fn, wrap):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.set_random_seed(contract.SEED)
            x = tf.constant(contract.rows_of(6)[0]["x"])
            fn(x, None, ModeKeys.TRAIN, {"wrap": wrap})
            session.run(tf.global_variables_initializer())
            return session.run(tf.trainable_variables())

    towers = contract.replicated(one_after_the_other, 2)
    got = initial_values(towers, replicate.TowerOptimizer)
    want = initial_values(one_after_the_other, lambda optimizer: optimizer)
    assert not np.array_equal(*want)
    np.testing.assert_array_equal(got, want)


HALF = replicate.Reduction(communication_dtype=tf.float16)


@pytest.mark.parametrize(
    "options",
    [{"accumulate_steps": 2}, {"loss_scale": 8.0, "reduction": HALF}, {"loss_scale": "dynamic"}],
    ids=["accumulated", "scaled", "dynamic"],
)
def test_what_is_made_after_options_starts_as_on_one_device(options):
    def two_weights(features, labels, mode):
        made = []
        for name in ("first", "second"):
            w = tf.get_variable(name, [4, 1], initializer=tf.random_uniform_initializer())
            loss = tf.reduce_mean(tf.cast(features, tf.float32) @ w)
            optimizer = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.1), **options)
            made.append(optimizer.minimize(loss, var_list=[w]))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(*made))

    def initial_values(num_towers):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.set_random_seed(contract.SEED)
            x = tf.constant(contract.rows_of(6)[0]["x"])
            contract.replicated(two_weights, num_towers)(x, None, ModeKeys.TRAIN)
            session.run(tf.global_variables_initializer())
            return session.run(tf.trainable_variables())

    np.testing.assert_array_equal(initial_values(2), initial_values(1))
