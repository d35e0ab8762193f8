"""`variable_placement='replicated'`: each tower has what it trains, and no weight leaves it.

That all models train as on one device is shown with each way to reduce, in `test_reduction.py`.
"""

import functools
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
import selection
from contract.models import MODELS
from replicate.reports import transfers

PLACED = {"variable_placement": "replicated"}
LAYERS, WIDTH = 4, 16
BYTES = LAYERS * (WIDTH + 1) * WIDTH * 4


def model_fn(features, labels, mode, params):
    x = features
    for _ in range(LAYERS):
        x = tf.layers.dense(
            x, WIDTH, tf.nn.tanh, kernel_initializer=tf.glorot_uniform_initializer()
        )
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"x": x})
    loss = tf.reduce_mean(tf.squared_difference(x, labels))
    step = tf.train.get_or_create_global_step()
    optimizer = tf.train.AdamOptimizer(0.01)
    optimizer = replicate.TowerOptimizer(optimizer, **params.get("wrapped", {}))
    train_op = optimizer.minimize(loss, step)
    metrics = {"mean": tf.metrics.mean(x)}
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=train_op, eval_metric_ops=metrics, predictions={"x": x}
    )


def built(num_towers, **params):
    tf.train.get_or_create_global_step()
    rows = tf.random.stateless_normal([2 * num_towers, WIDTH], [1, 2])
    return contract.replicated(model_fn, num_towers, **PLACED)(
        rows, tf.sin(rows), mode="train", params=params
    )


@pytest.mark.parametrize(
    ("num_towers", "wrapped"),
    [
        (8, {}),
        (4, {"clip_norm": 1.0}),
        (2, {"loss_scale": 8.0}),
        (2, {"check_finite": True}),
    ],
)
def test_no_weight_crosses_devices_in_a_step(num_towers, wrapped):
    spec = built(num_towers, wrapped=wrapped)
    crossing = transfers.crossing([spec.train_op, spec.loss])
    # Only the powers of Adam's betas, two numbers for each update, which cross together.
    powers = [each.size for each in crossing if each.kind == "weights"]
    assert powers == [LAYERS * 2 * 2 * 4] * (num_towers - 1)
    # Reduced gradients go to each other tower, and nothing else that is as large.
    to_updates = re.compile(r"replicate/(tower_\d+/update/|packs)")
    updates = [each for each in crossing if to_updates.match(each.taker.name) and each.size > 4]
    assert sum(each.size for each in updates) == (num_towers - 1) * BYTES
    # With variables on one device, all cross.
    with tf.Graph().as_default():
        tf.train.create_global_step()
        rows = tf.ones([2 * num_towers, WIDTH])
        placed = contract.replicated(model_fn, num_towers)
        spec = placed(rows, rows, mode="train", params={"wrapped": wrapped})
        weights = [each for each in transfers.crossing([spec.train_op]) if each.is_weight]
    assert sum(each.size for each in weights) >= (num_towers - 1) * (BYTES - LAYERS * WIDTH * 4)


def test_sums_go_to_replicas_in_the_pack_in_which_they_were_made():
    spec = built(3)
    crossing = transfers.crossing([spec.train_op])
    assert [each.size for each in crossing if each.kind == "sums"] == [BYTES] * 2


def test_each_tower_has_its_variables_and_slots_on_its_device():
    built(3)
    saved = {variable.op.name: variable for variable in tf.global_variables()}
    assert {v.device for name, v in saved.items() if name != "global_step"} == {"/device:CPU:0"}
    trained = {variable.name for name, variable in saved.items() if name.startswith("dense")}
    assert len(trained) == 3 * 2 * LAYERS  # with Adam's two slots
    for index in (1, 2):
        own = [v for v in tf.local_variables() if v.device == f"/device:CPU:{index}"]
        assert {f"replicate/tower_{index}/{name}" for name in trained} <= {v.name for v in own}
        assert not {variable.op.name for variable in own} & set(saved)
    assert not [name for name in saved if "tower_" in name]


@pytest.mark.parametrize("how", ["consolidation", "round_robin", "float16"])
def test_replicas_stay_equal_to_the_last_bit(how):
    reduction = replicate.Reduction(communication_dtype=tf.float16) if how == "float16" else how
    spec = built(3, wrapped={"reduction": reduction})
    pairs = [
        (first, own)
        for first in tf.global_variables()
        for own in tf.local_variables()
        if own.name.split("/", 2)[-1] == first.name and first.name.startswith("dense")
    ]
    assert len(pairs) == 2 * 3 * 2 * LAYERS  # of both later towers
    with tf.Session(config=contract.session_config(3)) as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.local_variables_initializer())
        before = session.run(pairs)
        for _ in range(5):
            session.run(spec.train_op)
        for (first, other), (start, _) in zip(session.run(pairs), before):
            assert first.tobytes() == other.tobytes()
            assert (first != start).any()


WRAPPED = {
    "clip_norm": {"clip_norm": 0.1},
    "fixed_scale": {"loss_scale": 8.0},
    "dynamic_scale": {"loss_scale": "dynamic"},
    "accumulate": {"accumulate_steps": 2},
    "accumulate_and_scale": {"accumulate_steps": 2, "loss_scale": "dynamic", "clip_norm": 0.1},
    "check_finite": {"check_finite": True},
}


@pytest.mark.parametrize(
    ("wrapped", "optimizer"),
    [
        selection.cell(wrapped, optimizer, is_quick=selection.on_diagonal(row, column, 2))
        for column, optimizer in enumerate(["momentum", "adam"])
        for row, wrapped in enumerate(WRAPPED)
    ],
)
def test_what_towers_do_with_gradients_they_do_with_replicas(wrapped, optimizer):
    wrapped, model = WRAPPED[wrapped], MODELS["get_variable"]
    wrap = functools.partial(replicate.TowerOptimizer, **wrapped)
    batches = contract.UNEVEN
    params = contract.make_params(optimizer, wrap=wrap)
    want = contract.record(model, functools.partial(contract.dataset, batches), params)
    # Of towers, gradients are added up in local variables.
    for variables in want.variables:
        for name in [name for name in variables if "accumulated_" in name]:
            del variables[name]
    got = contract.record_towers(model, batches, 3, optimizer, wrapped=wrapped, **PLACED)
    contract.assert_same_run(got, want)


@pytest.mark.parametrize(
    "devices",
    [
        selection.cell((1, 3, 1), is_quick=False),
        selection.cell((3, 1, 3), is_quick=True),
        selection.cell((2, 3, 2), is_quick=False),
    ],
)
def test_checkpoints_move_between_replicas_and_one_device(tmp_path, devices):
    """The weights and Adam's slots go on from what another number of towers left."""
    rows = np.random.RandomState(1).normal(size=[12, WIDTH]).astype(np.float32)

    def input_fn(size, epochs=None):
        data = tf.data.Dataset.from_tensor_slices((rows, np.sin(rows)))
        return data.batch(size).repeat(epochs)

    def make(directory, number):
        own = contract.replicated(model_fn, number, **PLACED) if number > 1 else model_fn
        config = tf.estimator.RunConfig(
            str(directory),
            tf_random_seed=1,
            session_config=contract.session_config(3),
        )
        return tf.estimator.Estimator(own, config=config, params={})

    def train(directory, numbers):
        for done, number in enumerate(numbers):
            made = make(directory, number)
            made.train(lambda: input_fn(12), max_steps=2 * done + 2)
        return {name: made.get_variable_value(name) for name in made.get_variable_names()}

    want, got = train(tmp_path / "alone", [1, 1, 1]), train(tmp_path / "moved", devices)
    assert got["global_step"] == 6
    contract.assert_same_values(got, want, 1e-4)
    # Replicas are restored to be evaluated, too, in uneven shards.
    values = [make(tmp_path / "moved", n).evaluate(lambda: input_fn(5, 1)) for n in (1, 3)]
    for name in ("loss", "mean"):
        np.testing.assert_allclose(values[0][name], values[1][name], rtol=1e-5)
    outputs = [list(make(tmp_path / "moved", n).predict(lambda: input_fn(5, 1))) for n in (1, 3)]
    assert len(outputs[0]) == len(rows)
    for one, other in zip(*outputs):
        np.testing.assert_allclose(one["x"], other["x"], rtol=1e-4, atol=1e-6)


def own_model(train):
    """Returns a `model_fn` of one weight, trained by `train(loss, step)`."""

    def model_fn(features, labels, mode):
        weight = tf.get_variable("w", [3])
        loss = tf.reduce_mean(features * weight)
        step = tf.train.get_or_create_global_step()
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train(loss, step, weight))

    return model_fn


SGD = tf.train.GradientDescentOptimizer


def by_assignment(loss, step, weight):
    with tf.control_dependencies([replicate.TowerOptimizer(SGD(0.1)).minimize(loss, step)]):
        return weight.assign(tf.clip_by_value(weight, -1.0, 1.0)).op


def by_assignment_in_a_condition(loss, step, weight):
    with tf.control_dependencies([replicate.TowerOptimizer(SGD(0.1)).minimize(loss, step)]):
        return tf.cond(step > 0, lambda: weight.assign(-weight), lambda: weight.read_value())


class Counting(SGD):
    """Counts the global step by itself."""

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        applied = super().apply_gradients(grads_and_vars)
        return tf.group(applied, tf.train.get_global_step().assign_add(1))


def by_counting(loss, step, weight):
    return replicate.TowerOptimizer(Counting(0.1)).minimize(loss)


def by_counting_in_a_condition(loss, step, weight):
    return replicate.TowerOptimizer(Counting(0.1), loss_scale="dynamic").minimize(loss)


class Merging(SGD):
    """Has the end of a condition of TensorFlow 1."""

    def _resource_apply_dense(self, grad, var):
        return super()._resource_apply_dense(tf.raw_ops.Merge(inputs=[grad])[0], var)


def by_merging(loss, step, weight):
    return replicate.TowerOptimizer(Merging(0.1)).minimize(loss, step)


def test_a_step_may_be_counted_besides():
    def train(loss, step, weight):
        with tf.control_dependencies([replicate.TowerOptimizer(SGD(0.1)).minimize(loss, step)]):
            return step.assign_add(1).op

    contract.replicated(own_model(train), 2, **PLACED)(tf.ones([4, 3]), None, mode="train")


def test_variables_without_handles_have_no_replicas():
    """A read of such a variable returns its memory, which updates change in place."""

    def model_fn(features, labels, mode):
        weight = tf.get_variable("w", [3], use_resource=False)
        optimizer = replicate.TowerOptimizer(tf.train.MomentumOptimizer(0.1, 0.9))
        train_op = optimizer.minimize(tf.reduce_mean(features * weight))
        return tf.estimator.EstimatorSpec(mode, loss=tf.reduce_sum(features), train_op=train_op)

    spec = contract.replicated(model_fn, 2, **PLACED)(tf.ones([4, 3]), None, mode="train")
    assert tf.local_variables() == []
    with tf.Session(config=contract.session_config(2)) as session:
        session.run(tf.global_variables_initializer())
        (weight,) = tf.trainable_variables()
        before = session.run(weight)
        session.run(spec.train_op)
        np.testing.assert_allclose(session.run(weight), before - 0.1 / 3, rtol=1e-6)


class Tallying(SGD):
    """Adds the sum of gradients to a variable that was there before."""

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        pairs = list(grads_and_vars)
        (tally,) = tf.get_collection("tallies")
        total = tf.add_n([tf.reduce_sum(gradient) for gradient, _ in pairs])
        applied = super().apply_gradients(pairs, global_step)
        return tf.group(applied, tally.assign(total))


def tallied(loss, step, **kwargs):
    tf.get_variable("tally", [], trainable=False, collections=["tallies", "variables"])
    return replicate.TowerOptimizer(Tallying(0.1), **kwargs).minimize(loss, step)


def by_tallying(loss, step, weight):
    return tallied(loss, step)


def by_tallying_in_a_condition(loss, step, weight):
    return tallied(loss, step, loss_scale="dynamic")


def by_two_optimizers(loss, step, weight):
    """The second of which replicas cannot follow."""
    first = replicate.TowerOptimizer(tf.train.MomentumOptimizer(0.1, 0.9)).minimize(loss, step)
    with tf.control_dependencies([first]):
        return tallied(loss, None)


def by_a_hook(loss, step, weight):
    """An assignment that is no part of the step, for a hook to run."""
    weight.assign(-weight, name="for_hooks")
    return replicate.TowerOptimizer(SGD(0.1)).minimize(loss, step)


def by_assignment_with_a_scale(loss, step, weight):
    optimizer = replicate.TowerOptimizer(SGD(0.1), loss_scale="dynamic")
    with tf.control_dependencies([optimizer.minimize(loss, step)]):
        return weight.assign(tf.clip_by_value(weight, -0.05, 0.05), name="clip").op


# Ways to train one weight, and whether it has replicas then.
WAYS = [
    (by_merging, True),
    (by_assignment, True),
    (by_assignment_in_a_condition, False),
    (by_assignment_with_a_scale, False),
    (by_counting, True),
    (by_counting_in_a_condition, False),
    (by_tallying, True),
    (by_tallying_in_a_condition, False),
    (by_two_optimizers, True),
    (by_a_hook, True),
]


@pytest.mark.parametrize("placement", ["replicated", "auto"])
@pytest.mark.parametrize(("train", "are_replicated"), WAYS)
def test_all_that_changes_a_weight(train, are_replicated, placement, as_gpus, warnings):
    """It is done for each replica; where it cannot be, in a condition, there are none."""
    rows = np.random.RandomState(1).normal(size=[5, 3]).astype(np.float32)

    def train_three_steps(model_fn):
        with tf.Graph().as_default(), tf.Session(config=contract.session_config(2)) as session:
            tf.set_random_seed(1)
            spec = model_fn(tf.constant(rows), None, "train")
            session.run(tf.global_variables_initializer())
            session.run(tf.local_variables_initializer())
            variables = [*tf.trainable_variables(), tf.train.get_global_step()]
            found = []
            for _ in range(3):
                session.run(spec.train_op)
                found += session.run(variables)
            replicas = [v for v in tf.local_variables() if v.op.name == "replicate/tower_1/w"]
            for replica in replicas:
                np.testing.assert_array_equal(*session.run([replica, variables[0]]))
            return found, bool(replicas)

    replicated = contract.replicated(own_model(train), 2, variable_placement=placement)
    got, has_replicas = train_three_steps(replicated)
    want, _ = train_three_steps(own_model(train))
    for one, other in zip(got, want):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert has_replicas == are_replicated
    assert warnings() == []


class Assigning(tf.train.SessionRunHook):
    """Makes an operation that changes the weight, when the model is built."""

    def begin(self):
        (weight,) = tf.trainable_variables()
        tf.assign(weight, -weight, name="by_hook")


@pytest.mark.parametrize("placed", ["replicated", "auto"])
@pytest.mark.parametrize("hooks", [[], [Assigning()]])
@pytest.mark.parametrize("mode", ["train", "eval", "infer"])
def test_what_a_hook_assigns_is_assigned_to_replicas(mode, hooks, placed, as_gpus, warnings):
    """Operations that save and restore checkpoints also write replicas, and log nothing."""

    def model_fn(features, labels, mode):
        loss = tf.reduce_mean(features * tf.get_variable("w", [3]))
        train_op, step = None, tf.train.get_or_create_global_step()
        if mode == "train":
            train_op = replicate.TowerOptimizer(SGD(0.1)).minimize(loss, step)
        return tf.estimator.EstimatorSpec(mode, {"loss": loss}, loss, train_op)

    replicated = contract.replicated(model_fn, 2, variable_placement=placed)
    spec = replicated(tf.ones([4, 3]), None, mode=mode)
    own = [*spec.training_hooks, *spec.evaluation_hooks, *spec.prediction_hooks]
    (weight,) = tf.trainable_variables()
    replicas = [v for v in tf.local_variables() if v.op.name == "replicate/tower_1/w"]
    with tf.train.SingularMonitoredSession(hooks=[*hooks, *own]) as session:
        raw = session.raw_session()
        if hooks:
            raw.run("by_hook")
        for replica in replicas:
            np.testing.assert_array_equal(*raw.run([replica, weight]))
    assert replicas
    assert warnings() == []


def test_a_variable_that_begins_with_another_is_initialised_before_the_rest():
    """Replicas get it in a pack of its own: the other variables have no value yet."""

    def model_fn(features, mode):
        first = tf.get_variable("first", [WIDTH], initializer=tf.ones_initializer())
        second = tf.get_variable("second", initializer=first.value())
        loss = tf.reduce_mean(features * first * second)
        train_op = tf.train.AdamOptimizer(0.1).minimize(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    contract.replicated(model_fn, 2, **PLACED)(tf.ones([4, WIDTH]), None, mode="train")
    made = {variable.op.name: variable for variable in tf.global_variables()}
    with tf.Session(config=replicate.session_config(["/cpu:0", "/cpu:1"])) as session:
        for name in ("first", "second"):
            session.run(made[name].initializer)
        assert session.run(made["second"]).tolist() == [1.0] * WIDTH
