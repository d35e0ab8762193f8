"""States that are made of batches and outlive them, in functions as in `gradient_models`."""

import tensorflow.compat.v1 as tf

from partition import pair_losses, row_losses
from partition.model_inputs import F64, get_variable, one_hot, state


def moving_centres(step):
    """Centres of classes follow the rows of the batch."""
    centres = state("centres", [3, 3])
    apart = step.h - tf.gather(centres, step.batch.k)
    sums = tf.math.unsorted_segment_sum(apart, step.batch.k, 3)
    counts = tf.reduce_sum(one_hot(step.batch.k), axis=0)[:, None]
    loss = step.loss + 0.1 * tf.nn.l2_loss(apart)
    train_op = step.apply(tf.gradients(loss, step.weights))
    with tf.control_dependencies([train_op]):
        return tf.assign_add(centres, 0.5 * sums / (1.0 + counts))


def scattered_centres(step):
    """As `moving_centres`, row by row."""
    centres = get_variable("scattered", [3, 3], trainable=False)
    apart = step.h - tf.gather(centres, step.batch.k)
    train_op = step.apply(tf.gradients(step.loss + tf.reduce_mean(apart**2), step.weights))
    with tf.control_dependencies([train_op, apart]):
        return tf.scatter_add(centres, step.batch.k, 0.1 * tf.stop_gradient(apart)).op


def codebook(step):
    """Vector quantisation: codes are moving averages of the rows next to them."""
    codes = get_variable("codes", [4, 3], trainable=False)
    counts, sums = state("counts", [4], 1.0), state("sums", [4, 3])
    nearest = tf.argmin(pair_losses.distances(step.h, codes), axis=1)
    chosen = tf.one_hot(nearest, 4, dtype=F64)
    code = tf.gather(codes, nearest)
    committed = tf.reduce_mean((step.h - tf.stop_gradient(code)) ** 2)
    through = step.h + tf.stop_gradient(code - step.h)
    loss = row_losses.mean(through, step.batch) + 0.25 * committed
    train_op = step.apply(tf.gradients(loss, step.weights))
    counted = 0.9 * counts + 0.1 * tf.reduce_sum(chosen, axis=0)
    summed = 0.9 * sums + 0.1 * tf.matmul(chosen, tf.stop_gradient(step.h), transpose_a=True)
    share = (counted + 1e-3) / (tf.reduce_sum(counted) + 4e-3) * tf.reduce_sum(counted)
    with tf.control_dependencies([train_op]):
        moved = summed / share[:, None]
        return tf.group(
            tf.assign(counts, counted), tf.assign(sums, summed), tf.assign(codes, moved)
        )


def queue_of_keys(step):
    """Momentum contrast: keys of former batches are what rows are told from."""
    queue = get_variable("queue", [16, 3], trainable=False)
    slow = [state(f"slow{i}", w.shape, 0.1 * i - 0.1) for i, w in enumerate(step.weights)]
    keys = tf.tanh(step.batch.x @ slow[0] + slow[1]) @ slow[2] + step.batch.y
    same = tf.reduce_sum(step.h * keys, axis=1, keepdims=True)
    scores = tf.concat([same, tf.matmul(step.h, queue, transpose_b=True)], axis=1)
    labels = tf.zeros([tf.shape(step.h)[0]], tf.int32)
    rows = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores)
    loss = tf.reduce_mean(rows)
    following = tf.concat([keys, queue], axis=0)[:16]
    with tf.control_dependencies([step.apply(tf.gradients(loss, step.weights)), following]):
        moved = [tf.assign(s, 0.9 * s + 0.1 * w.read_value()) for s, w in zip(slow, step.weights)]
        return tf.group(tf.assign(queue, following), moved), {"contrast": loss}


def teacher(step):
    """Outputs follow those of the weights' average."""
    average = [state(f"average{i}", weight.shape) for i, weight in enumerate(step.weights)]
    taught = tf.tanh(step.batch.x @ average[0] + average[1]) @ average[2]
    loss = step.loss + tf.reduce_mean((step.h - tf.stop_gradient(taught)) ** 2)
    with tf.control_dependencies([step.apply(tf.gradients(loss, step.weights))]):
        pairs = zip(average, step.weights)
        return tf.group([tf.assign_add(a, 0.2 * (w.read_value() - a)) for a, w in pairs])


def moving_moments(step):
    """Batch norm by hand, with averages over batches, which are read before they move."""
    mean, variance = tf.nn.moments(step.h, [0])
    mean_, variance_ = state("mean", [3]), state("variance", [3], 1.0)
    before = tf.reduce_mean(((step.h - mean_) * tf.rsqrt(variance_ + 0.1)) ** 2)
    h = (step.h - mean) * tf.rsqrt(variance + 0.1)
    loss = row_losses.mean(h, step.batch) + 0.1 * before
    train_op = step.apply(tf.gradients(loss, step.weights))
    with tf.control_dependencies([train_op]):
        return tf.group(
            tf.assign_sub(mean_, 0.3 * (mean_ - mean)),
            tf.assign_sub(variance_, 0.3 * (variance_ - variance)),
        )


def counts_of_ids(step):
    """How often ids came up is what their rows weigh, from the next step on."""
    counts, ids = state("counts", [6]), step.batch.ids
    rare = 1.0 / (1.0 + tf.gather(counts, ids[:, 0]))
    loss = tf.reduce_sum(rare * row_losses.squares(step.h, step.batch)) / tf.reduce_sum(rare)
    with tf.control_dependencies([step.apply(tf.gradients(loss, step.weights))]):
        flat = tf.reshape(ids, [-1])
        return tf.scatter_add(counts, flat, tf.ones_like(flat, F64)).op


def threshold(step):
    """Rows whose loss was above what three quarters had in former batches do not count."""
    limit, rows = state("limit", [], 2.0), row_losses.squares(step.h, step.batch)
    kept = tf.cast(rows <= limit, F64)
    loss = tf.reduce_sum(kept * rows) / (1.0 + tf.reduce_sum(kept))
    ordered = tf.sort(tf.stop_gradient(rows))
    quantile = ordered[(3 * tf.size(rows)) // 4]
    with tf.control_dependencies([step.apply(tf.gradients(loss, step.weights))]):
        return tf.assign(limit, 0.5 * (limit + quantile))


UPDATES = {
    function.__name__: function
    for function in (
        moving_centres,
        scattered_centres,
        codebook,
        queue_of_keys,
        teacher,
        moving_moments,
        counts_of_ids,
        threshold,
    )
}
