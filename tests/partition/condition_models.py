"""Losses with conditions in them, of `h`, [n, 3], and of the `Batch`, as `row_losses` are."""

import tensorflow.compat.v1 as tf

from partition.model_inputs import F64, GLOROT, get_variable, state


def _error(outputs, batch):
    return tf.reduce_mean((outputs - batch.y) ** 2)


def by_rows(h, batch):
    """All rows decide which branch runs."""
    w = get_variable("w", [3, 3])
    return _error(tf.cond(tf.reduce_mean(h) > 0, lambda: tf.tanh(h @ w), lambda: h * 2.0), batch)


def by_steps(h, batch):
    """In every other step another one."""
    w, v = get_variable("w", [3, 3]), get_variable("v", [3, 3])
    is_even = tf.equal(tf.train.get_or_create_global_step() % 2, 0)
    return _error(tf.cond(is_even, lambda: tf.tanh(h @ w), lambda: tf.nn.relu(h @ v)), batch)


def constants(h, batch):
    """One branch does not depend on the rows, but returns as many."""
    n = tf.shape(h)[0]
    made = tf.cond(
        h[0, 0] > 0,
        lambda: tf.zeros([n, 3], F64),
        lambda: h + tf.fill([n, 1], tf.constant(2.0, F64)),
    )
    return _error(made + h, batch)


def sizes(h, batch):
    """Sizes come out of a branch, and are computed in one."""

    def wide():
        return tf.reshape(tf.tile(h[:, None], [1, 2, 1]), [-1, 3])[: tf.shape(h)[0]], tf.shape(h)[0]

    made, size = tf.cond(h[0, 1] > 0, wide, lambda: (h * 0.5, tf.constant(7)))
    return tf.reduce_sum((made - batch.y) ** 2) / tf.cast(size, F64)


def sizes_alone(h, batch):
    """A branch takes nothing but a size, which does not tell that the branch is not taken."""
    n = tf.size(h)
    error = tf.reduce_sum((h[:, 0] - batch.x[:, 0]) ** 2)

    def counted():
        return tf.cast(tf.size(h), F64)

    def inner():
        return tf.cond(h[0, 0] > 1e9, counted, lambda: tf.reduce_sum(tf.abs(h)) + 1.0)

    by = tf.cond(error > 1e9, lambda: tf.cast(n, F64), inner)
    _, more = tf.while_loop(
        lambda i, _: i < 2,
        lambda i, a: (i + 1, a + tf.cond(i > 7, counted, lambda: tf.constant(0.1, F64))),
        (0, h),
    )
    return _error(more, batch) + error / by


def variables_decide(h, batch):
    """A variable is the predicate itself, and is read again after it has changed."""
    is_odd = tf.get_variable(
        "is_odd", [], tf.bool, tf.zeros_initializer(), trainable=False, use_resource=False
    )
    n = tf.shape(h)[0]

    def chosen(predicate):
        return tf.cond(predicate, lambda: tf.cast(n, F64), lambda: tf.sqrt(tf.cast(n, F64)))

    before = chosen(is_odd)
    with tf.control_dependencies([before]):
        change = tf.assign(is_odd, tf.logical_not(is_odd.read_value()))
    with tf.control_dependencies([change]):
        after = chosen(is_odd.read_value())
    return _error(h, batch) * before + after


def statistics(h, batch):
    """Normalises by all rows, or by what was seen before."""
    mean = state("mean", [3])
    is_first = tf.equal(tf.train.get_or_create_global_step(), 0)

    def now():
        found = tf.reduce_mean(h, 0)
        with tf.control_dependencies([tf.assign(mean, found)]):
            return tf.identity(found)

    return _error(h - tf.cond(is_first, now, lambda: mean.read_value() + 0.0), batch)


def nested(h, batch):
    def inner():
        return tf.cond(h[0, 0] > 0, lambda: tf.tanh(h), lambda: h * h)

    return _error(tf.cond(tf.reduce_max(h) > 0.2, inner, lambda: -h), batch)


def losses(h, batch):
    """Each branch has a loss, a number, of its own."""
    loss = tf.cond(
        tf.reduce_min(h) < -0.1,
        lambda: tf.reduce_mean(tf.abs(h - batch.y)),
        lambda: tf.reduce_max(h) + tf.reduce_sum(h * h),
    )
    return loss + _error(h, batch)


def gradients_inside(h, batch):
    """A penalty of a gradient, taken in a branch."""

    def penalty():
        return tf.reduce_mean(tf.gradients(tf.reduce_sum(tf.tanh(h) ** 2), [h])[0] ** 2)

    return _error(h, batch) + tf.cond(h[0, 0] > 0, penalty, lambda: tf.constant(0.0, F64))


def parts(h, batch):
    """A product that sums over rows passes through a condition."""
    w = get_variable("w", [3, 3])
    product = tf.cond(h[0, 2] > 0, lambda: tf.matmul(h, h @ w, transpose_a=True), lambda: w * 2.0)
    return tf.reduce_sum(product**2) + _error(h, batch)


def either_way(h, batch):
    """A sum over rows enters both branches."""
    total = tf.nn.l2_loss(h)

    def inner():
        return tf.cond(h[0, 1] > 0, lambda: -total, lambda: tf.sin(total))

    return _error(h, batch) + tf.cond(tf.reduce_mean(h) > 0, inner, lambda: total)


def loops(h, batch):
    """A loop in a branch, and a branch in a loop."""

    def body(i, a):
        return i + 1, tf.cond(tf.equal(i, 1), lambda: tf.tanh(a), lambda: a + h)

    def around():
        return tf.while_loop(lambda i, _: i < tf.shape(h)[0], lambda i, a: (i + 4, a * 0.9), (0, h))

    made = tf.while_loop(lambda i, _: i < 3, body, (0, h))[1]
    return _error(made + tf.cond(h[0, 0] > 0, around, lambda: (3, h))[1], batch)


def _steps(h):
    """Returns steps of each row, [3, n, 3]."""
    return tf.stack([h, tf.tanh(h), h * 0.5])


def recurrences(h, batch):
    """Each branch goes through time in its own way, with lengths or without."""
    w = get_variable("recurrent", [3, 3])
    steps = _steps(h)
    lengths = tf.cast(h[:, 0] > 0, tf.int32) + 1

    def by_network():
        cell = tf.nn.rnn_cell.GRUCell(3, name="cell", kernel_initializer=GLOROT())
        return tf.nn.dynamic_rnn(cell, steps, lengths, dtype=F64, time_major=True)[1]

    def by_scan():
        return tf.scan(lambda a, b: tf.tanh(a @ w + b), steps, tf.zeros_like(h))[-1]

    return _error(tf.cond(tf.reduce_mean(h) > 0.05, by_network, by_scan), batch)


def normalisers(h, batch):
    """The normaliser of a conditional random field, of sentences of one word and of longer ones."""
    transitions = get_variable("transitions", [3, 3])
    steps = _steps(h)

    def long():
        def round_(t, a):
            scores = a[:, :, None] + transitions[None]
            return t + 1, tf.reduce_logsumexp(scores, 1) + steps[t]

        return tf.reduce_logsumexp(
            tf.while_loop(lambda t, _: t < tf.shape(steps)[0], round_, (1, steps[0]))[1], 1
        )

    short = tf.equal(tf.shape(steps)[0], 1)
    norm = tf.cond(short, lambda: tf.reduce_logsumexp(steps[0], 1), long)
    never = tf.cond(tf.shape(h)[0] > 100, long, lambda: tf.reduce_sum(h, 1))
    return tf.reduce_mean(norm) + tf.reduce_mean(never**2)


def loops_in_loops(h, batch):
    """Loops in a branch of a round of a loop in a branch, of different numbers of rounds."""
    step = tf.cast(tf.train.get_or_create_global_step(), tf.int32)

    def inner(i, a):
        return tf.while_loop(
            lambda j, _: j < i, lambda j, b: (j + 1, tf.tanh(b) + 0.1 * h), (0, a)
        )[1]

    def body(i, a):
        return i + 1, tf.cond(tf.equal(i % 2, 1), lambda: inner(i, a), lambda: a * 0.5)

    def outer():
        return tf.while_loop(lambda i, _: i < 3, body, (0, h))[1]

    def mapped():
        return tf.map_fn(lambda row: tf.sin(row), h)

    made = tf.cond(tf.equal(step % 2, 0), outer, lambda: tf.cond(h[0, 0] > 0, mapped, lambda: h))
    return _error(made, batch)


def constants_in_loops(h, batch):
    """Loops in branches that begin with zeros of rows, add up parts, and take what is outside."""
    total = tf.reduce_sum(h, 0)

    def added():
        return tf.while_loop(
            lambda i, _: i < 3,
            lambda i, a: (i + 1, a + tf.reduce_sum(tf.tanh(h) * tf.cast(i, F64), 0)),
            (0, tf.zeros([3], F64)),
        )[1]

    def from_zeros():
        begin = tf.zeros([tf.shape(h)[0], 3], F64)
        made = tf.while_loop(
            lambda i, _: i < 2, lambda i, a: (i + 1, tf.sin(a) + h * total), (0, begin)
        )[1]
        return tf.reduce_sum(made, 0)

    made = tf.cond(tf.reduce_max(h) > 0.1, added, from_zeros)
    return _error(h, batch) + tf.reduce_mean(made**2) / 10


def lists_after_rows(h, batch):
    """The same rows decide twice: once which rows are taken, and once which list."""
    w = get_variable("w", [3, 3])
    are_small = tf.reduce_all(h < 100.0)
    rows = tf.cond(are_small, lambda: tf.tanh(h @ w), lambda: h * 2.0)
    given = tf.TensorArray(F64, size=2, element_shape=[None, 3]).unstack([rows, rows * h])
    taken = tf.cond(are_small, lambda: given.read(1), lambda: tf.zeros_like(h))
    return _error(taken + given.read(0), batch)


def of_unknown_shape(h, batch):
    """The condition may be a vector, as far as the graph knows."""
    w = get_variable("w", [3, 3])
    holds = tf.reshape(tf.reduce_mean(h) > 0, tf.shape(h)[:0])
    holds = tf.placeholder_with_default(holds, None)
    return _error(tf.cond(holds, lambda: tf.tanh(h @ w), lambda: tf.tanh(h * 2.0)), batch)


def merged_by_hand(h, batch):
    """A condition without a context, whose zeros know from a shape alone which branch runs."""
    w = get_variable("w", [3, 3])
    otherwise, then = tf.raw_ops.Switch(data=h, pred=tf.reduce_mean(h) > 0)
    zeros = tf.zeros(tf.shape(otherwise), F64)
    return _error(tf.raw_ops.Merge(inputs=[tf.tanh(then @ w), zeros]).output + h, batch)


LOSSES = {
    loss.__name__: loss
    for loss in (
        *(
            by_rows,
            by_steps,
            constants,
            sizes,
            sizes_alone,
            variables_decide,
            statistics,
            nested,
            losses,
        ),
        *(gradients_inside, parts, either_way, loops, recurrences, normalisers, loops_in_loops),
        *(constants_in_loops, lists_after_rows, of_unknown_shape, merged_by_hand),
    )
}
