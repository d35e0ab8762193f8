"""Losses put together by hand: penalties, learnt weights, what mixes with rows or gradients."""

import numpy as np
import tensorflow.compat.v1 as tf

import replicate
from contract.models.parts import (
    F64,
    linear,
    mean_square,
    optimizer,
    spec,
    step,
    trained,
)
from contract.models.row import Model


def penalized(combine):
    """Returns a `model_fn` whose penalty is added by hand."""

    def model_fn(features, labels, mode, params):
        loss = mean_square(linear(features), labels, params)
        penalties = [tf.nn.l2_loss(v) for v in tf.trainable_variables()]
        total = combine(loss, penalties[0])
        return spec(mode, total, optimizer(params).minimize(total, step()))

    return model_fn


def penalized_tape(features, labels, mode, params):
    with tf.GradientTape() as tape:
        loss = mean_square(linear(features), labels, params)
        total = loss + 0.1 * tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables()])
    variables = tf.trainable_variables()
    opt = optimizer(params)
    pairs = zip(tape.gradient(total, variables), variables)
    return spec(mode, total, opt.apply_gradients(pairs, step()))


def penalized_by_gradients(features, labels, mode, params):
    """The penalty's gradient is made by itself, and added."""
    loss = mean_square(linear(features), labels, params)
    tvars = tf.trainable_variables()
    decay = 0.1 * tf.add_n([tf.nn.l2_loss(v) for v in tvars])
    grads = [g + d for g, d in zip(tf.gradients(loss, tvars), tf.gradients(decay, tvars))]
    return spec(mode, loss + decay, optimizer(params).apply_gradients(zip(grads, tvars), step()))


def uncertainty(combine):
    """Weights of tasks that are learnt, as by Kendall et al. (2018)."""

    def model_fn(features, labels, mode, params):
        loss = mean_square(linear(features), labels, params)
        sigma = tf.get_variable("sigma", [], F64, tf.constant_initializer(1.5))
        total = combine(loss, sigma)
        return spec(mode, total, optimizer(params).minimize(total, step()))

    return model_fn


def scoped(scope):
    """An optimizer under a scope that starts names from the top."""

    def model_fn(features, labels, mode, params):
        with tf.name_scope("model"):
            loss = mean_square(linear(features), labels, params)
            with tf.name_scope(scope):
                train_op = optimizer(params).minimize(loss, step())
        return spec(mode, loss, train_op)

    return model_fn


def divided_by_rows(grads, features):
    return [g / tf.cast(tf.shape(features["x"])[0], F64) for g in grads]


def scaled_by_mean(grads, features):
    return [g * tf.reduce_mean(features["x"]) for g in grads]


def divided_by_all_rows(grads, features):
    rows = replicate.cross_tower_sum(tf.shape(features["x"])[0])
    return [g / tf.cast(rows, F64) for g in grads]


def mixing(mix):
    def model_fn(features, labels, mode, params):
        loss = mean_square(linear(features), labels, params)
        tvars = tf.trainable_variables()
        grads = mix(tf.gradients(loss, tvars), features)
        train_op = optimizer(params).apply_gradients(zip(grads, tvars), step())
        return spec(mode, loss, train_op)

    return model_fn


def assigned_weight(features, labels, mode, params):
    """A weight that is assigned what follows from rows, as data-dependent initialisation is."""
    loss = mean_square(linear(features), labels, params)
    (w,) = tf.trainable_variables()
    with tf.control_dependencies([loss]):  # Which may read it later otherwise.
        update = w.assign(w * 0.5 + tf.transpose(features["x"][:1]))
    return trained(loss, params, mode, [update])


def twice_differentiated(make):
    """Returns a `model_fn` that punishes the norm of its own gradients of weights."""

    def model_fn(features, labels, mode, params):
        loss, opt = mean_square(linear(features), labels, params), optimizer(params)
        tvars = tf.trainable_variables()
        total = loss + 0.1 * tf.add_n([tf.nn.l2_loss(g) for g in make(loss, tvars, opt)])
        return spec(mode, total, opt.minimize(total, step()))

    return model_fn


def hessian_product(features, labels, mode, params):
    loss, opt = mean_square(linear(features), labels, params), optimizer(params)
    (w,) = tf.trainable_variables()
    (grad,) = tf.gradients(loss, [w])
    (product,) = tf.gradients(tf.reduce_sum(grad * np.ones([4, 1])), [w])
    return spec(mode, loss, opt.apply_gradients([(product, w)], step()))


# Each applies an operation to a penalty that no other row has.
PENALTIES = {
    "uncertainty": uncertainty(lambda loss, s: loss / (2.0 * s**2) + tf.log(s)),
    "add_n": penalized(lambda loss, l2: tf.add_n([loss, 0.1 * l2, 0.05 * l2])),
    "minus": penalized(lambda loss, l2: 3.0 - (2.0 - loss - 0.1 * l2)),
    "scaled by a weight": penalized(lambda loss, l2: (loss + 0.1 * l2) * tf.exp(l2)),
    "stacked": penalized(lambda loss, l2: tf.reduce_sum(tf.stack([loss, 0.1 * l2]))),
    "accumulate_n": penalized(lambda loss, l2: tf.math.accumulate_n([loss, 0.1 * l2])),
    "checked": penalized(lambda loss, l2: tf.check_numerics(loss + 0.1 * l2, "no number")),
    "tape": penalized_tape,
    "gradients": penalized_by_gradients,
}
# Gradients and weights that are mixed with rows, and gradients of gradients.
MIXED = {
    "divided by rows": mixing(divided_by_rows),
    "divided by the rows of all": mixing(divided_by_all_rows),
    "scaled by a mean": mixing(scaled_by_mean),
    "assigned weight": assigned_weight,
    "norms of gradients": twice_differentiated(lambda loss, tvars, opt: tf.gradients(loss, tvars)),
    "norms of computed gradients": twice_differentiated(
        lambda loss, tvars, opt: [g for g, _ in opt.compute_gradients(loss)]
    ),
    "hessian": hessian_product,
}
ROWS = {
    **{f"penalty, {name}": Model(fn, "penalty") for name, fn in PENALTIES.items()},
    **{name: Model(fn, "mixed") for name, fn in MIXED.items()},
    "scope from the top": Model(scoped(None), "recipe"),
}
