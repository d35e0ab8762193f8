"""Losses whose rows are made for themselves, and what is made of all of them: no mean of means."""

import tensorflow.compat.v1 as tf

from partition.model_inputs import F64, one_hot


def squares(h, batch):
    """One loss for each row, [n]."""
    return tf.reduce_sum((h - batch.y) ** 2, axis=1)


def entropies(h, batch):
    """One loss for each row, [n]."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=batch.k, logits=h)


def mean(h, batch):
    return tf.reduce_mean(entropies(h, batch))


def half_a_sum(h, batch):
    return tf.reduce_sum(squares(h, batch)) / 2.0


def l2_loss(h, batch):
    return 0.1 * tf.nn.l2_loss(h - one_hot(batch.k))


def sum_by_size(h, batch):
    return tf.reduce_sum(squares(h, batch)) / tf.cast(tf.shape(h)[0], F64)


def sum_by_elements(h, batch):
    return tf.reduce_sum((h - batch.y) ** 2) / tf.cast(tf.size(h), F64)


def root_of_a_mean(h, batch):
    return tf.sqrt(tf.reduce_mean(squares(h, batch)))


def mean_by_largest(h, batch):
    rows = squares(h, batch)
    return tf.reduce_mean(rows) * tf.reduce_max(rows)


def largest(h, batch):
    return tf.reduce_max(entropies(h, batch))


def smallest(h, batch):
    return tf.reduce_min(tf.exp(h[:, 0]) + entropies(h, batch))


def log_of_a_product(h, batch):
    return tf.log(tf.reduce_prod(1.0 + 0.1 * squares(h, batch)))


def log_sum_exp(h, batch):
    return tf.reduce_logsumexp(h - one_hot(batch.k), axis=0)[1] + tf.reduce_logsumexp(h)


def norm(h, batch):
    return tf.norm(h - one_hot(batch.k)) + tf.norm(h - batch.y, ord=1)


def einsum(h, batch):
    difference = h - one_hot(batch.k)
    return 0.1 * tf.einsum("ni,ni->", difference, difference)


def product_with_itself(h, batch):
    residuals = h[:, :1] - batch.y
    return tf.squeeze(tf.matmul(residuals, residuals, transpose_a=True)) / 9.0


def tensordot(h, batch):
    return tf.tensordot(h - batch.y, h - one_hot(batch.k), [[0, 1], [0, 1]]) / 5.0


def weighted(h, batch):
    """By the number of weights that are not 0, as `tf.losses` does it, which casts to float32."""
    rows = batch.weight * ((h - batch.y) ** 2 - one_hot(batch.k) * tf.nn.log_softmax(h))
    count = 3.0 * tf.cast(tf.math.count_nonzero(batch.weight), F64)
    return tf.math.divide_no_nan(tf.reduce_sum(rows), count)


def masked(h, batch):
    kept = tf.boolean_mask(squares(h, batch), batch.k > 0)
    return tf.reduce_sum(kept) / (1.0 + tf.cast(tf.shape(kept)[0], F64))


def mask_by_product(h, batch):
    mask = tf.cast(batch.k > 0, F64)
    return tf.reduce_sum(mask * squares(h, batch)) / tf.maximum(tf.reduce_sum(mask), 1.0)


def gathered(h, batch):
    """Rows of class 1, by their places."""
    places = tf.where(tf.equal(batch.k, 1))[:, 0]
    return tf.reduce_sum(tf.gather(h, places) ** 2) / (1.0 + tf.cast(tf.size(places), F64))


def picked(h, batch):
    """Each row's output of its class, by pairs of places."""
    pairs = tf.stack([tf.range(tf.shape(h)[0]), batch.k], axis=1)
    return -tf.reduce_mean(tf.gather_nd(tf.nn.log_softmax(h), pairs))


def focal(h, batch):
    logs = tf.reduce_sum(one_hot(batch.k) * tf.nn.log_softmax(h), axis=1)
    return -tf.reduce_mean((1.0 - tf.exp(logs)) ** 2 * logs)


def huber(h, batch):
    error = tf.abs(h[:, 2:] - batch.y)
    return tf.reduce_mean(tf.where(error < 0.5, 0.5 * error**2, 0.5 * error - 0.125))


def hinge(h, batch):
    return tf.reduce_mean(tf.nn.relu(0.3 - h[:, 1:2] * tf.sign(batch.y))) ** 2


def sigmoid(h, batch):
    return tf.reduce_sum(
        tf.nn.sigmoid_cross_entropy_with_logits(labels=one_hot(batch.k), logits=h), [0, 1]
    ) / (3.0 * tf.cast(tf.shape(batch.k)[0], F64))


def cosine(h, batch):
    rows = tf.nn.l2_normalize(one_hot(batch.k), 1) * tf.nn.l2_normalize(h, 1)
    return tf.reduce_mean(1.0 - tf.reduce_sum(rows, axis=1))


def evidence(h, batch):
    """The loss of a variational network, which takes its noise from a feature."""
    mean_, log_variance = h[:, :1], h[:, 1:2]
    sample = mean_ + tf.exp(log_variance / 2) * batch.x[:, :1]
    divergence = 0.5 * tf.reduce_sum(tf.exp(log_variance) + mean_**2 - 1.0 - log_variance, 1)
    return tf.reduce_mean((sample - batch.y)[:, 0] ** 2 + 0.1 * divergence)


def quantiles(h, batch):
    """Pinball losses of three quantiles."""
    levels = tf.constant([[0.1, 0.5, 0.9]], F64)
    error = batch.y - h
    return tf.reduce_mean(tf.maximum(levels * error, (levels - 1.0) * error))


def steps_of_rows(h, batch):
    """Each row is spread over its five steps, and rows and steps are one axis."""
    spread = tf.reshape(h[:, None] + batch.steps, [-1, 3])
    targets = tf.reshape(tf.tile(batch.y[:, None], [1, 5, 1]), [-1, 1])
    return tf.reduce_mean((spread - targets) ** 2)


def while_loop(h, batch):
    turned = tf.while_loop(
        lambda step, _: step < 3,
        lambda step, state: (step + 1, tf.tanh(state + h)),
        [tf.constant(0), batch.x[:, :3]],
    )[1]
    return tf.reduce_mean((turned - batch.y) ** 2)


def cond(h, batch):
    """A branch that the batch chooses."""
    return tf.cond(
        tf.reduce_mean(batch.y) > 0,
        lambda: tf.reduce_mean(squares(h, batch)),
        lambda: tf.reduce_mean(entropies(h, batch)),
    )


def py_func(h, batch):
    doubled = tf.py_func(lambda rows: 2.0 * rows, [batch.x[:, :3]], F64)
    return tf.reduce_mean((h - tf.reshape(doubled, [-1, 3])) ** 2)


def map_fn(h, batch):
    rows = tf.map_fn(lambda row: tf.reduce_sum(row[0] ** 2 * row[1]), (h, batch.x[:, :3]), F64)
    return tf.reduce_mean(rows**2)


def many_terms(terms):
    """Returns the loss of so many terms, added up one by one."""

    def loss(h, batch):
        row, total = tf.reduce_mean(squares(h, batch)), tf.reduce_max(h)
        for term in range(terms):
            total = total + (row if term % 20 else tf.reduce_sum(h) * (0.5 - term % 3))
        return total / terms

    return loss


LOSSES = {
    function.__name__: function
    for function in (
        mean,
        half_a_sum,
        l2_loss,
        sum_by_size,
        sum_by_elements,
        root_of_a_mean,
        mean_by_largest,
        largest,
        smallest,
        log_of_a_product,
        log_sum_exp,
        norm,
        einsum,
        product_with_itself,
        tensordot,
        weighted,
        masked,
        mask_by_product,
        gathered,
        picked,
        focal,
        huber,
        hinge,
        sigmoid,
        cosine,
        evidence,
        quantiles,
        steps_of_rows,
        while_loop,
        cond,
        py_func,
        map_fn,
    )
}
