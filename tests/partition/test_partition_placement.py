"""Where a partitioned graph runs: copies, sums, weights in packs, variables and their replicas.

Devices and operations are looked up in the graph, of logical CPU devices. Wherever variables are,
training must give the same as on one device.
"""

import collections

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
from partition import harness
from replicate.compat import graph as graph_lib

N = 3
DEVICES = [f"/cpu:{i}" for i in range(N)]
ROWS = np.random.RandomState(3).normal(size=(11, 4))


def model_fn(features, labels, mode, params):
    """Two layers, with a norm of gradients, trained as `params` say."""
    hidden = features
    for name, width in (("a", 5), ("b", 1)):
        hidden = tf.tanh(
            tf.layers.dense(hidden, width, kernel_initializer=tf.ones_initializer(), name=name)
        )
    loss = tf.reduce_mean(tf.square(hidden - labels))
    optimizer = replicate.TowerOptimizer(params["optimizer"](), **params.get("options", {}))
    grads, variables = zip(*optimizer.compute_gradients(loss))
    grads, _ = tf.clip_by_global_norm(grads, 0.5)
    train_op = optimizer.apply_gradients(zip(grads, variables), tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def sgd():
    return tf.train.GradientDescentOptimizer(0.3)


def momentum():
    return tf.train.MomentumOptimizer(0.1, 0.9)


def adam():
    return tf.train.AdamOptimizer(0.1)


def train(towers, params, steps=3, look=None, **kwargs):
    """Returns losses and variables after each step; calls `look` with the graph."""
    with tf.Graph().as_default() as graph:
        tf.train.create_global_step()
        data = tf.data.Dataset.from_tensors((ROWS, np.sin(ROWS[:, :1]))).repeat()
        features, labels = tf.data.make_one_shot_iterator(data).get_next()
        made = model_fn
        if towers:
            made = replicate.replicate_model_fn(model_fn, devices=DEVICES, **kwargs)
        spec = made(features, labels, mode="train", params=params)
        scaffold = spec.scaffold or tf.train.Scaffold()
        scaffold.finalize()
        if look:
            look(graph)
        seen = []
        with tf.Session(config=replicate.session_config(DEVICES)) as session:
            session.run(scaffold.init_op)
            session.run(scaffold.local_init_op)
            for _ in range(steps):
                loss, _ = session.run([spec.loss, spec.train_op])
                seen.append([loss, *session.run(tf.trainable_variables())])
    return seen


def assert_trains_as_one_device(params, rtol=1e-9, **kwargs):
    want, got = train(False, params), train(True, params, **kwargs)
    for step, (mine, other) in enumerate(zip(got, want)):
        for value, expected in zip(mine, other):
            np.testing.assert_allclose(value, expected, rtol, rtol, err_msg=f"step {step}")


def operations(graph, kind, scope=""):
    return [op for op in graph.get_operations() if op.type == kind and scope in op.name]


def is_on(op, index):
    return graph_lib.same_device(op.device, DEVICES[index])


@pytest.mark.parametrize("placement", ["consolidation", "round_robin", "replicated"])
@pytest.mark.parametrize("optimizer", [sgd, momentum, adam])
def test_variables_anywhere_train_as_on_one_device(placement, optimizer):
    assert_trains_as_one_device({"optimizer": optimizer}, variable_placement=placement)


@pytest.mark.parametrize(
    "reduction",
    [
        "consolidation",
        replicate.Reduction(pack_bytes=0),
        replicate.Reduction(small_bytes=8),
    ],
    ids=str,
)
def test_gradients_packed_or_not_train_as_on_one_device(reduction):
    assert_trains_as_one_device({"optimizer": momentum, "options": {"reduction": reduction}})


def test_gradients_are_summed_where_their_variables_are():
    params = {"optimizer": sgd, "options": {"reduction": "round_robin"}}
    assert_trains_as_one_device(params, variable_placement="round_robin")


def test_what_towers_compute_is_on_their_devices():
    def look(graph):
        found = collections.Counter()
        for index in range(N):
            for op in operations(graph, "MatMul", f"tower_{index}/"):
                assert is_on(op, index)
                found[index] += 1
        assert len(set(found.values())) == 1 and len(found) == N

    train(True, {"optimizer": sgd}, look=look)


def test_small_gradients_meet_in_one_sum_and_small_weights_cross_in_one_pack():
    def look(graph):
        sums = [op for op in operations(graph, "AddN", "reduce") if len(op.inputs) == N]
        packed = [op for op in sums if op.inputs[0].op.type == "ConcatV2"]
        assert len(packed) == 1  # Of four variables, in front of the norm that they all meet in.
        assert all(is_on(op, 0) for op in sums)
        joined = operations(graph, "ConcatV2", "packed_weights")
        assert len(joined) == 1 and is_on(joined[0], 0)
        # Copies take slices of the pack, except in the tower that has the variables.
        reads = {op.outputs[0] for op in operations(graph, "ReadVariableOp")}
        for index in range(N):
            given = [op.inputs[1] for op in operations(graph, "MatMul", f"tower_{index}/")]
            assert any(any(t is read for read in reads) for t in given) == (index == 0)

    train(True, {"optimizer": sgd}, look=look)


def test_nothing_is_packed_if_packs_hold_nothing():
    def look(graph):
        assert not operations(graph, "ConcatV2", "packed_weights")
        sums = [op for op in operations(graph, "AddN", "reduce") if len(op.inputs) == N]
        assert not any(op.inputs[0].op.type == "ConcatV2" for op in sums)

    options = {"reduction": replicate.Reduction(pack_bytes=0)}
    train(True, {"optimizer": sgd, "options": options}, look=look)


def test_gradients_cross_in_the_type_that_is_asked_for_and_losses_in_their_own():
    def look(graph):
        narrowed = [op for op in operations(graph, "Cast") if op.outputs[0].dtype == tf.bfloat16]
        assert sorted(op.device[-1] for op in narrowed) == ["1", "2"]  # One pack each.
        assert all(op.inputs[0].shape.rank == 1 for op in narrowed)

    options = {"reduction": replicate.Reduction(communication_dtype=tf.bfloat16)}
    params = {"optimizer": sgd, "options": options}
    got, want = train(True, params, look=look), train(False, {"optimizer": sgd})
    np.testing.assert_allclose(got[0][0], want[0][0], 1e-12)  # The first loss, before any update.
    np.testing.assert_allclose(got[-1][1], want[-1][1], 2e-2)


def test_replicas_are_updated_on_their_devices_whatever_runs_the_update():
    def look(graph):
        updates = operations(graph, "ResourceApplyMomentum")
        assert len(updates) == 4 * N
        originals = [op for op in updates if "tower_" not in op.name]
        assert len(originals) == 4
        for op in originals:
            copies = [one for one in op.control_inputs if one.type == op.type]
            assert sorted(one.device[-1] for one in copies) == ["1", "2"]
            for one in copies:
                assert one.inputs[0].op.device == one.device  # Its own replica.
        # No weight crosses: copies read replicas.
        for index in range(1, N):
            for op in operations(graph, "MatMul", f"tower_{index}/"):
                assert all(is_on(t.op, index) for t in op.inputs if t.op.type == "ReadVariableOp")

    train(True, {"optimizer": momentum}, look=look, variable_placement="replicated")


def test_replicas_are_equal_to_what_they_replicate():
    seen = {}

    def look(graph):
        seen.update({v.op.name: v for v in tf.global_variables() + tf.local_variables()})
        seen["graph"] = graph

    with tf.Graph().as_default():
        tf.train.create_global_step()
        data = tf.data.Dataset.from_tensors((ROWS, np.sin(ROWS[:, :1]))).repeat()
        batch = tf.data.make_one_shot_iterator(data).get_next()
        made = replicate.replicate_model_fn(
            model_fn, devices=DEVICES, variable_placement="replicated"
        )
        spec = made(*batch, mode="train", params={"optimizer": adam})
        by_name = {v.op.name: v for v in tf.global_variables() + tf.local_variables()}
        replicas = [name for name in by_name if name.startswith("replicate/tower_")]
        assert len(replicas) == 4 * 3 * (N - 1)  # With both of Adam's slots.
        with tf.Session(config=replicate.session_config(DEVICES)) as session:
            session.run(tf.global_variables_initializer())
            session.run(tf.local_variables_initializer())
            for _ in range(2):
                session.run(spec.train_op)
                values = session.run(by_name)
                for name in replicas:
                    np.testing.assert_array_equal(values[name], values[name.split("/", 2)[2]])


def test_what_is_placed_by_hand_stays_there_and_the_rest_goes_to_the_towers():
    def placed(features, labels, mode):
        with tf.device("/cpu:3"):
            far = tf.square(features, name="far")
        loss = tf.reduce_mean(far - tf.tanh(features, name="near")) + tf.get_variable(
            "w", [], tf.float64
        )
        train_op = sgd().minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with tf.Graph().as_default() as graph:
        tf.train.create_global_step()
        replicate.replicate_model_fn(placed, devices=DEVICES)(
            tf.constant(ROWS), tf.constant(ROWS), mode="train"
        )
        far = [op for op in graph.get_operations() if op.name.endswith("/far")]
        near = [op for op in graph.get_operations() if op.name.endswith("/near")]
        assert [op.device[-1] for op in far] == ["3"] * N
        assert [op.device[-1] for op in near] == ["0", "1", "2"]


@pytest.mark.parametrize("optimizer", [sgd, momentum])
def test_replicas_take_what_is_loaded_while_they_train(optimizer):
    """`load` runs the initializer of a variable with a value of its own."""
    seen = []
    for kwargs in (None, {"variable_placement": "replicated"}):
        with tf.Graph().as_default():
            tf.train.create_global_step()
            features = tf.constant(ROWS)
            made = model_fn
            if kwargs:
                made = replicate.replicate_model_fn(model_fn, devices=DEVICES, **kwargs)
            params = {"optimizer": optimizer}
            spec = made(features, tf.constant(np.sin(ROWS[:, :1])), mode="train", params=params)
            with tf.Session(config=replicate.session_config(DEVICES)) as session:
                session.run(tf.global_variables_initializer())
                session.run(tf.local_variables_initializer())
                session.run(spec.train_op)
                for variable in tf.trainable_variables():
                    value = session.run(variable)
                    variable.load(value + 0.1, session)
                for _ in range(2):
                    loss, _ = session.run([spec.loss, spec.train_op])
                    seen.append([loss, *session.run(tf.trainable_variables())])
    for one, other in zip(seen[:2], seen[2:]):
        for value, expected in zip(other, one):
            np.testing.assert_allclose(value, expected, 1e-9, 1e-9)


def test_what_a_function_updates_has_no_replicas():
    """It might draw other numbers in each tower."""

    def noisy(features, labels, mode):
        w = tf.get_variable("w", [4], tf.float64, tf.ones_initializer(), use_resource=True)
        v = tf.get_variable("v", [4], tf.float64, tf.ones_initializer(), use_resource=True)
        loss = tf.reduce_mean(tf.square(features * w * v))
        (slope,) = tf.gradients(loss, [v])

        @tf.function
        def update():
            w.assign_sub(tf.random_normal([4], dtype=tf.float64))
            return tf.constant(0)

        with tf.control_dependencies([tf.assign_sub(v, slope)]):
            call = tf.cast(update(), tf.float32)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=call)

    with tf.Graph().as_default() as graph:
        made = replicate.replicate_model_fn(noisy, devices=DEVICES, variable_placement="replicated")
        made(tf.constant(ROWS), None, mode="train")
        replicas = [op.name for op in operations(graph, "VarHandleOp") if "tower_" in op.name]
    assert replicas and not [name for name in replicas if name.endswith("/w")]


class Halves(tf.train.SessionRunHook):
    """Halves what is trained, by an operation made in `begin`, whenever a step is over."""

    def __init__(self, in_branch):
        self._in_branch = in_branch

    def begin(self):
        def halve():
            assigned = [v.assign(0.5 * v.read_value()) for v in tf.trainable_variables()]
            with tf.control_dependencies(assigned):
                return tf.constant(0)

        self._halve = tf.cond(tf.constant(True), halve, halve) if self._in_branch else halve()

    def after_run(self, context, values):
        context.session.run(self._halve)


def trained_with(hook, **kwargs):
    """Returns what is trained after each of three steps."""
    seen = []
    with tf.Graph().as_default():
        tf.train.create_global_step()
        labels = tf.constant(np.sin(ROWS[:, :1]))
        made = replicate.replicate_model_fn(model_fn, devices=DEVICES, **kwargs)
        spec = made(tf.constant(ROWS), labels, mode="train", params={"optimizer": momentum})
        creator = tf.train.ChiefSessionCreator(config=replicate.session_config(DEVICES))
        hooks = [hook, *spec.training_hooks]
        with tf.train.MonitoredSession(creator, hooks) as session:
            for _ in range(3):
                session.run(spec.train_op)
                seen.append(session.run(tf.trainable_variables()))
    return seen


def test_replicas_follow_what_hooks_change():
    got = trained_with(Halves(False), variable_placement="replicated")
    for mine, other in zip(got, trained_with(Halves(False))):
        for value, expected in zip(mine, other):
            np.testing.assert_allclose(value, expected, 1e-9, 1e-9)


def test_what_hooks_change_in_a_branch_is_said_not_to_reach_replicas():
    with harness.heard() as said:
        trained_with(Halves(True), variable_placement="replicated")
    assert said and all("has a replica in each tower, but" in line for line in said)


def test_variables_are_placed_in_turn_and_slots_with_them():
    def look(graph):
        for index, variable in enumerate(tf.trainable_variables()):
            assert is_on(variable.op, index % N), variable.name
            slots = [v for v in tf.global_variables() if v.op.name.startswith(variable.op.name)]
            assert len(slots) == 3 and all(is_on(slot.op, index % N) for slot in slots)

    train(True, {"optimizer": adam}, look=look, variable_placement="round_robin")


@pytest.mark.parametrize("placement", ["consolidation", "round_robin"])
def test_slots_are_where_a_variable_is_that_has_no_device(placement):
    def scattered(features, labels, mode, params):
        with tf.device(None):
            outputs = tf.layers.dense(features, 1, name="anywhere")
        with tf.device(DEVICES[1]):
            outputs += tf.layers.dense(features, 1, name="there")
        loss = tf.reduce_mean(tf.square(outputs - labels))
        train_op = adam().minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with tf.Graph().as_default():
        tf.train.create_global_step()
        made = replicate.replicate_model_fn(
            scattered, devices=DEVICES, variable_placement=placement
        )
        labels = tf.constant(np.sin(ROWS[:, :1]))
        spec = made(tf.constant(ROWS), labels, mode="train", params={})
        with tf.Session(config=replicate.session_config(DEVICES)) as session:
            session.run(tf.global_variables_initializer())
            losses = [session.run([spec.loss, spec.train_op])[0] for _ in range(3)]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("is_known", [True, False])
def test_a_feature_of_unknown_rank_is_told(is_known, fresh_graph):
    def model_fn(features, labels, mode):
        image = tf.ensure_shape(features["image"], [None, 4])
        loss = tf.reduce_mean(tf.layers.dense(image, 2) ** 2)
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    shape = [None, 4] if is_known else None
    features = {"image": tf.placeholder(tf.float32, shape), "x": tf.placeholder(tf.float32, [None])}
    with harness.heard() as said:
        contract.replicated(model_fn, 2)(features, None, "train")
    told = [line for line in said if "the rank of features/image is not known" in line]
    assert len(told) == (not is_known)
    assert is_known or "such as `tensor.set_shape([None, 28, 28, 1])`" in told[0]
