"""Losses of entries that a batch selects, of `h`, [n, 3], and of the `Batch`.

No rule has the order of these entries, so they are joined; the networks behind them run in towers.
"""

import tensorflow.compat.v1 as tf

from partition.model_inputs import F64, get_variable


def _network(x, width=3, name=""):
    w, v = get_variable(f"w{name}", [width, 4]), get_variable(f"v{name}", [4, 2])
    return tf.tanh(tf.tanh(x @ w) * 2.0 @ v)


def every_other(h, batch):
    return tf.reduce_mean((_network(h[::2]) - batch.y[::2]) ** 2)


def sorted_rows(h, batch):
    """All rows, in an order that depends on them."""
    order = tf.argsort(h[:, 0])
    shift = _network(tf.gather(h, order))
    return tf.reduce_sum((shift[1:] - shift[:-1]) ** 2) * 0.1 + tf.reduce_max(shift)


def first_half(h, batch):
    """A task adapts to some rows, and is tested on the others."""
    half = (tf.shape(h)[0] + 1) // 2
    w = get_variable("w", [3, 1])
    inner = tf.reduce_mean((tf.tanh(h[:half] @ w) - batch.y[:half]) ** 2)
    (slope,) = tf.gradients(inner, w)
    outer = (tf.tanh(h @ (w - 0.3 * slope)) - batch.y) ** 2
    return tf.reduce_sum(outer[half:]) + inner


def worst(h, batch):
    """A second network sees the rows that the first is least sure of."""
    many = tf.minimum(tf.shape(h)[0], 4) if h.shape.as_list()[0] is None else 4
    places = tf.nn.top_k(-tf.abs(h[:, 0]), many).indices
    made = _network(tf.gather(batch.x, places), 4)
    return tf.reduce_sum(made**2) * 0.1 - tf.reduce_min(made)


def all_pairs(h, batch):
    """Each row with each later one."""
    rows = tf.range(tf.shape(h)[0])
    pairs = tf.where(rows[:, tf.newaxis] < rows)
    both = tf.concat([tf.gather(h, pairs[:, 0]), tf.gather(batch.x, pairs[:, 1])], 1)
    return tf.reduce_sum(_network(both, 7)) * 0.1


def distinct(h, batch):
    """Each class is embedded once."""
    classes, places = tf.unique(batch.k)
    table = get_variable("table", [3, 3])
    return tf.reduce_mean((tf.gather(_network(tf.gather(table, classes)), places) - h[:, :2]) ** 2)


def experts(h, batch):
    """A mixture of experts, sorted by expert, as Tensor2Tensor dispatches rows."""
    gates = tf.nn.softmax(h)
    best = tf.nn.top_k(gates, 2).indices
    gates *= tf.reduce_sum(tf.one_hot(best, 3, dtype=F64), 1)
    expert, row = tf.unstack(tf.where(tf.transpose(gates) > 0), axis=1)
    sizes = tf.reduce_sum(tf.cast(gates > 0, tf.int32), 0)
    parts = tf.split(tf.gather(batch.x, row), sizes, num=3)
    made = tf.concat([_network(part, 4, str(index)) for index, part in enumerate(parts)], 0)
    made *= tf.gather(tf.reshape(gates, [-1]), row * 3 + expert)[:, tf.newaxis]
    return tf.reduce_mean((tf.math.unsorted_segment_sum(made, row, tf.shape(h)[0]) - h[:, :2]) ** 2)


def attended(h, batch):
    """Heads of attention, whose reshapes need the number of entries."""
    steps = batch.steps[1::2]
    w = get_variable("w", [3, 6])
    n, time = tf.shape(steps)[0], tf.shape(steps)[1]
    queries = tf.reshape(tf.tensordot(steps, w, 1), [n, time, 2, 3])
    queries = tf.transpose(queries, [0, 2, 1, 3])
    scores = tf.nn.softmax(tf.matmul(queries, queries, transpose_b=True))
    heads = tf.transpose(scores @ queries, [0, 2, 1, 3])
    made = tf.tanh(tf.reshape(heads, [-1, 6]) @ tf.transpose(w))
    return tf.reduce_sum(made**2) * 0.1 + tf.reduce_mean(h**2)


def every_other_image(h, batch):
    """Convolutions, which need a row in each tower, and so a known number of them."""
    kernel = get_variable("kernel", [3, 3, 2, 2])
    maps = tf.nn.relu(tf.nn.conv2d(batch.image[::2], kernel, 1, "SAME"))
    return tf.reduce_mean(tf.nn.max_pool2d(maps, 2, 2, "VALID")) + tf.reduce_mean(h**2)


def beside_as_many_in_blocks(h, batch):
    """A tower has other numbers of blocks and of even entries, whose sizes are equal."""
    both = tf.concat([h, 1.3 * h], 0)
    w, v, many = get_variable("w", [3, 6]), get_variable("v", [3, 6]), tf.shape(both)[0]
    a = tf.reshape(both @ w, [many, 2, 3])
    b = tf.reshape(tf.reverse(both, [0]) @ v, [many, 2, 3])
    return tf.reduce_sum(a**2) * 0.1 + tf.reduce_sum(b**2) * 0.1


def as_keys(h, batch):
    """All rows look at every other one, by a product with a network's results for these."""
    scores = _network(h) @ tf.transpose(_network(h[::2], 3, "keys"))
    return tf.reduce_mean(tf.reduce_logsumexp(scores, 1))


def each_with_each(h, batch):
    scores = _network(h[::2]) @ tf.transpose(_network(h[1::2], 3, "others"))
    return tf.reduce_sum(scores**2) * 0.1


def shifted_steps(h, batch):
    """Steps of time are first where they are shifted, and rows where a network takes them."""
    steps = tf.roll(tf.transpose(batch.steps, [1, 0, 2]), 1, 1)
    w = get_variable("w", [3, 4])
    made = tf.tensordot(tf.transpose(steps, [1, 0, 2]), w, 1)
    return tf.reduce_sum(tf.tanh(made) ** 2) * 0.1 + tf.reduce_mean(h**2)


LOSSES = {
    "every_other": every_other,
    "sorted_rows": sorted_rows,
    "first_half": first_half,
    "worst": worst,
    "all_pairs": all_pairs,
    "distinct": distinct,
    "experts": experts,
    "attended": attended,
    "every_other_image": every_other_image,
    "beside_as_many_in_blocks": beside_as_many_in_blocks,
    "as_keys": as_keys,
    "each_with_each": each_with_each,
    "shifted_steps": shifted_steps,
}
