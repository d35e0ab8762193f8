"""Parts of which the table's models are made: variables, networks, losses, optimizers, specs.

Each `forward(features, params)` returns predictions of shape [n, 1] from the features of
`contract.rows_of`; `loss(predictions, features, labels, params)` the scalar loss;
`train(loss, params)` the train operation, or that and training hooks. `model_fn` puts three of
them together. Initialisers are given where TensorFlow's default ignores the graph's seed.
"""

import numpy as np
import tensorflow.compat.v1 as tf

from contract.harness import OPTIMIZERS, SUM, ModeKeys

F64 = tf.float64
GLOROT = tf.glorot_uniform_initializer
L2 = tf.keras.regularizers.l2
SLOPE = np.array([[0.5], [-1.0], [0.25], [2.0]])


def get_variable(name, shape, dtype=F64, **kwargs):
    return tf.get_variable(name, shape, dtype, kwargs.pop("initializer", GLOROT()), **kwargs)


def resources():
    """A scope of resource variables, which tapes need: TensorFlow 1.15 makes references."""
    return tf.variable_scope(tf.get_variable_scope(), use_resource=True)


def two_layers(x, make=get_variable):
    """Two dense layers of the variables that `make(name, shape)` makes."""
    hidden = tf.tanh(x @ tf.convert_to_tensor(make("w", [4, 3])) + make("b", [3]))
    return hidden @ tf.convert_to_tensor(make("v", [3, 1]))


def biased(name, shape, **kwargs):
    """`get_variable` of any rank."""
    initializer = GLOROT() if len(shape) > 1 else tf.zeros_initializer()
    return get_variable(name, shape, initializer=initializer, **kwargs)


def get_matrix(name, shape):
    initializer = GLOROT() if len(shape) > 1 else tf.ones_initializer()
    return get_variable(name, shape, initializer=initializer)


def untrained(name, shape, value=0.0, dtype=F64, **kwargs):
    return tf.get_variable(
        name, shape, dtype, tf.constant_initializer(value), trainable=False, **kwargs
    )


def by_get_variable(features, params):
    return two_layers(features["x"], biased)


def linear(features):
    return tf.tanh(features["x"] @ get_matrix("w", [4, 1]))


def reduce_rows(losses, params):
    return (tf.reduce_sum if params["reduction"] == SUM else tf.reduce_mean)(losses)


def squared(predictions, features, labels, params):
    return reduce_rows((predictions - labels) ** 2, params)


def mean_square(predictions, labels, params):
    return reduce_rows((predictions - labels) ** 2, params)


def optimizer(params):
    return params["wrap"](OPTIMIZERS[params["optimizer"]]())


def step():
    return tf.train.get_or_create_global_step()


def by_minimize(loss, params):
    return optimizer(params).minimize(loss, step())


def gradients(loss, variables):
    """Computes gradients; none reads a reference that the update of another has changed."""
    return tf.gradients(loss, variables, gate_gradients=True)


def clip(pairs, norm):
    grads, variables = zip(*pairs)
    return list(zip(tf.clip_by_global_norm(grads, norm)[0], variables))


def spec(mode, loss, train_op, **kwargs):
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, **kwargs)


def trained(loss, params, mode, updates=(), **kwargs):
    """Returns the spec of an optimizer that waits for updates, as layers' documentation says."""
    tf.get_collection_ref(tf.GraphKeys.UPDATE_OPS).extend(updates)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        return spec(mode, loss, optimizer(params).minimize(loss, step()), **kwargs)


def model_fn(forward=by_get_variable, loss=squared, train=by_minimize):
    """Returns a `model_fn` of a row's three parts."""

    def built(features, labels, mode, params):
        predictions = forward(features, params)
        named = {"predictions": predictions}
        if mode == ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions=named)
        scalar = loss(predictions, features, labels, params)
        if mode == ModeKeys.EVAL:
            metrics = {"mae": tf.metrics.mean_absolute_error(labels, predictions)}
            return tf.estimator.EstimatorSpec(
                mode, predictions=named, loss=scalar, eval_metric_ops=metrics
            )
        trained = train(scalar, params)
        train_op, hooks = trained if isinstance(trained, tuple) else (trained, [])
        return tf.estimator.EstimatorSpec(
            mode, predictions=named, loss=scalar, train_op=train_op, training_hooks=hooks
        )

    return built
