"""Models parts of which XLA compiles."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
from bodies import control_flow

DEVICES = [f"/cpu:{i}" for i in range(3)]
jit_scope = tf.xla.experimental.jit_scope
# TensorFlow 1.15 says this of looked-up rows whose number is not known.
pytestmark = pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices:UserWarning")


def variable(name, shape):
    made = np.linspace(-1, 1, np.prod(shape)).reshape(shape)
    return tf.get_variable(name, initializer=tf.constant(made), use_resource=True)


def lookup(words):
    """Looks up rows of a table that is computed, so that its gradient is a sum for each row."""
    with jit_scope():
        found = tf.nn.embedding_lookup(variable("table", [9, 3]) * 2.0, words)
        return tf.tanh(tf.reduce_mean(found, 1) @ variable("w", [3, 3]))


def rounds(words):
    w = variable("w", [4, 4])

    def body(i, h):
        with jit_scope(separate_compiled_gradients=True):
            return i + 1, tf.tanh(h @ w + tf.cast(words[:, i : i + 1], tf.float64))

    first = tf.one_hot(words[:, 0], 4, dtype=tf.float64)
    return tf.while_loop(lambda i, _: i < 3, body, (0, first), maximum_iterations=3)[1]


def trained(model, devices, size):
    """Returns the losses and the trained variables."""

    def model_fn(features, labels, mode):
        loss = tf.reduce_mean(tf.reduce_sum(model(features), 1) ** 2 * labels)
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        train_op = optimizer.minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with tf.Graph().as_default() as graph, control_flow(1):
        tf.train.create_global_step()
        words = np.random.RandomState(0).randint(0, 9, [7, 3])
        features = tf.placeholder_with_default(words, [size, 3])
        labels = tf.placeholder_with_default(np.linspace(-1, 1, 7), [size])
        spec = replicate.replicate_model_fn(model_fn, devices=devices)(features, labels, "train")
        with tf.Session(config=replicate.session_config(DEVICES)) as session:
            session.run(tf.global_variables_initializer())
            steps = [session.run([spec.loss, spec.train_op])[0] for _ in range(3)]
            variables = session.run(tf.trainable_variables())
    names = [one.name for one in graph.get_operations() if "_XlaCompile" in one.node_def.attr]
    return [steps, *variables], names


@pytest.mark.parametrize("size", [None, 7])
@pytest.mark.parametrize("model", [lookup, rounds])
def test_towers_train_them_without_xla(model, size):
    want, compiled = trained(model, DEVICES[:1], size)
    assert compiled
    got, compiled = trained(model, DEVICES, size)
    for mine, other in zip(got, want):
        np.testing.assert_allclose(mine, other, 1e-9, 1e-12)
    assert not [name for name in compiled if name.startswith("tower_")]
