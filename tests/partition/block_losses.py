"""Losses of rows that an axis has several times, of `h`, [n, 3], and of the `Batch`."""

import tensorflow.compat.v1 as tf

from partition.model_inputs import F64, get_variable


def two_views(h, batch):
    """NT-Xent, the loss of SimCLR: each view tells its partner from all others."""
    views = tf.nn.l2_normalize(tf.concat([h, tf.tanh(h) + batch.x[:, :3] * 0.1], 0), 1)
    n = tf.shape(h)[0]
    scores = views @ tf.transpose(views) * 5.0 - 1e9 * tf.eye(2 * n, dtype=F64)
    partners = tf.concat([tf.range(n, 2 * n), tf.range(n)], 0)
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=partners, logits=scores)
    return tf.reduce_mean(loss)


def real_and_made(h, batch):
    """A discriminator sees both at once, and the halves are taken apart."""
    w = get_variable("w", [3, 1])
    n = tf.shape(h)[0]
    scores = tf.tanh(tf.concat([h, batch.x[:, 1:]], 0)) @ w
    mean = tf.reduce_mean(scores, 0) * tf.reduce_max(scores)
    real, made = scores[:n], scores[n:]
    return tf.reduce_mean(tf.square(real - 1.0) + tf.square(made) * real) + tf.reduce_sum(mean)


def split_halves(h, batch):
    w = get_variable("w", [3, 2])
    both = tf.tanh(tf.concat([h, batch.x[:, :3], h * 2.0], 0) @ w)
    one, other, last = tf.split(both, 3)
    return tf.reduce_mean(one * other + tf.square(last - batch.y))


def time_first(h, batch):
    """Layers of [time * n, d], as of time-major networks."""
    w, v = get_variable("w", [3, 4]), get_variable("v", [4, 3])
    steps = tf.transpose(batch.steps, [1, 0, 2])
    shape = tf.shape(steps)
    flat = tf.reshape(steps, [-1, 3])
    logits = tf.reshape(tf.tanh(flat @ w) @ v, [shape[0], shape[1], 3]) + h
    labels = tf.reshape(tf.tile(batch.k[tf.newaxis], [5, 1]), [-1])
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=tf.reshape(logits, [-1, 3])
    )
    return tf.reduce_mean(tf.reshape(loss, [shape[0], -1])[1:]) + tf.reduce_max(flat @ w)


def beams(h, batch):
    """Each row three times, one after the other, through a layer, and the best of these."""
    w = get_variable("w", [3, 3])
    tiled = tf.tile(h, [3, 1]) + tf.concat([h, 2.0 * h, batch.x[:, :3]], 0)
    scores = tf.reshape(tf.reduce_sum(tf.tanh(tiled @ w), 1), [3, -1])
    return tf.reduce_mean(tf.reduce_max(scores, 0)) + tf.reduce_mean(tiled**2)


def candidates(h, batch):
    """Rows and five candidates of each, embedded at once, and told apart by sizes and slices."""
    n = tf.shape(h)[0]
    others = tf.reshape(batch.steps, [-1, 3])
    embedded = tf.tanh(tf.concat([h, others, batch.x[:, :3]], 0) @ get_variable("w", [3, 4]))
    rows, steps, last = tf.split(embedded, [n, 5 * n, n])
    scores = tf.einsum("nd,nkd->nk", rows, tf.reshape(steps, [-1, 5, 4]))
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=batch.k, logits=scores)
    more = tf.concat([tf.tanh(embedded[n : 6 * n] * 2.0), last], 0)
    return tf.reduce_mean(loss) + tf.reduce_mean(more**2) - tf.reduce_max(embedded[:n])


def time_to_batch(h, batch):
    """A dilated convolution as of WaveNet: every second step is a row of its own."""
    n = tf.shape(h)[0]
    steps = tf.pad(batch.steps, [[0, 0], [1, 0], [0, 0]]) + h[:, tf.newaxis]
    apart = tf.transpose(tf.reshape(steps, [-1, 2, 3]), [1, 0, 2])
    rows = tf.reshape(apart, [n * 2, -1, 3])
    made = tf.tanh(tf.nn.conv1d(rows, get_variable("w", [2, 3, 4]), 1, "VALID"))
    back = tf.transpose(tf.reshape(made, [2, -1, 4]), [1, 0, 2])
    return tf.reduce_mean((tf.reshape(back, [n, -1, 4]) - batch.y[:, tf.newaxis]) ** 2)


def dilated_views(h, batch):
    """A dilated convolution of images and of two views of each."""
    views = tf.stack([batch.image * 0.5, tf.sin(batch.image)], 1)
    images = tf.concat([batch.image, tf.reshape(views, [-1, 6, 6, 2])], 0)
    kernel, nothing = get_variable("kernel", [3, 3, 2, 2]), [[0, 0], [0, 0]]
    apart = tf.nn.conv2d(tf.space_to_batch_nd(images, [2, 2], nothing), kernel, 1, "SAME")
    made = tf.tanh(tf.batch_to_space_nd(apart, [2, 2], nothing))
    n = tf.shape(h)[0]
    near = tf.reduce_sum(made[:n], [1, 2]) * h[:, 1:] - batch.y
    return tf.reduce_mean(made**2) - tf.reduce_max(made[n:]) + tf.reduce_mean(near**2) * 0.01


@tf.custom_gradient
def _reversed(one, other):
    return (tf.identity(one), other * 2.0), lambda a, b: (-0.1 * a, b)


def side_by_side(h, batch):
    """A gradient by hand of rows of one unit and of another."""
    two = tf.concat([h, batch.x[:, 1:]], 0) @ get_variable("w", [3, 3])
    three = tf.concat([h, h * 2.0, batch.x[:, :3]], 0) @ get_variable("v", [3, 3])
    two, three = _reversed(tf.tanh(two), tf.tanh(three))
    return tf.reduce_mean((two @ get_variable("u", [3, 1])) ** 2) + tf.reduce_mean(three**2)


LOSSES = {
    loss.__name__: loss
    for loss in (
        *(two_views, real_and_made, split_halves, time_first, beams, candidates, time_to_batch),
        *(dilated_views, side_by_side),
    )
}
