"""Loops of TensorFlow 1 run in towers if possible, and each tower iterates by itself."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from partition import harness, loop_models, tables
from partition.harness import ModeKeys
from partition.model_inputs import F64, STATIC, UNKNOWN, UNKNOWN_FIRST, get_variable

pytestmark = pytest.mark.filterwarnings(
    "ignore:`tf.nn.rnn_cell:UserWarning", "ignore:Converting sparse IndexedSlices:UserWarning"
)
MODELS = tables.of_losses_in_old_control_flow(loop_models.LOSSES)


@pytest.mark.parametrize("num_towers, batches", UNKNOWN_FIRST)
@pytest.mark.parametrize("name", loop_models.LOSSES)
def test_loops_are_trained(name, num_towers, batches):
    MODELS.check_training(name, batches, num_towers)


@pytest.mark.parametrize("num_towers, batches", UNKNOWN_FIRST)
@pytest.mark.parametrize("name", loop_models.LOSSES)
def test_loops_run_in_towers(name, num_towers, batches):
    trained = MODELS.in_towers(name, batches, num_towers)
    is_whole = name in loop_models.WHOLE
    is_whole |= name in loop_models.WHOLE_IF_UNKNOWN and not batches.static
    assert ("LoopCond" in trained.in_towers.values()) == (not is_whole)
    assert ("LoopCond" in trained.once.values()) == is_whole


@pytest.mark.parametrize("batches", [STATIC, UNKNOWN], ids=["static", "unknown"])
def test_zeros_that_meet_themselves_begin_as_rows(batches):
    model_fn = MODELS.models["meets_itself"]
    with harness.mechanism() as made, harness.building(model_fn, batches, 3, ModeKeys.TRAIN):
        plan = made[0].plan
    products = {one for one in plan.operations if one.type == "MatMul"}
    assert len(products) > 3 and products.issubset(plan.layouts.strategies)


@pytest.mark.parametrize("num_towers, batches", UNKNOWN_FIRST)
@pytest.mark.parametrize("name", ["rows_of_a_map", "rows_of_a_loop"])
def test_rows_are_split_again_after_a_loop_that_runs_once(name, num_towers, batches):
    trained = MODELS.in_towers(name, batches, num_towers)
    assert "LoopCond" in trained.once.values()
    assert {"MatMul", "Tanh", "TanhGrad"}.isdisjoint(trained.once.values())


@pytest.mark.thorough
@pytest.mark.parametrize("name", loop_models.LOSSES)
def test_loops_are_evaluated(name):
    MODELS.check_applied(name, UNKNOWN, 3)


@pytest.mark.parametrize("placement", ["consolidation", "round_robin", "replicated"])
def test_loops_take_weights_wherever_they_are(placement):
    model_fn = MODELS.models["gru_of_lengths"]
    trained = [harness.trained_where(model_fn, where) for where in (placement, None)]
    for mine, other in zip(*trained):
        for got, want in zip(mine, other):
            harness.assert_close(got, want, 1e-9, "weight")


def _collecting(features, labels, mode, params):
    """Predicts the slices that a loop has collected of a gradient, and how many these are."""
    table = get_variable("table", [6, 3])
    x = features["x"][:, :3]

    def body(i, a):
        return i + 1, tf.tanh(a + tf.reduce_sum(tf.gather(table, features["ids"]), 1))

    made = tf.while_loop(lambda i, _: i < 3, body, (0, x))[1]
    slices = tf.gradients(tf.reduce_mean(made**2), table)[0]
    found = {"values": slices.values, "indices": slices.indices, "size": tf.size(slices.indices)}
    total = tf.stop_gradient(tf.reduce_sum(slices.values) / tf.cast(tf.size(slices.values), F64))
    return tables.spec_of(mode, found, total * tf.reduce_mean(tf.square(table)), params)


@pytest.mark.parametrize("num_towers", [2, 3])
@pytest.mark.parametrize("batches", [STATIC, UNKNOWN], ids=["static", "unknown"])
def test_slices_that_a_loop_collects_are_in_order(batches, num_towers):
    model_fn = tables.of_old_control_flow(_collecting)
    harness.check_training(model_fn, batches, num_towers)
    with harness.mechanism() as made, harness.building(model_fn, batches, 3, ModeKeys.TRAIN):
        plan = made[0].plan
    copied = {one.name for one in plan.copied}
    assert {"while/LoopCond", "gradients/b_count_2"} <= copied


@pytest.mark.parametrize("is_static", [True, False], ids=["static", "unknown"])
def test_the_size_of_what_an_array_gives_is_that_of_the_batch(is_static):
    """It is asked for while the shapes of later values of the array are found."""

    def model_fn(features, labels, mode):
        h = tf.tanh(features)
        array = tf.TensorArray(
            tf.float32, 2, clear_after_read=False, infer_shape=False, element_shape=[None, 3]
        ).write(0, h)
        u = tf.get_variable("u", [3, 3])
        first = array.read(0)
        rows = tf.shape(first)[0]
        second = tf.tanh(tf.matmul(tf.zeros([rows, 3]), u))
        array = array.write(1, second + first)
        loss = tf.reduce_sum(array.read(1) ** 2) / tf.cast(rows, tf.float32)
        return tf.estimator.EstimatorSpec(mode, {"rows": rows}, loss)

    rows = np.random.RandomState(1).normal(size=[7, 3]).astype(np.float32)
    found = []
    for num_towers in (1, 3):
        with tf.Graph().as_default():
            given = tf.placeholder_with_default(rows, [7 if is_static else None, 3])
            spec = harness.replicated(model_fn, num_towers)(given, None, mode=ModeKeys.EVAL)
            with tf.Session(config=harness.session_config(num_towers)) as session:
                session.run(tf.global_variables_initializer())
                found.append(session.run([spec.loss, spec.predictions["rows"]]))
    np.testing.assert_allclose(found[1], found[0], 1e-6)
    assert found[1][1] == 7


def _with_a_sum_on_the_side(features, labels, mode, params):
    """Reads a weight in each round; only a session may fetch the sum, and all that it adds."""
    w = tf.get_variable("w", [1, 1], F64, use_resource=True)
    x = tf.reshape(features["x"][:, 0], [-1, 1])

    def body(i, state, total, states):
        state = tf.tanh(state @ w)
        return i + 1, state, total + state, states.write(i, state)

    begin = 0, tf.stop_gradient(x), tf.zeros_like(x), tf.TensorArray(F64, 3)
    _, state, total, states = tf.while_loop(lambda i, *_: i < 3, body, begin, back_prop=False)
    loss = tf.reduce_mean((x @ w - state) ** 2)
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return tf.estimator.EstimatorSpec(
        mode, {"total": total, "states": states.stack()}, loss, train_op
    )


@pytest.mark.parametrize("name", ["total", "states"])
def test_a_value_that_only_a_fetch_needs_leaves_the_loop_of_the_towers(name):
    """The loop of one device would run beside theirs, and might read weights of the next step."""
    model_fn = tables.of_old_control_flow(_with_a_sum_on_the_side)
    with harness.building(model_fn, UNKNOWN, 3, ModeKeys.TRAIN) as spec:
        pending, before = [spec.predictions[name].op], set()
        while pending:
            one = pending.pop()
            if one not in before:
                before.add(one)
                pending += [tensor.op for tensor in one.inputs]
    ends = [one for one in before if one.type == "LoopCond"]
    assert len(ends) == 3
    assert all(one.name.startswith("tower_") for one in ends)


@tf.custom_gradient
def _squashed(x):
    """Gives what Python computes its shape by an operation."""
    made = tf.py_func(np.tanh, [x], F64)
    made.set_shape(x.shape)

    def gradient(dy):
        slope = tf.py_func(lambda rows, given: given / np.cosh(rows) ** 2, [x, dy], F64)
        return tf.reshape(slope, tf.shape(x))

    return made, gradient


def _by_python(features, labels, mode, params):
    made = _squashed(features["x"] @ tf.get_variable("w", [features["x"].shape[1], 4], F64))
    loss = tf.reduce_mean((tf.reduce_sum(made, 1) - features["x"][:, 0]) ** 2)
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


@pytest.mark.parametrize("batches", [STATIC, UNKNOWN], ids=["static", "unknown"])
def test_rows_are_split_again_after_an_operation_that_gives_them_their_shape(batches):
    with harness.mechanism() as made, harness.building(_by_python, batches, 3, ModeKeys.TRAIN):
        plan = made[0].plan
    names = {one.name for one in plan.copied}
    assert {"gradients/matmul_grad/MatMul", "gradients/matmul_grad/MatMul_1"} <= names
