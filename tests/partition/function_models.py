"""Losses with functions of TensorFlow 2 in them, of `h`, [n, 3], and of the `Batch`."""

import tensorflow.compat.v1 as tf

from partition.model_inputs import F64, GLOROT, get_variable


def _error(outputs, batch):
    return tf.reduce_mean((outputs - batch.y) ** 2)


def _resource(name, shape, **kwargs):
    return get_variable(name, shape, use_resource=True, **kwargs)


def called(h, batch):
    """Captures a variable."""
    w = _resource("w", [3, 3])
    return _error(tf.function(lambda a: tf.tanh(a @ w))(h), batch)


def called_without_variables(h, batch):
    w = get_variable("w", [3, 3])
    return _error(tf.function(lambda a, b: tf.tanh(a @ b) - 0.1 * a)(h, w), batch)


def called_by_called(h, batch):
    w = _resource("w", [3, 3])

    @tf.function
    def inner(a):
        return tf.tanh(a @ w)

    @tf.function
    def outer(a):
        return inner(inner(a)) + tf.reduce_mean(a, 0)

    return _error(outer(h), batch)


def own_gradient(h, batch):
    @tf.custom_gradient
    def clipped(a):
        return tf.abs(a), lambda dy: dy * tf.minimum(tf.abs(a), 0.3)

    w = _resource("w", [3, 3])
    return _error(tf.function(lambda a: clipped(a @ w))(h), batch)


def asserted(h, batch):
    w = _resource("w", [3, 3])

    @tf.function
    def checked(a):
        tf.debugging.assert_less(tf.reduce_max(a), tf.constant(1e9, F64))
        return tf.tanh(a @ w)

    return _error(checked(h), batch)


def updated(h, batch):
    """Moving means, written in a function, and read by it afterwards."""
    w, mean = _resource("w", [3, 3]), _resource("mean", [3], trainable=False)

    @tf.function
    def normalised(a):
        before = mean.read_value()
        mean.assign(0.5 * before + 0.5 * tf.reduce_mean(a, 0))
        return (a - mean.read_value()) @ w

    first = normalised(h)
    with tf.control_dependencies([first]):
        return _error(first + normalised(2.0 * h), batch)


def waiting(h, batch):
    """A function that comes after one thing and before another."""
    w, count = _resource("w", [3, 3]), _resource("count", [], trainable=False)
    with tf.control_dependencies([count.assign_add(tf.reduce_sum(h))]):
        made = tf.function(lambda a: tf.tanh(a @ w) * tf.cos(count.read_value()))(h)
    with tf.control_dependencies([made]):
        later = count.assign_add(1.0, read_value=False)
    with tf.control_dependencies([later]):
        return _error(made, batch) + 0.0 * count.read_value()


def dropped(h, batch):
    """Random numbers that are the same for all rows."""
    w = _resource("w", [3, 3])
    dropped = tf.function(lambda a: (a @ w) * (0.5 + tf.random.uniform([3], dtype=F64, seed=3)))
    return _error(dropped(h), batch)


def measured(h, batch):
    """A metric, counted in a function."""
    w, seen = _resource("w", [3, 3]), _resource("seen", [], trainable=False)

    @tf.function
    def counted(a):
        seen.assign_add(tf.reduce_sum(tf.cast(a > 0, F64)))
        return seen.read_value(), tf.tanh(a @ w)

    total, made = counted(h)
    return _error(made, batch) + 1e-3 * total


def branch_by_steps(h, batch):
    """In every other step another one."""
    w, v = get_variable("w", [3, 3]), get_variable("v", [3, 3])
    is_even = tf.equal(tf.train.get_or_create_global_step() % 2, 0)
    return _error(tf.cond(is_even, lambda: tf.tanh(h @ w), lambda: tf.tanh(tf.tanh(h @ v))), batch)


def branch_that_updates(h, batch):
    mean = _resource("mean", [3], trainable=False)
    is_first = tf.equal(tf.train.get_or_create_global_step(), 0)

    def now():
        found = tf.reduce_mean(h, 0)
        with tf.control_dependencies([mean.assign(found)]):
            return tf.identity(found)

    return _error(h - tf.cond(is_first, now, lambda: mean.read_value() + 0.0), batch)


def branches_in_branches(h, batch):
    w = _resource("w", [3, 3])

    def inner():
        return tf.cond(h[0, 0] > 0, lambda: tf.tanh(h), lambda: h * h @ w)

    return _error(tf.cond(tf.reduce_max(h) > 0.2, inner, lambda: -h), batch)


def branches_in_functions(h, batch):
    """An update, in a branch in a function, that the results of the function do not need."""
    w, count = _resource("w", [3, 3]), _resource("count", [], trainable=False)

    @tf.function
    def outer(a):
        if tf.reduce_mean(a) > 0:
            count.assign_add(tf.reduce_sum(a))
            made = tf.tanh(a @ w)
        else:
            count.assign_sub(1.0)
            made = 2.0 * a
        return made * tf.cos(count.read_value())

    return _error(outer(h), batch)


def cases(h, batch):
    w = _resource("w", [3, 3])
    step = tf.cast(tf.train.get_or_create_global_step(), tf.int32)
    made = tf.switch_case(step, [lambda: tf.tanh(h @ w), lambda: h * 2.0, lambda: tf.tanh(-h)])
    return _error(made, batch)


def losses_of_branches(h, batch):
    """Each branch has a loss, a number, of its own."""
    loss = tf.cond(
        tf.reduce_min(h) < -0.1,
        lambda: tf.reduce_mean(tf.tanh(h - batch.y)),
        lambda: tf.reduce_max(h) + tf.reduce_sum(h * h),
    )
    return loss + _error(h, batch)


def loop_in_function(h, batch):
    """Python's own loops and branches, and an array, in a function."""
    w = _resource("w", [3, 3])

    @tf.function
    def rolled(a):
        seen = tf.TensorArray(F64, 4)
        for i in tf.range(4):
            if tf.equal(i % 2, 0):
                a = tf.tanh(a @ w)
            else:
                step = tf.gather(batch.steps, i, axis=1)
                a = a + step
            seen = seen.write(i, a)
        return tf.reduce_sum(seen.stack(), 0)

    return _error(rolled(h), batch)


def rnn_in_function(h, batch):
    cell = tf.nn.rnn_cell.GRUCell(3, kernel_initializer=GLOROT(), dtype=F64)
    cell.build([None, 3])

    @tf.function
    def run(steps, state):
        return tf.nn.dynamic_rnn(cell, steps, 1 + batch.k, state)

    outputs, state = run(batch.steps, h)
    return _error(tf.reduce_sum(outputs, 1) + state, batch)


def embedded(h, batch):
    """Rows of a table, in a function and in a loop."""
    table = _resource("table", [6, 3])

    @tf.function
    def found(ids):
        return tf.gather(table, ids)

    def body(i, a):
        return i + 1, tf.tanh(a + tf.gather(table, batch.ids[:, i]))

    made = tf.while_loop(lambda i, _: i < 2, body, (0, h))[1]
    return _error(tf.reduce_sum(found(batch.ids), 1) + made, batch)


def updated_in_loop(h, batch):
    """A count that each round of a loop in a function changes."""
    count = _resource("count", [], trainable=False)

    @tf.function
    def counted(a):
        for _ in tf.range(3):
            a = tf.tanh(a) * tf.cos(count.assign_add(tf.reduce_mean(a)))
        return a

    return _error(counted(h), batch)


def sums_of_functions(h, batch):
    """Parts of what all rows have in common, within a function and out of it."""
    w = _resource("w", [3, 3])

    @tf.function
    def product(a):
        return tf.matmul(a, a @ w, transpose_a=True), tf.shape(a)[0]

    made, n = product(h)
    return tf.reduce_sum(made**2) / tf.cast(n, F64) + _error(h, batch)


def kept_for_later(h, batch):
    """A function of which two results wait for an update that neither is made of."""
    w, seen = _resource("w", [3, 3]), _resource("seen", [3], trainable=False)

    @tf.function
    def layer(a):
        seen.assign_add(tf.reduce_max(a, 0))
        return tf.tanh(a @ w), tf.reduce_sum(a)

    made, total = layer(h)
    with tf.control_dependencies([total]):
        after = seen.read_value()
    return _error(made + after, batch)


def values_of_two_ranks(h, batch):
    """Branches hand numbers, and rows, to their gradients in one place."""
    w = _resource("w", [3, 3])

    @tf.function
    def chosen(a):
        def first():
            return tf.tanh(tf.reduce_mean(tf.tanh(a), 0)) * a

        return tf.cond(a[0, 0] > 0, first, lambda: tf.tanh(a @ w) * tf.tanh(tf.reduce_sum(w)))

    return _error(chosen(h), batch)


def maps_of_maps(h, batch):
    """Every step of every row, by a loop in a loop, from arrays of both."""
    w = _resource("w", [3, 3])

    def outer(step):
        made = tf.map_fn(lambda i: tf.tanh(step @ w) * tf.cast(i, F64), tf.range(3), dtype=F64)
        return tf.reduce_sum(made, 0)

    outputs = tf.map_fn(outer, tf.transpose(batch.steps, [1, 0, 2]))
    return _error(h + tf.reduce_sum(outputs, 0), batch)


def wider_after_a_round(h, batch):
    """TensorFlow gives loops the shapes after a round when it builds their gradients."""
    any_columns = tf.TensorShape([]), tf.TensorShape([None, None])

    def grown(begin, rounds=2):
        def body(i, c):
            columns = tf.reduce_sum(tf.ones_like(c), 1, keepdims=True)
            return i + 1, tf.tanh(c * 0.5 + h) * columns * tf.cast(tf.shape(c)[1], F64) / 9.0

        return tf.while_loop(lambda i, _: i < rounds, body, (0, begin), any_columns)[1]

    def inner(i, c):
        return i + 1, c + grown(c[:, :1])

    never = tf.cast(h[0, 0] > 1e9, tf.int32)

    @tf.function
    def all_of_them():
        nested = tf.while_loop(lambda i, _: i < 2, inner, (0, h))[1]
        unchanged = grown(batch.x[:, :1], never)
        return nested + grown(batch.x[:, :1]) + unchanged * tf.cast(tf.size(unchanged), F64)

    return _error(all_of_them(), batch)


LOSSES = {
    loss.__name__: loss
    for loss in (
        *(called, called_without_variables, called_by_called, own_gradient, asserted, updated),
        *(waiting, dropped, measured, branch_by_steps, branch_that_updates),
        *(branches_in_branches, branches_in_functions, cases, losses_of_branches),
        *(loop_in_function, rnn_in_function, embedded, updated_in_loop),
        *(sums_of_functions, kept_for_later, values_of_two_ranks, maps_of_maps),
        wider_after_a_round,
    )
}
