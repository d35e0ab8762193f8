"""Losses that compare rows of a batch with each other, or with statistics of the batch."""

import tensorflow.compat.v1 as tf

from partition import pair_losses
from partition.model_inputs import F64, one_hot
from partition.row_losses import entropies, squares


def size(h):
    """The number of rows, a float64 scalar."""
    return tf.cast(tf.shape(h)[0], F64)


def hard_mining(h, batch):
    """The worst three of a batch; its last one has a single row."""
    rows = entropies(h, batch)
    return tf.reduce_mean(tf.nn.top_k(rows, tf.minimum(3, tf.size(rows)))[0])


def worst_half(h, batch):
    rows = tf.sort(squares(h, batch), direction="DESCENDING")
    return tf.reduce_mean(rows[: (tf.size(rows) + 1) // 2])


def centres(h, batch):
    """Distances to the means of classes over all rows of the batch."""
    means = tf.math.unsorted_segment_mean(h, batch.k, 3)
    return tf.reduce_mean((h - tf.gather(means, batch.k)) ** 2 - 0.1 * tf.reduce_max(means**2))


def segments(h, batch):
    sums = tf.math.unsorted_segment_sum(h, batch.k, 3)
    largest = tf.math.unsorted_segment_max(h[:, 0], batch.k, 3)
    return tf.reduce_mean(sums**2) + tf.reduce_sum(tf.maximum(largest, -1.0))


def class_weights(h, batch):
    """Rows weigh as their class is rare in the batch."""
    counts = tf.cast(tf.math.bincount(batch.k, minlength=3, maxlength=3), F64)
    weights = size(h) / (3.0 * tf.maximum(counts, 1.0))
    return tf.reduce_mean(tf.gather(weights, batch.k) * entropies(h, batch))


def class_weights_by_sums(h, batch):
    counts = tf.reduce_sum(one_hot(batch.k), axis=0)
    weights = tf.reduce_sum(one_hot(batch.k) / (counts + 1.0), axis=1)
    return tf.reduce_sum(weights * entropies(h, batch)) / tf.reduce_sum(weights)


def correlation(h, batch):
    a, b = h[:, :1] - tf.reduce_mean(h[:, :1]), batch.y - tf.reduce_mean(batch.y)
    spread = tf.sqrt((tf.reduce_sum(a**2) + 0.1) * (tf.reduce_sum(b**2) + 0.1))
    return 1.0 - tf.reduce_sum(a * b) / spread


def covariance(h, batch):
    """Outputs are to differ from each other over a batch."""
    centred = h - tf.reduce_mean(h, axis=0)
    matrix = tf.matmul(centred, centred, transpose_a=True) / size(h)
    spread = tf.sqrt(tf.linalg.diag_part(matrix) + 0.01)
    mixed = tf.reduce_sum(pair_losses.off_diagonal(matrix) ** 2)
    return mixed + tf.reduce_mean(tf.nn.relu(1.0 - spread))


def r_squared(h, batch):
    total = tf.reduce_sum((batch.y - tf.reduce_mean(batch.y)) ** 2)
    return tf.reduce_sum((h[:, :1] - batch.y) ** 2) / (total + 0.5)


def kappa(h, batch):
    """Agreement of classes beyond chance, with weights."""
    confusion = tf.matmul(one_hot(batch.k), tf.nn.softmax(h), transpose_a=True)
    chance = tf.matmul(
        tf.reduce_sum(confusion, 1, keepdims=True), tf.reduce_sum(confusion, 0, keepdims=True)
    ) / tf.reduce_sum(confusion)
    penalty = tf.constant([[0.0, 1.0, 4.0], [1.0, 0.0, 1.0], [4.0, 1.0, 0.0]], F64)
    return tf.reduce_sum(penalty * confusion) / (tf.reduce_sum(penalty * chance) + 0.1)


def dice(h, batch):
    overlap = tf.reduce_sum(tf.nn.softmax(h) * one_hot(batch.k), axis=0)
    total = tf.reduce_sum(tf.nn.softmax(h) + one_hot(batch.k), axis=0)
    return 1.0 - tf.reduce_mean((2.0 * overlap + 1.0) / (total + 1.0))


def f1(h, batch):
    p, t = tf.sigmoid(h[:, 0]), tf.cast(batch.k > 0, F64)
    hits = tf.reduce_sum(p * t)
    return 1.0 - 2.0 * hits / (2.0 * hits + tf.reduce_sum(p * (1 - t) + (1 - p) * t) + 0.1)


def listwise_ranking(h, batch):
    """The batch is a list: a softmax over rows."""
    return -tf.reduce_sum(tf.nn.softmax(batch.y, axis=0) * tf.nn.log_softmax(h[:, :1], axis=0))


def likelihood_of_order(h, batch):
    """Likelihood of the order of targets: rows are sorted, and the remaining ones summed up."""
    order = tf.argsort(batch.y[:, 0])
    scores = tf.gather(h[:, 0], order)
    left = tf.cumsum(tf.exp(scores), reverse=True)
    return tf.reduce_mean(tf.log(left) - scores)


def sorted_scores(h, batch):
    """Compares two samples in order, as a continuous ranked probability score does."""
    got, want = tf.sort(h[:, 0]), tf.sort(batch.y[:, 0])
    spread = tf.reduce_mean(tf.abs(h[:, :1] - tf.transpose(h[:, :1])))
    return tf.reduce_mean(tf.abs(got - want)) - 0.25 * spread


def median(h, batch):
    """The row in the middle is what others are compared with."""
    rows = squares(h, batch)
    middle = tf.sort(rows)[tf.size(rows) // 2]
    return tf.reduce_mean((rows - middle) ** 2)


def mixup(h, batch):
    """Each row meets the row that is as far from the end."""
    mixed = 0.7 * h + 0.3 * tf.reverse(h, [0])
    targets = 0.7 * one_hot(batch.k) + 0.3 * tf.reverse(one_hot(batch.k), [0])
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=targets, logits=mixed))


def next_rows(h, batch):
    """Rows follow each other in time: each value is the reward and the next one."""
    value, following = h[:-1, 0], tf.stop_gradient(h[1:, 0])
    error = batch.y[:-1, 0] + 0.9 * following - value
    return tf.reduce_sum(error**2) / 11.0 + tf.reduce_mean(h**2)


def rolled(h, batch):
    return tf.reduce_mean((h - tf.concat([h[1:], h[:1]], axis=0)) ** 2 - tf.roll(h, 2, 0) * batch.y)


def cumulative(h, batch):
    return tf.reduce_mean((tf.cumsum(h) - one_hot(batch.k)) ** 2) + tf.reduce_mean(
        tf.cumsum(h[:, 0], exclusive=True) * batch.y[:, 0]
    )


def products_of_rows(h, batch):
    return tf.reduce_mean(tf.cumprod(1.0 + 0.1 * tf.tanh(h) * batch.y) ** 2)


def entropy_of_mean(h, batch):
    """Each row is to be sure, and all of them together not."""
    p = tf.nn.softmax(h)
    mean_p = tf.reduce_mean(p, axis=0)
    own = -tf.reduce_mean(tf.reduce_sum(p * tf.log(p), axis=1))
    return own + tf.reduce_sum(mean_p * tf.log(mean_p))


def smoothing_by_batch(h, batch):
    common = tf.reduce_mean(one_hot(batch.k), axis=0)
    labels = tf.stop_gradient(0.8 * one_hot(batch.k) + 0.2 * common)
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=h))


def whitened(h, batch):
    """Batch norm that is written out."""
    mean, variance = tf.nn.moments(h, [0])
    return tf.reduce_mean(((h - mean) * tf.rsqrt(variance + 0.1) - batch.y) ** 2)


def decorrelated(h, batch):
    """The inverse root of a covariance, by its factor."""
    centred = h - tf.reduce_mean(h, axis=0, keepdims=True)
    matrix = tf.matmul(centred, centred, transpose_a=True) / size(h) + tf.eye(3, dtype=F64)
    white = tf.transpose(tf.linalg.triangular_solve(tf.linalg.cholesky(matrix), tf.transpose(h)))
    return tf.reduce_mean((white - batch.y) ** 2)


def least_squares(h, batch):
    """The best linear head for the batch, and what it leaves."""
    head = tf.linalg.lstsq(h, batch.y, l2_regularizer=0.1)
    return tf.reduce_mean((tf.matmul(h, head) - batch.y) ** 2)


def first_row(h, batch):
    return tf.reduce_mean((h - h[:1]) ** 2) + tf.reduce_sum(h[-1] ** 2)


def ratio_of_groups(h, batch):
    """Takes the larger of two groups' means, and penalises their difference."""
    rows = entropies(h, batch)
    one, other = tf.cast(batch.k > 0, F64), tf.cast(batch.k < 2, F64)
    first = tf.reduce_sum(rows * one) / (tf.reduce_sum(one) + 1.0)
    second = tf.reduce_sum(rows * other) / (tf.reduce_sum(other) + 1.0)
    return tf.maximum(first, second) + (first - second) ** 2


def unique_classes(h, batch):
    classes, places = tf.unique(batch.k)
    sums = tf.math.unsorted_segment_sum(squares(h, batch), places, tf.size(classes))
    return tf.reduce_max(sums) / size(h)


def partitioned(h, batch):
    """Rows go to experts by their class, and come back."""
    parts = tf.dynamic_partition(h, batch.k, 3)
    places = tf.dynamic_partition(tf.range(tf.shape(h)[0]), batch.k, 3)
    back = tf.dynamic_stitch(places, [part * (index + 1.0) for index, part in enumerate(parts)])
    return tf.reduce_mean((back - batch.y) ** 2)


LOSSES = {
    function.__name__: function
    for function in (
        hard_mining,
        worst_half,
        centres,
        segments,
        class_weights,
        class_weights_by_sums,
        correlation,
        covariance,
        r_squared,
        kappa,
        dice,
        f1,
        listwise_ranking,
        likelihood_of_order,
        sorted_scores,
        median,
        mixup,
        next_rows,
        rolled,
        cumulative,
        products_of_rows,
        entropy_of_mean,
        smoothing_by_batch,
        whitened,
        decorrelated,
        least_squares,
        first_row,
        ratio_of_groups,
        unique_classes,
        partitioned,
    )
}
