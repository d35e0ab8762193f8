"""Ways to make gradients by hand, and to change them before they are applied.

Each function gets a `Step`, and returns its train operation, or that and a dictionary of tensors
that are looked at, too.
"""

from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

import versions
from partition import model_inputs, row_losses
from partition.model_inputs import F64, get_variable, one_hot
from partition.tables import own_variables


class Step(NamedTuple):
    """The parts of a training step.

    Attributes:
        h: Outputs of the network for each row, [n, 3].
        loss: A mean of something of all rows, times the root of another: no mean of means.
        batch: The `Batch`.
        weights: The trainable variables.
        optimizer: The optimizer.
    """

    h: Any
    loss: Any
    batch: model_inputs.Batch
    weights: Any
    optimizer: Any

    def apply(self, gradients):
        return self.optimizer.apply_gradients(list(zip(gradients, self.weights)))

    def gradients(self):
        return tf.gradients(self.loss, self.weights)


def entropies(h, batch):
    """One loss for each row, which can be differentiated twice."""
    if versions.IS_1:  # Its fused kernel has one derivative.
        return -tf.reduce_sum(one_hot(batch.k) * tf.nn.log_softmax(h), axis=1)
    return row_losses.entropies(h, batch)


def model_of(update):
    """Returns the `model_fn` that trains by `update(step)`."""

    def model(features, labels, mode, params):
        batch = model_inputs.Batch(**features, **labels)
        h = model_inputs.hidden(batch.x)
        loss = tf.reduce_mean(entropies(h, batch)) * row_losses.root_of_a_mean(h, batch)
        made = update(Step(h, loss, batch, own_variables(), params["optimizer"]()))
        train_op, seen = made if isinstance(made, tuple) else (made, {})
        return tf.estimator.EstimatorSpec(mode, {"h": h, **seen}, loss, train_op)

    return model


# Losses and other tensors that are differentiated


def of_a_vector(step):
    return step.apply(tf.gradients(row_losses.entropies(step.h, step.batch), step.weights))


def with_weights_of_rows(step):
    """Gradients of rows, each times what the row counts."""
    rows = row_losses.entropies(step.h, step.batch)
    counts = step.batch.weight[:, 0] / (tf.reduce_sum(step.batch.weight) + 1.0)
    return step.apply(tf.gradients(rows, step.weights, grad_ys=counts))


def with_a_scalar(step):
    scale = tf.stop_gradient(1.0 / (1.0 + step.loss))
    return step.apply(tf.gradients(step.loss, step.weights, grad_ys=scale))


def of_several_losses(step):
    """`tf.gradients` of a list adds them up."""
    losses = [step.loss, row_losses.squares(step.h, step.batch), tf.reduce_max(step.h)]
    return step.apply(tf.gradients(losses, step.weights))


def by_intermediate_values(step):
    """The chain rule by hand, with each row's part limited by that of the batch."""
    (at_h,) = tf.gradients(step.loss, step.h)
    limit = tf.norm(at_h) / 2.0
    own = tf.norm(at_h, axis=1, keepdims=True)
    at_h *= tf.minimum(limit / (own + 1e-6), 1.0)
    return step.apply(tf.gradients(step.h, step.weights, grad_ys=at_h)), {"at_h": at_h}


def of_inputs(step):
    """Scales gradients by how much inputs count, which predictions show by row, too."""
    (saliency,) = tf.gradients(step.loss, step.batch.x)
    scale = tf.reduce_sum(tf.abs(saliency))
    return step.apply([g * scale for g in step.gradients()]), {"saliency": saliency}


def penalty_of_inputs(step):
    """Slopes of each row's output are to be 1."""
    (slopes,) = tf.gradients(step.h[:, 0], step.batch.x)
    norms = tf.sqrt(tf.reduce_sum(slopes**2, axis=1) + 1e-6)
    return step.apply(tf.gradients(step.loss + tf.reduce_mean((norms - 1.0) ** 2), step.weights))


def penalty_of_gradients(step):
    """The squared norm of the whole batch's gradient is part of the loss."""
    norm = tf.add_n([tf.reduce_sum(g**2) for g in step.gradients()])
    return step.apply(tf.gradients(step.loss + 0.1 * norm, step.weights))


def hessian_by_a_vector(step):
    """A step along the gradient, less what curvature makes of it."""
    gradients = step.gradients()
    inner = tf.add_n([tf.reduce_sum(g * tf.stop_gradient(g)) for g in gradients])
    products = tf.gradients(inner, step.weights)
    return step.apply([g - 0.1 * product for g, product in zip(gradients, products)])


def hessian_of_a_bias(step):
    """Newton's step for one of the variables."""
    (bias,) = [weight for weight in step.weights if weight.shape.rank == 1]
    (hessian,) = tf.hessians(step.loss, bias)
    gradients = step.gradients()
    place = [weight is bias for weight in step.weights].index(True)
    damped = hessian + 5.0 * tf.eye(5, dtype=F64)
    gradients[place] = tf.linalg.solve(damped, gradients[place][:, None])[:, 0]
    return step.apply(gradients)


def sharpness(step):
    """Sharpness-aware: the gradient at weights that the batch's own gradient has moved."""
    w, b, v = step.weights
    at, norm = step.gradients(), tf.linalg.global_norm(step.gradients())
    moved = [weight + 0.1 * g / (norm + 1e-6) for weight, g in zip((w, b, v), at)]
    h = tf.tanh(step.batch.x @ moved[0] + moved[1]) @ moved[2]
    return step.apply(tf.gradients(row_losses.mean(h, step.batch), moved))


def inner_step(step):
    """Learns to learn: the loss of half of the rows, after a step on the other half."""
    w, b, v = step.weights
    half = (tf.shape(step.h)[0] + 1) // 2
    loss = tf.reduce_mean(entropies(step.h, step.batch)[:half])
    fast = [weight - 0.3 * g for weight, g in zip((w, b, v), tf.gradients(loss, [w, b, v]))]
    h = tf.tanh(step.batch.x @ fast[0] + fast[1]) @ fast[2]
    rest = row_losses.squares(h, step.batch)[tf.shape(h)[0] // 2 :]
    return step.apply(tf.gradients(tf.reduce_mean(rest), [w, b, v]))


def unconnected(step):
    """One variable that the loss does not meet, and one that the batch does not."""
    more = [get_variable("idle", [2]), get_variable("own", [2], initializer=tf.ones_initializer())]
    loss = step.loss + 0.1 * tf.reduce_sum(more[1] ** 2)
    variables = [*step.weights, *more]
    gradients = tf.gradients(loss, variables, unconnected_gradients="zero")
    return step.optimizer.apply_gradients(list(zip(gradients, variables)))


def of_a_loop(step):
    weight = step.weights[2]
    turned = tf.while_loop(
        lambda i, _: i < 3, lambda i, s: (i + 1, tf.tanh(s + s @ weight[:3])), [0, step.h]
    )[1]
    return step.apply(tf.gradients(tf.reduce_mean(turned**2) + step.loss, step.weights))


# Gradients that functions define


@tf.RegisterGradient("PartitionTestsHalved")
def _halved(op, gradient):
    """Halves and clips the gradient of weights."""
    return tf.clip_by_norm(gradient, 0.5) * 0.5


@tf.RegisterGradient("PartitionTestsReversed")
def _reversed(op, gradient):
    """Reverses the gradient of rows, scaled by the largest of the batch."""
    return -gradient / (1.0 + tf.reduce_max(tf.abs(gradient)))


def overridden_of_weights(step):
    with tf.get_default_graph().gradient_override_map({"Identity": "PartitionTestsHalved"}):
        weight = tf.identity(step.weights[2])
    loss = tf.reduce_mean((tf.tanh(step.batch.x @ step.weights[0]) @ weight - step.batch.y) ** 2)
    return step.apply(tf.gradients(loss + step.loss, step.weights))


def overridden_of_rows(step):
    with tf.get_default_graph().gradient_override_map({"Identity": "PartitionTestsReversed"}):
        h = tf.identity(step.h)
    return step.apply(tf.gradients(row_losses.mean(h, step.batch), step.weights))


@tf.custom_gradient
def _centred(rows):
    """Its gradient is that of each row, less the batch's mean."""

    def gradient(at):
        return at - tf.reduce_mean(at, axis=0, keepdims=True)

    return tf.identity(rows), gradient


def custom_of_rows(step):
    return step.apply(tf.gradients(row_losses.mean(_centred(step.h), step.batch), step.weights))


@tf.custom_gradient
def _scaled(weight):
    return 2.0 * weight, lambda at: at / (1.0 + tf.norm(at))


def custom_of_weights(step):
    h = tf.tanh(step.batch.x @ _scaled(step.weights[0])) @ step.weights[2]
    return step.apply(tf.gradients(row_losses.mean(h, step.batch) + step.loss, step.weights))


def straight_through(step):
    """Signs in the forward pass, identity in the backward pass."""
    signs = step.h + tf.stop_gradient(tf.sign(step.h) - step.h)
    return step.apply(tf.gradients(tf.reduce_mean((signs - step.batch.y) ** 2), step.weights))


def baseline(step):
    """Rewards less the batch's mean, over its deviation."""
    rewards = tf.stop_gradient(-row_losses.squares(step.h, step.batch))
    mean, variance = tf.nn.moments(rewards, [0])
    advantage = (rewards - mean) * tf.rsqrt(variance + 0.1)
    logs = tf.reduce_sum(one_hot(step.batch.k) * tf.nn.log_softmax(step.h), axis=1)
    return step.apply(tf.gradients(-tf.reduce_mean(advantage * logs), step.weights))


UPDATES = {
    function.__name__: function
    for function in (
        of_a_vector,
        with_weights_of_rows,
        with_a_scalar,
        of_several_losses,
        by_intermediate_values,
        of_inputs,
        penalty_of_inputs,
        penalty_of_gradients,
        hessian_by_a_vector,
        hessian_of_a_bias,
        sharpness,
        inner_step,
        unconnected,
        of_a_loop,
        overridden_of_weights,
        overridden_of_rows,
        custom_of_rows,
        custom_of_weights,
        straight_through,
        baseline,
    )
}
