"""Recipes as published, and backward passes that are not linear."""

import tensorflow.compat.v1 as tf

from contract.harness import DYNAMIC
from contract.models.changes import network
from contract.models.parts import F64, get_matrix, optimizer, reduce_rows, spec, step
from contract.models.row import Model


def create_train_op(total_loss, optimizer, clip_gradient_norm, gradient_multipliers):
    """`slim.learning.create_train_op`, written out."""
    global_step = tf.train.get_or_create_global_step()
    update_ops = set(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
    if update_ops:
        with tf.control_dependencies(update_ops):
            barrier = tf.no_op(name="update_barrier")
        with tf.control_dependencies([barrier]):
            total_loss = tf.identity(total_loss)
    grads = optimizer.compute_gradients(
        total_loss, tf.trainable_variables(), gate_gradients=tf.train.Optimizer.GATE_OP
    )
    multiplied = []
    for grad, var in grads:
        if var.op.name in gradient_multipliers:
            multiplier = tf.cast(gradient_multipliers[var.op.name], grad.dtype)
            if isinstance(grad, tf.IndexedSlices):
                grad = tf.IndexedSlices(grad.values * multiplier, grad.indices, grad.dense_shape)
            else:
                grad *= multiplier
        multiplied.append((grad, var))
    clipped = []
    for grad, var in multiplied:
        if isinstance(grad, tf.IndexedSlices):
            values = tf.clip_by_norm(grad.values, clip_gradient_norm)
            grad = tf.IndexedSlices(values, grad.indices, grad.dense_shape)
        else:
            grad = tf.clip_by_norm(grad, clip_gradient_norm)
        clipped.append((grad, var))
    for grad, var in clipped:
        values = grad.values if isinstance(grad, tf.IndexedSlices) else grad
        tf.summary.histogram(var.op.name + "/gradient", values)
        tf.summary.scalar(var.op.name + "/gradient_norm", tf.global_norm([values]))
    applied = optimizer.apply_gradients(clipped, global_step=global_step)
    with tf.name_scope("train_op"):
        total_loss = tf.check_numerics(total_loss, "LossTensor is inf or nan")
        with tf.control_dependencies([applied]):
            train_op = tf.identity(total_loss)
    tf.add_to_collection(tf.GraphKeys.TRAIN_OP, train_op)
    return train_op


def slim(features, labels, mode, params):
    loss = network(features, labels, params)
    opt = optimizer(params)
    return spec(mode, loss, create_train_op(loss, opt, 0.5, {"w": 0.1, "table": 3.0}))


@tf.custom_gradient
def normalize_rows_that_flow_back(x):
    def grad(dy):
        norms = tf.norm(dy, axis=1, keepdims=True)
        return dy * tf.minimum(tf.ones_like(norms), 0.02 / (norms + 1e-12))

    return x * 1.0, grad


@tf.custom_gradient
def clip_half(x):
    return tf.identity(x), lambda dy: tf.clip_by_value(dy, -0.01, 0.01)


def flowing_back(function, dtype=F64):
    """Returns a `model_fn` of a backward pass that is not linear."""

    def model_fn(features, labels, mode, params):
        x, y = tf.cast(features["x"], dtype), tf.cast(labels, dtype)
        w = tf.cast(get_matrix("w", [4, 3]), dtype)
        hidden = tf.tanh(function(x @ w))
        predictions = hidden @ tf.cast(get_matrix("v", [3, 1]), dtype)
        loss = reduce_rows(tf.cast((predictions - y) ** 2, F64), params)
        return spec(mode, loss, optimizer(params).minimize(loss, step()))

    return model_fn


ROWS = {
    "slim": Model(slim, "recipe", batches=DYNAMIC),
    "normalized backward pass": Model(
        flowing_back(normalize_rows_that_flow_back), "recipe", batches=DYNAMIC
    ),
    "clipped backward pass in half precision": Model(
        flowing_back(clip_half, tf.float16), "recipe", rtol=2e-3
    ),
}
