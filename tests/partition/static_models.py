"""Models that make use of what Python knows of a batch: its size.

Each is a function of `h`, [n, 3], of the `Batch` and of n as a number; it returns the loss.
"""

import numpy as np
import tensorflow.compat.v1 as tf

from partition import row_losses
from partition.model_inputs import F64, GLOROT, get_variable, one_hot, state


def sum_by_twice_the_size(h, batch, n):
    return tf.reduce_sum(row_losses.squares(h, batch)) / (2 * int(h.shape[0]))


def average_of_rows(h, batch, n):
    """Row by row, in Python."""
    total = 0.0
    for row, target in zip(tf.unstack(h), tf.unstack(batch.y)):
        total += tf.reduce_sum((row - target) ** 2)
    return total / n


def row_by_row(h, batch, n):
    """Each row by its index, beside the one before."""
    return tf.add_n([tf.reduce_sum((h[i] - h[i - 1]) ** 2) * (i + 1.0) for i in range(n)]) / n**2


def shape_in_full(h, batch, n):
    """Shapes, all of whose entries are numbers."""
    spread = tf.reshape(tf.reshape(batch.steps, [n, 15])[:, :12], [n * 4, 3])
    own = tf.reshape(tf.tile(h[:, None], [1, 4, 1]), [n * 4, 3])
    return tf.reduce_sum((own - spread) ** 2) / (n * 12)


def arrays(h, batch, n):
    """NumPy makes arrays of as many rows."""
    places = np.linspace(0.5, 1.5, n)
    weights = tf.constant(places[:, None] / places.sum())
    return tf.reduce_sum(weights * (h - batch.y) ** 2) + 0.1 * tf.reduce_sum(h * np.eye(n)[:, :3])


def made_for_rows(h, batch, n):
    """Zeros, ones and numbers for the rows, by the size in `params`."""
    ones, places = tf.ones([n, 1], F64), tf.cast(tf.range(n), F64)[:, None]
    bias = tf.concat([tf.zeros([n, 2], F64), tf.fill([n, 1], tf.constant(0.5, F64))], axis=1)
    return tf.reduce_mean((h + bias - ones * batch.y) ** 2 * (1.0 + places / n))


def places_of_rows(h, batch, n):
    rows = tf.gather(h, tf.range(n) // 2)
    picked = tf.gather_nd(h, tf.stack([tf.range(n), batch.k], axis=1))
    return tf.reduce_mean((rows - batch.y) ** 2) - tf.reduce_mean(picked)


def reversed_by_numbers(h, batch, n):
    back = tf.gather(h, list(range(n))[::-1])
    return tf.reduce_mean((h - back) ** 2) + 0.1 * tf.nn.l2_loss(h[n // 2 :])


def tells_rows_apart(h, batch, n):
    scores = tf.matmul(h, h, transpose_b=True) - 1e9 * tf.eye(n, dtype=F64)
    labels = tf.one_hot([(i + 1) % n for i in range(n)], n, dtype=F64)
    rows = tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=scores)
    return tf.reduce_mean(rows)


def in_one_part(h, batch, n):
    (part,) = tf.split(h, 1)
    return row_losses.mean(part, batch)


def in_halves(h, batch, n):
    """Halves of the batch, with the first row twice where the number of rows is odd."""
    even = h if n % 2 == 0 else tf.concat([h, h[:1]], axis=0)
    first, second = tf.split(even, 2)
    return tf.reduce_mean((first - second) ** 2) + tf.reduce_max(first) * tf.reduce_mean(second)


def in_uneven_parts(h, batch, n):
    first, second = tf.split(h, [n - 3, 3])
    return tf.reduce_mean(first**2) * (1.0 + tf.reduce_mean((second - batch.y[:3]) ** 2))


def in_microbatches(h, batch, n):
    """Means over parts of a size that divides the batch, each clipped, and their mean."""
    parts = [size for size in range(2, n) if n % size == 0] or [n]
    losses = tf.reshape(row_losses.entropies(h, batch), [parts[0], -1])
    return tf.reduce_mean(tf.minimum(tf.reduce_mean(losses, axis=1), 2.0) ** 2)


def as_many_units(h, batch, n):
    """A layer that happens to have as many units as there are rows."""
    wide = tf.tanh(h @ get_variable("wide", [3, n]) + get_variable("bias", [n]))
    square = wide * tf.reduce_sum(wide, axis=0) + tf.reduce_mean(wide, axis=1, keepdims=True)
    return tf.reduce_mean((square @ get_variable("out", [n, 3]) - batch.y) ** 2)


def state_of_rows(h, batch, n):
    """Each place in the batch has a state that goes on from step to step."""
    memory = state("memory", [n, 3])
    now = tf.tanh(h + 0.5 * memory.read_value())
    with tf.control_dependencies([tf.assign(memory, tf.stop_gradient(now))]):
        return tf.reduce_mean((tf.identity(now) - batch.y) ** 2)


def weights_of_rows(h, batch, n):
    """Each place in the batch has a weight that is trained."""
    weights = tf.nn.softmax(get_variable("weights", [n, 1]), axis=0)
    return tf.reduce_sum(weights * (h - one_hot(batch.k)) ** 2)


def lstm_of_a_known_state(h, batch, n):
    cell = tf.nn.rnn_cell.LSTMCell(3, initializer=GLOROT())
    start = cell.zero_state(n, F64)
    outputs, _ = tf.nn.static_rnn(cell, tf.unstack(batch.steps, axis=1), initial_state=start)
    return tf.reduce_mean((outputs[-1] + h - batch.y) ** 2)


def gru_of_a_known_state(h, batch, n):
    """A loop from a state of n rows, time first."""
    cell = tf.nn.rnn_cell.GRUCell(3, kernel_initializer=GLOROT())
    steps, start = tf.transpose(batch.steps, [1, 0, 2]), cell.zero_state(n, F64)
    outputs, last = tf.nn.dynamic_rnn(cell, steps, initial_state=start, time_major=True)
    return tf.reduce_mean((last + h - batch.y) ** 2) + tf.reduce_mean(outputs**2)


def asserted(h, batch, n):
    """Assertions of shapes and values hold of the whole batch."""
    h.shape.assert_is_compatible_with([n, 3])
    count = tf.reduce_sum(tf.one_hot(batch.k, 3))
    checks = [
        tf.debugging.assert_equal(tf.shape(h)[0], n),
        tf.debugging.assert_less(count, n + 0.5),
        tf.debugging.assert_greater(count, n - 0.5),
    ]
    with tf.control_dependencies(checks):
        return row_losses.mean(tf.identity(h), batch)


LOSSES = {
    function.__name__: function
    for function in (
        sum_by_twice_the_size,
        average_of_rows,
        row_by_row,
        shape_in_full,
        arrays,
        made_for_rows,
        places_of_rows,
        reversed_by_numbers,
        tells_rows_apart,
        in_one_part,
        in_halves,
        in_uneven_parts,
        in_microbatches,
        as_many_units,
        state_of_rows,
        weights_of_rows,
        lstm_of_a_known_state,
        gru_of_a_known_state,
        asserted,
    )
}
