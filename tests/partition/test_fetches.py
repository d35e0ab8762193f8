"""Tensors of the model that sessions fetch are those that the towers computed in this step."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import versions
from bodies import control_flow
from partition import harness
from replicate.compat import graph as graph_lib

pytestmark = pytest.mark.conformance
ModeKeys = tf.estimator.ModeKeys
ROWS = np.random.RandomState(0).normal(size=[7, 4])
IDS = np.random.RandomState(1).randint(0, 5, [7, 2])
NAMES = ("z", "a", "of_z", "summed", "gradient")
ADDED = "added"  # An operation that a hook adds.


def trained(resource, held):
    """Returns a `model_fn` that puts tensors of `NAMES` into the dict `held`."""

    def model_fn(features, labels, mode):
        tf.get_variable_scope().set_use_resource(resource)
        first = tf.random_normal_initializer(seed=1, dtype=tf.float64)
        w, table = (
            tf.get_variable(name, shape, tf.float64, first)
            for name, shape in (("w", [4, 3]), ("table", [5, 3]))
        )
        x, ids = features
        z = tf.matmul(x, w, name="z")
        a = tf.gather(table, ids, name="a")
        of_z = tf.square(z, name="of_z")
        # It reads a variable, and adds up rows.
        summed = tf.einsum("nk,kd->d", x, w)
        loss = tf.reduce_mean(of_z[:, tf.newaxis] * a) + tf.reduce_sum(3.0 * summed)
        optimizer = tf.train.GradientDescentOptimizer(0.5)
        gradient = tf.gradients(loss, z)[0]
        made = z, a, of_z, summed, gradient
        held.update(zip(NAMES, made))
        with tf.control_dependencies([gradient]):
            train_op = optimizer.minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


def fetched(resource, towers, by_name):
    """Returns what two steps fetch: tensors, or their names."""
    held = {}
    with tf.Graph().as_default() as graph:
        tf.train.create_global_step()
        given = tf.placeholder(tf.float64, [None, 4]), tf.placeholder(tf.int32, [None, 2])
        model_fn = trained(resource, held)
        if towers > 1:
            model_fn = harness.replicated(model_fn, towers)
        spec = model_fn(features=given, labels=None, mode=ModeKeys.TRAIN)
        if towers > 1:  # Originals run late, as they may.
            updates = [spec.train_op.op if hasattr(spec.train_op, "op") else spec.train_op]
            for name in ("z", "a", "summed", "gradient"):
                graph_lib.add_control_inputs(held[name].op, updates)
        held[ADDED] = 2.0 * graph.get_tensor_by_name(held["z"].name)
        for hook in spec.training_hooks:
            hook.begin()
        asked = {name: one.name if by_name else one for name, one in held.items()}
        with tf.Session(config=harness.session_config(3)) as session:
            session.run(tf.global_variables_initializer())
            feed = dict(zip(given, (ROWS, IDS)))
            return [session.run([asked, spec.train_op], feed)[0] for _ in range(2)]


@pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices:UserWarning")
@pytest.mark.parametrize("by_name", [True, False], ids=["names", "tensors"])
@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
def test_values_are_those_from_before_the_update(resource, by_name):
    with harness.mechanism():
        got = fetched(resource, 3, by_name)
    for step, (found, expected) in enumerate(zip(got, fetched(resource, 1, by_name))):
        for name in (*NAMES, ADDED):
            harness.assert_close(found[name], expected[name], 1e-12, f"{name} of step {step}")


def _drawn(x):
    return tf.random.uniform(tf.shape(x), dtype=tf.float64)


def _drawn_in_a_function(x):
    return tf.function(_drawn, autograph=False)(x)


def _drawn_in_a_branch(x):
    return tf.cond(tf.reduce_sum(x) < 1e9, lambda: _drawn(x) + 0.0, lambda: x)


def _drawn_in_a_loop(x):
    return tf.while_loop(lambda i, _: i < 3, lambda i, h: (i + 1, h + _drawn(x)), (0, x))[1]


@pytest.mark.parametrize("version", [1] if versions.IS_1 else [1, 2])  # Of control flow.
@pytest.mark.parametrize(
    "draw",
    [_drawn, _drawn_in_a_branch, _drawn_in_a_loop] + [_drawn_in_a_function] * (not versions.IS_1),
)
def test_random_numbers_are_those_of_the_loss(draw, version):
    held = []

    def model_fn(features, labels, mode):
        w = tf.get_variable("w", [4], tf.float64, tf.ones_initializer())
        held[:] = [draw(features)]
        loss = tf.reduce_sum(held[0] * w)
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with harness.mechanism(), tf.Graph().as_default(), control_flow(version):
        tf.train.create_global_step()
        rows = tf.placeholder(tf.float64, [None, 4])
        spec = harness.replicated(model_fn, 3)(features=rows, labels=None, mode=ModeKeys.TRAIN)
        with tf.Session(config=harness.session_config(3)) as session:
            session.run(tf.global_variables_initializer())
            loss, numbers = session.run([spec.loss, held[0].name], {rows: ROWS})
    assert numbers.shape == ROWS.shape
    harness.assert_close(loss, numbers.sum(), 1e-12, "loss")
