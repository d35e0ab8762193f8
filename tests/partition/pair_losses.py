"""Losses that compare the rows of a batch with each other, pair by pair."""

import tensorflow.compat.v1 as tf

from partition.model_inputs import F64, one_hot


def unit(h):
    return h / tf.sqrt(tf.reduce_sum(h**2, axis=1, keepdims=True) + 1e-3)


def distances(a, b):
    """Squared distances of all pairs of rows, [n, n]."""
    return tf.reduce_sum((a[:, None] - b[None]) ** 2, axis=2)


def off_diagonal(square):
    return square - tf.linalg.diag(tf.linalg.diag_part(square))


def negatives(h, batch):
    """The other rows' targets are what a row is told from."""
    targets = tf.tanh(h) + one_hot(batch.k)
    scores = tf.matmul(h, targets, transpose_b=True)
    places = tf.range(tf.shape(h)[0])
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=places, logits=scores)
    )


def both_ways(h, batch):
    """As `negatives`, from rows to targets and back."""
    scores = tf.matmul(unit(h), unit(batch.x[:, :3]), transpose_b=True) / 0.5
    same = tf.eye(tf.shape(h)[0], dtype=F64)
    there = tf.nn.softmax_cross_entropy_with_logits_v2(labels=same, logits=scores)
    back = tf.nn.softmax_cross_entropy_with_logits_v2(labels=same, logits=tf.transpose(scores))
    return tf.reduce_mean(there + back) / 2.0


def nt_xent(h, batch):
    """Two views of each row, concatenated; all 2n rows are told from each other."""
    views = tf.concat([unit(h), unit(h + batch.x[:, :3])], axis=0)
    scores = off_diagonal(tf.matmul(views, views, transpose_b=True) / 0.5)
    scores -= 1e9 * tf.eye(tf.shape(views)[0], dtype=F64)
    n = tf.shape(h)[0]
    places = tf.concat([tf.range(n) + n, tf.range(n)], axis=0)
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=places, logits=scores)
    )


def numbered_views(h, batch):
    """Two views of each row and their targets, concatenated alike, so labels count all of them."""
    views = tf.concat([unit(h), unit(h + batch.x[:, :3])], axis=0)
    targets = tf.concat([unit(batch.x[:, :3]), unit(h)], axis=0)
    scores = tf.matmul(views, targets, transpose_b=True)
    places = tf.range(tf.shape(scores)[0])
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=places, logits=scores)
    )


def all_pairs(h, batch):
    return tf.reduce_mean(distances(h, h) * tf.abs(batch.y - tf.transpose(batch.y)))


def all_pairs_by_product(h, batch):
    """Distances from a Gram matrix, and one triangle of them."""
    gram = tf.matmul(h, h, transpose_b=True)
    diagonal = tf.linalg.diag_part(gram)
    square = diagonal[:, None] - 2.0 * gram + diagonal[None]
    return tf.reduce_sum(tf.linalg.band_part(square, 0, -1)) / tf.cast(tf.size(h[:, 0]), F64) ** 2


def triplets(h, batch):
    """Hinges of all triplets of rows whose first two are of one class, [n, n, n]."""
    square = distances(h, h)
    same = tf.cast(tf.equal(batch.k[:, None], batch.k[None]), F64)
    valid = same[:, :, None] * (1.0 - same[:, None])
    hinges = tf.nn.relu(square[:, :, None] - square[:, None] + 0.2) * valid
    return tf.reduce_sum(hinges) / (1.0 + tf.reduce_sum(valid))


def hardest_triplets(h, batch):
    square = distances(h, h)
    same = tf.cast(tf.equal(batch.k[:, None], batch.k[None]), F64)
    farthest = tf.reduce_max(square * same, axis=1)
    nearest = tf.reduce_min(square + 1e3 * same, axis=1)
    return tf.reduce_mean(tf.nn.softplus(farthest - nearest + 1e3 * tf.cast(nearest > 1e2, F64)))


def pairwise_ranking(h, batch):
    scores, better = h[:, 0], tf.cast(batch.y > tf.transpose(batch.y), F64)
    margins = tf.nn.softplus(scores[None] - scores[:, None])
    return tf.reduce_sum(better * margins) / (1.0 + tf.reduce_sum(better))


def hazard(h, batch):
    """Cox regression: the risk of those whose time is not over."""
    at_risk = tf.cast(batch.y <= tf.transpose(batch.y), F64)
    risk = tf.log(tf.matmul(at_risk, tf.exp(h[:, :1])))
    return -tf.reduce_sum(batch.weight * (h[:, :1] - risk)) / (tf.reduce_sum(batch.weight) + 1.0)


def mmd(h, batch):
    """Two samples' discrepancy by a kernel."""

    def kernel(a, b):
        return tf.reduce_mean(tf.exp(-distances(a, b) / 2.0))

    x = batch.x[:, :3]
    return kernel(h, h) + kernel(x, x) - 2.0 * kernel(h, x)


def sinkhorn(h, batch):
    """Nine normalisations of rows and columns, from which an assignment comes."""
    plan = tf.exp(-distances(h, batch.x[:, :3]) / 2.0) + 1e-3
    for turn in range(9):
        plan /= tf.reduce_sum(plan, axis=turn % 2, keepdims=True)
    return tf.reduce_mean(tf.reduce_sum(plan * distances(h, batch.x[:, :3]), axis=1))


def attention_over_rows(h, batch):
    weights = tf.nn.softmax(tf.matmul(h, h, transpose_b=True))
    return tf.reduce_mean((tf.matmul(weights, batch.x[:, :3]) - h) ** 2)


LOSSES = {
    function.__name__: function
    for function in (
        negatives,
        both_ways,
        nt_xent,
        numbered_views,
        all_pairs,
        all_pairs_by_product,
        triplets,
        hardest_triplets,
        pairwise_ranking,
        hazard,
        mmd,
        sinkhorn,
        attention_over_rows,
    )
}
