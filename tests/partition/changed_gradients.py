"""Changes gradients before they are applied, in functions as in `gradient_models`."""

import math

import tensorflow.compat.v1 as tf

from partition import row_losses
from partition.model_inputs import F64


def clipped_by_value(step):
    return step.apply([tf.clip_by_value(g, -0.05, 0.05) for g in step.gradients()])


def clipped_by_norm(step):
    return step.apply([tf.clip_by_norm(g, 0.1) for g in step.gradients()])


def clipped_by_average_norm(step):
    """TensorFlow has this for float32 alone."""
    gradients = [tf.cast(g, tf.float32) for g in step.gradients()]
    return step.apply([tf.cast(tf.clip_by_average_norm(g, 0.01), F64) for g in gradients])


def clipped_by_global_norm(step):
    gradients, norm = tf.clip_by_global_norm(step.gradients(), 0.2)
    return step.apply(gradients), {"norm": norm}


def clipped_where_large(step):
    norm = tf.linalg.global_norm(step.gradients())
    scale = tf.cond(norm > 0.3, lambda: 0.3 / norm, lambda: tf.constant(1.0, F64))
    return step.apply([g * scale for g in step.gradients()])


def signs(step):
    return step.apply([0.05 * tf.sign(g) for g in step.gradients()])


def trust_ratios(step):
    """The step of each variable is proportional to its norm."""
    return step.apply(
        [
            g * (tf.norm(weight) + 0.1) / (tf.norm(g) + 0.01)
            for g, weight in zip(step.gradients(), step.weights)
        ]
    )


def rates_of_variables(step):
    return step.apply([g / (1.0 + i) for i, g in enumerate(step.gradients())])


def noise(step):
    """Drawn once for each gradient, of the graph's seed."""
    return step.apply([g + 0.1 * tf.random.normal(g.shape, dtype=F64) for g in step.gradients()])


def projected(step):
    """Gradients of two losses, changed so that they do not oppose each other."""
    other = row_losses.squares(step.h, step.batch)
    made = []
    for a, b in zip(step.gradients(), tf.gradients(tf.reduce_mean(other), step.weights)):
        along = tf.minimum(tf.reduce_sum(a * b), 0.0) / (tf.reduce_sum(b**2) + 1e-6)
        made.append(a + b - along * b)
    return step.apply(made)


def of_rows_clipped(step):
    """Private: each row's gradient of the last layer is clipped for itself, and all are added."""
    (at_h,) = tf.gradients(row_losses.entropies(step.h, step.batch), step.h)
    below = tf.tanh(step.batch.x @ step.weights[0] + step.weights[1])
    own = below[:, :, None] * at_h[:, None]  # [n, 5, 3]
    norms = tf.sqrt(tf.reduce_sum(own**2, axis=[1, 2], keepdims=True))
    clipped = tf.reduce_mean(own / tf.maximum(norms / 0.3, 1.0), axis=0)
    return step.apply([*step.gradients()[:2], clipped])


def of_microbatches(step):
    """Private: the batch in parts of a row each, or as many as it is made of, each clipped."""
    rows = row_losses.entropies(step.h, step.batch)
    count = tf.dimension_value(rows.shape[0]) or 1
    total = [tf.zeros_like(weight) for weight in step.weights]
    for part in tf.unstack(tf.reshape(rows, [count, -1])):
        gradients, _ = tf.clip_by_global_norm(tf.gradients(tf.reduce_mean(part), step.weights), 0.3)
        total = [a + g / count for a, g in zip(total, gradients)]
    return step.apply(total)


def sized_by_rows(step):
    """A learning rate in proportion to the root of the number of rows."""
    count = tf.cast(tf.shape(step.h)[0], F64)
    return step.apply([g * tf.sqrt(count) / math.sqrt(11) for g in step.gradients()])


UPDATES = {
    function.__name__: function
    for function in (
        clipped_by_value,
        clipped_by_norm,
        clipped_by_average_norm,
        clipped_by_global_norm,
        clipped_where_large,
        signs,
        trust_ratios,
        rates_of_variables,
        noise,
        projected,
        of_rows_clipped,
        of_microbatches,
        sized_by_rows,
    )
}
