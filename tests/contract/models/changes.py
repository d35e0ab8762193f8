"""Gradients that are changed between computing and applying them, in people's styles.

The changes are not linear in the gradients, or would be noticed if they were made once per
tower. The rows are all pairs of a way to make gradients and a change.
"""

import re

import tensorflow.compat.v1 as tf

from contract.models.parts import (
    F64,
    get_matrix,
    get_variable,
    optimizer,
    reduce_rows,
    spec,
    step,
    two_layers,
)
from contract.models.row import Model
from versions import legacy

# Sizes that make each noticeable: the global norm of these models' gradients is 0.5 to 5.
NORM = 0.1


def network(features, labels, params):
    """Dense weights and an embedding, whose gradient is sparse; returns the loss."""
    table = get_variable("table", [6, 2])
    words = tf.nn.embedding_lookup(table, features["ids"])
    predictions = two_layers(features["x"], get_matrix) + tf.reduce_sum(words**2, [1, 2])[:, None]
    return reduce_rows((predictions - labels) ** 2, params)


def on_values(function):
    """Returns a change of `(gradient, variable)` pairs that acts on each, dense or sparse."""

    def change(pairs):
        changed = []
        for grad, var in pairs:
            if isinstance(grad, tf.IndexedSlices):
                grad = tf.IndexedSlices(function(grad.values), grad.indices, grad.dense_shape)
            elif grad is not None:
                grad = function(grad)
            changed.append((grad, var))
        return changed

    return change


def on_dense(function):
    """Like `on_values`, of sparse gradients that are made dense first."""

    def change(pairs):
        return [(function(tf.convert_to_tensor(grad)), var) for grad, var in pairs]

    return change


def clip_global(pairs):
    grads, variables = zip(*pairs)
    clipped, norm = tf.clip_by_global_norm(grads, NORM)
    tf.summary.scalar("norm", norm)
    return list(zip(clipped, variables))


def clip_each(pairs):
    return [(tf.clip_by_norm(grad, NORM), var) for grad, var in pairs if grad is not None]


def add_noise(grad):
    return grad + 0.1 * tf.random.stateless_normal(tf.shape(grad), [7, 3], dtype=grad.dtype)


def multiply(pairs):
    """Learning rates by name, as in layer-wise decay, and weight decay added by hand."""
    changed = []
    for grad, var in pairs:
        rate = 0.1 if re.search("w|table", var.name) else 2.0
        if isinstance(grad, tf.IndexedSlices):
            grad = tf.IndexedSlices(grad.values * rate, grad.indices, grad.dense_shape)
        else:
            grad = grad * rate + 0.01 * tf.convert_to_tensor(var)
        changed.append((grad, var))
    return changed


def clip_if_large(pairs):
    """Divides by the norm if that is large, as code from before `clip_by_global_norm` does."""
    grads, variables = zip(*on_dense(tf.identity)(pairs))
    norm = tf.global_norm(grads)
    kept = tf.cond(norm > NORM, lambda: [g / norm * NORM for g in grads], lambda: list(grads))
    return list(zip(kept, variables))


def skip_if_spiking(pairs):
    """Zeroes gradients in steps whose first gradient is above a bound, sparse ones by `scatter`."""
    grads, variables = zip(*on_dense(tf.identity)(pairs))
    largest = tf.reduce_max([tf.reduce_max(tf.abs(g)) for g in grads])
    keep = tf.cast(largest < 1.5, F64)
    return [(keep * g, v) for g, v in zip(grads, variables)]


def centralize(grad):
    return grad - tf.reduce_mean(grad, 0, keepdims=True) if grad.shape.rank > 1 else grad


def remember(pairs):
    """Momentum by hand, in variables of the model's own."""
    changed, updates = [], []
    for grad, var in on_dense(tf.identity)(pairs):
        velocity = get_variable(
            "velocity/" + var.op.name,
            var.shape.as_list(),
            initializer=tf.zeros_initializer(),
            trainable=False,
        )
        updates.append(velocity.assign(0.9 * velocity + tf.sign(grad)))
        changed.append((updates[-1], var))
    return changed


CHANGES = {
    "clip_by_global_norm": clip_global,
    "clip_by_norm": clip_each,
    "clip_by_value": on_values(lambda grad: tf.clip_by_value(grad, -0.02, 0.02)),
    "sign": on_values(tf.sign),
    "sign_of_dense": on_dense(tf.sign),
    "noise": on_dense(add_noise),
    "l2_normalize": on_dense(tf.math.l2_normalize),
    "multipliers": multiply,
    "cond": clip_if_large,
    "skip": skip_if_spiking,
    "centralize": on_dense(centralize),
    "momentum_by_hand": remember,
}


def computed(loss_fn, opt):
    return opt.compute_gradients(loss_fn())


def by_hand(loss_fn, opt):
    loss = loss_fn()
    tvars = tf.trainable_variables()
    return zip(tf.gradients(loss, tvars), tvars)


def taped(loss_fn, opt):
    with tf.GradientTape() as tape:
        loss = loss_fn()
    tvars = tf.trainable_variables()
    return zip(tape.gradient(loss, tvars), tvars)


def one_by_one(loss_fn, opt):
    loss = loss_fn()
    return [(tf.gradients(loss, v)[0], v) for v in tf.trainable_variables()]


def from_keras(loss_fn, opt):
    loss = loss_fn()
    variables = tf.trainable_variables()
    return zip(legacy.SGD(0.1).get_gradients(loss, variables), variables)


MAKERS = {
    "compute_gradients": computed,
    "tf.gradients": by_hand,
    "tape": taped,
    "one by one": one_by_one,
    "keras": from_keras,
}


def changing(make, change):
    """Returns a `model_fn` that makes gradients in one way and changes them in another."""

    def model_fn(features, labels, mode, params):
        losses = []

        def loss_fn():
            losses.append(network(features, labels, params))
            return losses[0]

        opt = optimizer(params)
        pairs = change(list(make(loss_fn, opt)))
        return spec(mode, losses[0], opt.apply_gradients(pairs, global_step=step()))

    return model_fn


ROWS = {
    f"{make}-{change}": Model(changing(MAKERS[make], CHANGES[change]), "change")
    for make in MAKERS
    for change in CHANGES
}
