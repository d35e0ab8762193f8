"""Losses with loops in them, of `h`, [n, 3], and of the `Batch`, as `row_losses` are."""

import tensorflow.compat.v1 as tf

from partition.model_inputs import F64, GLOROT, get_variable

# Loops that cannot run in towers, and why.
WHOLE = {}
# If the graph does not know n, neither can these: they read sizes of tensors that they wrote.
WHOLE_IF_UNKNOWN = {"arrays"}


def whole(reason):
    """Registers a loss whose loop runs once."""

    def enter(loss):
        WHOLE[loss.__name__] = reason
        return loss

    return enter


def _by_time(batch):
    return tf.transpose(batch.steps, [1, 0, 2])


def _error(outputs, batch):
    return tf.reduce_mean((outputs - batch.y) ** 2)


def lstm(h, batch):
    cell = tf.nn.rnn_cell.LSTMCell(3, initializer=GLOROT())
    start = tf.nn.rnn_cell.LSTMStateTuple(h, tf.tanh(h))
    outputs, state = tf.nn.dynamic_rnn(cell, batch.steps, initial_state=start)
    return _error(tf.reduce_max(outputs, 1) + state.c, batch)


def gru_of_lengths(h, batch):
    cell = tf.nn.rnn_cell.GRUCell(3, kernel_initializer=GLOROT())
    lengths = 1 + tf.minimum(batch.ids[:, 0], 4)
    outputs, state = tf.nn.dynamic_rnn(cell, batch.steps, lengths, h)
    return _error(outputs[:, 0] + state, batch) + tf.reduce_max(outputs)


def both_ways(h, batch):
    cells = [tf.nn.rnn_cell.GRUCell(3, kernel_initializer=GLOROT()) for _ in range(2)]
    outputs, _ = tf.nn.bidirectional_dynamic_rnn(
        *cells, batch.steps, 1 + batch.k, h, None, dtype=F64, swap_memory=True
    )
    return _error(tf.reduce_sum(outputs[0] * outputs[1], 1), batch)


def raw(h, batch):
    """A cell that is given its own output, by `tf.nn.raw_rnn`."""
    cell = tf.nn.rnn_cell.GRUCell(3, kernel_initializer=GLOROT())
    n = tf.shape(h)[0]

    def step(time, output, state, _):
        if output is None:
            return tf.zeros([n], tf.bool), h, h, None, None
        return tf.fill([n], time >= 4), output + h, state, output, None

    outputs, state, _ = tf.nn.raw_rnn(cell, step)
    return _error(outputs.stack()[-1] + state, batch)


def until_each_is_done(h, batch):
    """Rows that stop by themselves, in different rounds."""
    w = get_variable("w", [3, 3])

    def step(state, done, rounds):
        new = tf.tanh(state @ w + h)
        state = tf.where(done, state, new)
        return state, done | (tf.reduce_sum(new, 1) < 0.3), rounds + 1

    done = tf.zeros(tf.shape(h)[:1], tf.bool)
    state, _, rounds = tf.while_loop(
        lambda state, done, rounds: tf.logical_not(tf.reduce_all(done)) & (rounds < 6),
        step,
        (h, done, 0),
    )
    return _error(state, batch) * tf.cast(rounds, F64)


def raw_of_lengths(h, batch):
    """A decoder as it is published: inputs are read until the longest row has ended."""
    cell = tf.nn.rnn_cell.GRUCell(3, kernel_initializer=GLOROT())
    steps, lengths = _by_time(batch), 1 + batch.k
    given = tf.TensorArray(F64, size=tf.shape(steps)[0], element_shape=[None, 3]).unstack(steps)

    def step(time, output, state, _):
        finished = time >= lengths
        done = tf.reduce_all(finished)
        taken = tf.cond(done, lambda: tf.zeros(tf.shape(h), F64), lambda: given.read(time))
        if output is None:
            return finished, taken, h, None, None
        return finished, taken, state, output * tf.reduce_max(tf.cast(lengths, F64)), None

    outputs, state, _ = tf.nn.raw_rnn(cell, step)
    return _error(tf.reduce_sum(outputs.stack(), 0) + state, batch)


def fed_by_a_layer(h, batch):
    """A decoder as of `contrib.seq2seq`: steps of a layer, read in branches, and assertions."""
    w, v = get_variable("w", [3, 3]), get_variable("v", [3, 3])
    steps = tf.transpose(tf.tensordot(batch.steps, w, 1), [1, 0, 2])
    given = tf.TensorArray(F64, size=5, element_shape=[None, 3]).unstack(steps)
    lengths = 1 + batch.k
    none = tf.zeros(tf.shape(lengths), tf.int32)

    def step(time, taken, state, said):
        checked = [
            tf.assert_positive(lengths, summarize=9),
            tf.Assert(tf.reduce_any(lengths > 0), [state]),
        ]
        with tf.control_dependencies(checked):
            state = tf.tanh((state + taken) @ v)
        best = tf.cast(tf.argmax(state, 1), tf.int32)
        said += tf.where(time >= lengths, none, best)
        taken = tf.cond(time + 1 >= 5, lambda: tf.zeros_like(taken), lambda: given.read(time + 1))
        return time + 1, taken, state, said

    first = tf.cond(tf.reduce_all(lengths > 9), lambda: tf.zeros_like(h), lambda: given.read(0))
    begin = 0, first, h, none
    _, _, state, said = tf.while_loop(lambda time, *_: time < 5, step, begin)
    return _error(state * tf.cast(said, F64)[:, tf.newaxis], batch)


def lengths_of_entries(h, batch):
    """Lengths of sparse rows as of `sequence_input_layer`, which pads them for empty last rows."""
    places = tf.where(batch.steps[:, :, 0] > 0)
    lengths = tf.segment_max(places[:, 1] + 1, places[:, 0])
    padding = tf.shape(h, out_type=tf.int64)[:1] - tf.shape(lengths, out_type=tf.int64)[:1]
    lengths = tf.concat([lengths, tf.zeros(padding, tf.int64)], 0)
    cell = tf.nn.rnn_cell.GRUCell(3, kernel_initializer=GLOROT())
    _, state = tf.nn.dynamic_rnn(cell, batch.steps, lengths, h)
    means = tf.segment_mean(tf.gather_nd(batch.steps, places), places[:, 0])
    rest = tf.shape(h)[0] - tf.shape(means)[0]
    padded = tf.concat([means, tf.zeros([rest, 3], F64)], 0)
    return _error(state + tf.tanh(padded @ get_variable("w", [3, 3])), batch)


def mapped(h, batch):
    w = get_variable("w", [3, 3])
    outputs = tf.map_fn(lambda step: tf.tanh(step @ w) * h, _by_time(batch))
    return _error(tf.reduce_sum(outputs, 0), batch)


def scanned(h, batch):
    w = get_variable("w", [3, 3])
    outputs = tf.scan(lambda state, step: tf.tanh(state @ w + step), _by_time(batch), h)
    return _error(tf.reduce_prod(outputs, 0), batch)


def folded(h, batch):
    w = get_variable("w", [3, 3])
    return _error(tf.foldl(lambda a, step: tf.tanh(a + step @ w), _by_time(batch), h), batch)


def summed(h, batch):
    """A sum over rows that grows in a loop."""
    w = get_variable("w", [3, 3])

    def body(i, total):
        step = tf.gather(batch.steps, i, axis=1)
        return i + 1, total + tf.reduce_sum((step @ w - h) ** 2)

    total = tf.while_loop(lambda i, _: i < 4, body, (0, tf.constant(0.5, F64)))[1]
    return tf.log(total + 1.0)


def nested(h, batch):
    w = get_variable("w", [3, 3])

    def outer(i, a):
        def inner(j, b):
            return j + 1, tf.tanh(b @ w) + 0.1 * h

        return i + 1, tf.while_loop(lambda j, _: j < i, inner, (0, a))[1]

    return _error(tf.while_loop(lambda i, _: i < 3, outer, (0, h))[1], batch)


def arrays(h, batch):
    """Writes all that it makes to one array, and reads what it has written."""
    array = tf.TensorArray(F64, 5, clear_after_read=False, element_shape=h.shape).write(0, h)

    def body(i, written):
        made = tf.tanh(written.read(i) + tf.gather(batch.steps, i, axis=1))
        return i + 1, written.write(i + 1, made)

    array = tf.while_loop(lambda i, _: i < 4, body, (0, array))[1]
    return _error(tf.reduce_mean(array.stack(), 0), batch)


def branches(h, batch):
    """In every other round something else happens."""

    def body(i, a):
        made = tf.cond(tf.equal(i % 2, 0), lambda: tf.tanh(a + h), lambda: a * 0.5)
        return i + 1, made

    return _error(tf.while_loop(lambda i, _: i < 3, body, (0, h))[1], batch)


def branches_one_by_one(h, batch):
    """Branches in rounds that do not overlap: nothing but a shape knows which branch was taken."""
    w = get_variable("w", [3, 3])

    def body(i, a):
        is_even = tf.equal(i % 2, 0)
        return i + 1, tf.cond(is_even, lambda: tf.tanh(a @ w), lambda: a * 0.5)

    return _error(tf.while_loop(lambda i, _: i < 3, body, (0, h), parallel_iterations=1)[1], batch)


def zeros_inside(h, batch):
    """Begins every round with zeros for as many rows."""

    def body(i, a):
        start = tf.zeros([tf.shape(h)[0], 3], F64)
        return i + 1, tf.tanh(start + a + tf.gather(batch.steps, i, axis=1)) + tf.ones_like(a)

    return _error(tf.while_loop(lambda i, _: i < 3, body, (0, h))[1], batch)


def meets_itself(h, batch):
    """A variable is normalised by its own moments, and gates itself, before it meets rows."""
    w = get_variable("w", [3, 3])

    def body(i, s):
        mean, variance = tf.nn.moments(s, [1], keepdims=True)
        s = s * tf.sigmoid((s - mean) * tf.rsqrt(variance + 0.1) @ w)
        return i + 1, tf.tanh(s) + h

    n = h.shape.as_list()[0] or tf.shape(h)[0]
    return _error(tf.while_loop(lambda i, _: i < 3, body, (0, tf.zeros([n, 3], F64)))[1], batch)


def attending(h, batch):
    """A decoder that looks at all steps of its row, and begins with what all rows have."""
    w = get_variable("w", [3, 3])
    best = tf.reduce_max(h)

    def body(i, state):
        weights = tf.nn.softmax(tf.reduce_sum(batch.steps * state[:, None], 2) / best)
        context = tf.reduce_sum(weights[:, :, None] * batch.steps, 1)
        return i + 1, tf.tanh(context @ w + state)

    return _error(tf.while_loop(lambda i, _: i < 3, body, (0, h))[1], batch)


def normalised(h, batch):
    """As many rounds as the longest row has steps."""
    rounds = tf.reduce_max(batch.k) + 1

    def body(i, a):
        return i + 1, tf.tanh(a) + tf.reduce_mean(a, 1, keepdims=True)

    return _error(tf.while_loop(lambda i, _: i < rounds, body, (0, h))[1], batch)


@whole("each round needs what all rows have in common")
def means_of_rows(h, batch):
    def body(i, a):
        return i + 1, tf.tanh(a - tf.reduce_mean(a, 0))

    return _error(tf.while_loop(lambda i, _: i < 3, body, (0, h))[1], batch)


def until_all_are_done(h, batch):
    return _error(tf.while_loop(lambda a: tf.reduce_any(a > 0.1), lambda a: a * 0.7, (h,)), batch)


def _noisy(h):
    def body(i, a):
        return i + 1, a * (1.0 + 0.0 * tf.random.uniform([3], dtype=F64))

    return tf.while_loop(lambda i, _: i < 3, body, (0, h))[1]


@whole("each round is a row")
def row_by_row(h, batch):
    w = get_variable("w", [3, 3])
    return _error(tf.map_fn(lambda row: tf.tanh(row[None] @ w)[0], h), batch)


@whole("each round is a row")
def rows_of_a_map(h, batch):
    """Centers rows one by one, then multiplies all of them."""
    w = get_variable("w", [3, 3])
    rows = tf.map_fn(lambda row: row - tf.reduce_mean(row), h)
    return _error(tf.tanh(rows @ w), batch)


@whole("random numbers are drawn that no row has for itself")
def rows_of_a_loop(h, batch):
    """Multiplies rows after a loop that takes all of them at once."""
    return _error(tf.tanh(_noisy(h) @ get_variable("w", [3, 3])), batch)


@whole("it has more rows in each round")
def growing(h, batch):
    def body(i, a):
        return i + 1, tf.concat([a, tf.tanh(a)], 0)

    shapes = tf.TensorShape([]), tf.TensorShape([None, 3])
    made = tf.while_loop(lambda i, _: i < 2, body, (0, h), shapes)[1]
    places = tf.cast(tf.range(tf.shape(made)[0]), F64)[:, None]
    return tf.reduce_mean((made - places) ** 2)


def _chosen(h, choose):
    """Twice, the lowest of listed rows is chosen, and the list of their numbers is changed."""

    def body(i, listed):
        lowest = tf.argmin(tf.reduce_sum(tf.gather(h, listed), 1), output_type=tf.int32)
        return i + 1, choose(listed, lowest)

    shapes = tf.TensorShape([]), tf.TensorShape([None])
    begin = 0, tf.range(tf.shape(h)[0])
    goes_on = lambda i, listed: tf.logical_and(i < 2, tf.size(listed) > 1)  # noqa: E731
    listed = tf.while_loop(goes_on, body, begin, shapes, back_prop=False)[1]
    made = tf.ones([tf.shape(listed)[0]], F64) * get_variable("w", [1])
    return tf.reduce_mean(tf.gather(h, listed) ** 2) + 0.1 * tf.reduce_sum(made)


@whole("it lists more rows in each round")
def repeating_the_lowest(h, batch):
    return _chosen(h, lambda listed, at: tf.concat([listed, listed[at : at + 1]], 0))


@whole("it lists fewer rows in each round")
def dropping_the_lowest(h, batch):
    return _chosen(h, lambda listed, at: tf.concat([listed[:at], listed[at + 1 :]], 0))


@whole("random numbers are drawn that no row has for itself")
def noise_for_all(h, batch):
    return _error(_noisy(h), batch)


@whole("sizes that differ from round to round have no formula")
def wider(h, batch):
    """It has more columns in each round."""

    def body(i, a):
        return i + 1, tf.concat([a, tf.tanh(a[:, :2])], 1)

    shapes = tf.TensorShape([]), tf.TensorShape([h.shape[0], None])
    made = tf.while_loop(lambda i, _: i < 3, body, (0, h), shapes)[1]
    return _error(tf.reduce_sum(made, 1, keepdims=True), batch)


def scaled_inside(h, batch):
    """Begins with zeros, of which a scalar is a factor."""
    start = tf.zeros(tf.shape(h), F64)
    made = tf.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, h + 0.5 * a), (0, start))
    return _error(made[1], batch)


def until_one_is_done(h, batch):
    """Says in a variable of its own that it is over."""

    def body(i, a, done):
        return i + 1, a * 0.7, tf.logical_or(tf.reduce_any(a > 5.0), done)

    start = 0, h, tf.constant(False)
    made = tf.while_loop(lambda i, _, d: tf.logical_and(i < 3, tf.logical_not(d)), body, start)
    return _error(made[1], batch)


def looked_up(h, batch):
    """Each round looks up rows of a table, of which loops of TensorFlow 1 collect gradients."""
    table, other = get_variable("table", [6, 3]), get_variable("other", [3, 3])

    def body(i, a):
        rows = tf.gather(table, batch.ids) * tf.cast(i + 1, F64)
        return i + 1, tf.tanh(a + tf.reduce_sum(rows, 1) + tf.gather(other, batch.k))

    return _error(tf.while_loop(lambda i, _: i < 3, body, (0, h))[1], batch)


def decoding(h, batch):
    """Begins with zeros and the same token for all rows, which are constants if n is known."""
    n, w = tf.shape(batch.k)[0], get_variable("w", [3, 3])
    words = tf.TensorArray(tf.int32, 3).unstack([batch.k, (batch.k + 1) % 3, batch.k])

    def body(t, token, state, outputs):
        state = tf.tanh(state @ w + tf.one_hot(token, 3, dtype=F64))
        return t + 1, words.read(t), state, outputs.write(t, state)

    start = 0, tf.ones([n], tf.int32), tf.zeros([n, 3], F64), tf.TensorArray(F64, 3)
    made = tf.while_loop(lambda t, *_: t < 3, body, start)
    return _error(h + tf.reduce_sum(made[3].stack(), 0), batch)


def _averaged(h, batch, **kwargs):
    """A recurrence; averages of what it gives move before its gradient is taken."""
    cell = tf.nn.rnn_cell.GRUCell(3, kernel_initializer=GLOROT())
    outputs, _ = tf.nn.dynamic_rnn(cell, batch.steps, initial_state=h)
    total = tf.reduce_sum(outputs, 1)
    zeros = tf.zeros_initializer()
    mean = get_variable("mean", [3], initializer=zeros, trainable=False, **kwargs)
    tf.add_to_collection(
        tf.GraphKeys.UPDATE_OPS, tf.assign(mean, 0.9 * mean + 0.1 * tf.reduce_mean(total, 0))
    )
    return _error(total, batch)


def averaged(h, batch):
    return _averaged(h, batch, use_resource=True)


def averaged_in_memory(h, batch):
    """The same; the counter of the gradient's rounds waits for the variable's memory."""
    return _averaged(h, batch, use_resource=False)


@whole("a value enters that may be one row for all, or one for each")
def one_row_for_all(h, batch):
    """Adds a row to all rows. The graph does not know that it is only one."""
    row = tf.placeholder_with_default(tf.constant([[0.1, 0.2, 0.3]], F64), [None, 3])

    def body(i, a, total):
        return i + 1, tf.tanh(a + row), total + tf.reduce_sum(row * row)

    made = tf.while_loop(lambda i, *_: i < 2, body, (0, h, tf.zeros([], F64)))
    return _error(made[1], batch) + made[2]


@whole("it makes ones of a size that changes in each round")
def sizes_of_inner_loops(h, batch):
    """An inner loop makes each row longer; the outer one needs the length that it has then."""

    def longer(j, a):
        return j + 1, tf.concat([a, a[:, :1]], 1)

    def body(i, total):
        shapes = tf.TensorShape([]), tf.TensorShape([None, None])
        made = tf.while_loop(lambda j, _: j < 2, longer, (0, h), shape_invariants=shapes)[1]
        ones = tf.ones([tf.shape(h)[0], tf.shape(made)[1]], F64)
        return i + 1, total + tf.reduce_sum(made * ones, 1)

    made = tf.while_loop(lambda i, _: i < 2, body, (0, tf.zeros([tf.shape(h)[0]], F64)))[1]
    return _error(made[:, None], batch)


def identities(h, batch):
    """A sum over rows is reduced before the loop, although it passes an identity of several."""
    w, total = get_variable("w", [3, 3]), tf.reduce_sum(h, 0) * 0.1

    def body(i, a):
        made, added = tf.identity_n([tf.tanh(a @ w), total])
        return i + 1, made + added

    return _error(tf.while_loop(lambda i, _: i < 3, body, (0, h))[1], batch)


def last_of_lengths(h, batch):
    """The output at the last step of each sequence, by its place among all steps of the batch."""
    cell = tf.nn.rnn_cell.GRUCell(3, kernel_initializer=GLOROT())
    outputs, _ = tf.nn.dynamic_rnn(cell, batch.steps, initial_state=h)
    many, steps = tf.shape(outputs)[0], tf.shape(outputs)[1]
    places = tf.range(many) * steps + tf.cast(batch.k, tf.int32)
    return _error(tf.gather(tf.reshape(outputs, [-1, 3]), places), batch)


def picked_before(h, batch):
    """Rows that one device picks are split again for the loop that takes them."""
    w = get_variable("w", [3, 3])
    many = tf.shape(h)[0]
    places = (batch.ids[:, 0] * 2 + tf.range(many, dtype=batch.ids.dtype)) % tf.cast(
        many, batch.ids.dtype
    )
    made = tf.while_loop(
        lambda i, _: i < 3, lambda i, a: (i + 1, tf.tanh(a @ w)), (0, tf.gather(h, places))
    )
    return _error(made[1], batch)


def numbered(h, batch):
    """Rows are numbered in each round, in one branch of a condition, too."""
    w = get_variable("w", [3, 3])

    def body(i, a):
        numbers = tf.range(tf.shape(a)[0])
        factor = 1.0 + 0.1 * tf.cast(numbers % 2, F64)[:, None]
        kept = tf.cond(
            i > 1,
            lambda: a,
            lambda: tf.where(tf.range(tf.shape(h)[0]) < i + 1, a, tf.sin(a)),
        )
        return i + 1, tf.tanh((kept * factor) @ w)

    return _error(tf.while_loop(lambda i, _: i < 3, body, (0, h))[1], batch)


def twice(h, batch):
    """A loop that is trained within another one."""
    w = get_variable("w", [3, 3])

    def body(i, a):
        made = tf.while_loop(lambda j, _: j < 2, lambda j, b: (j + 1, tf.tanh(b @ w)), (0, a))[1]
        return i + 1, made

    return _error(tf.sin(tf.while_loop(lambda i, _: i < 2, body, (0, h))[1]), batch)


def scanned_in_rounds(h, batch):
    """A loop that stores its results in an array of its own in each round of another one."""
    w, places = get_variable("w", [3, 3]), _by_time(batch)[:, :, 0]

    def body(i, a, weights):
        chosen = tf.transpose(tf.sigmoid(tf.reduce_sum(batch.steps * a[:, None], 2)))
        # As in monotonic attention: how likely each place is to be reached.
        reached = tf.scan(lambda q, of: (1 - of[0]) * q + of[1], (chosen, weights), weights[0])
        weights = chosen * reached
        read = tf.reduce_sum(tf.transpose(weights)[:, :, None] * batch.steps, 1)
        return i + 1, tf.tanh(read @ w + a), weights

    made = tf.while_loop(lambda i, *_: i < 3, body, (0, h, tf.sigmoid(places)))
    return _error(made[1] + tf.reduce_sum(made[2]), batch)


def reading_in_rounds(h, batch):
    """A recurrent network that reads the sentence in each round of another one."""
    w, u = get_variable("w", [3, 3]), get_variable("u", [3, 3])
    steps = _by_time(batch)

    def read(a):
        words = tf.map_fn(lambda step: tf.tanh(step @ u) * a, steps)
        return tf.scan(lambda state, word: tf.tanh(state @ w + word), words, a)[-1]

    return _error(tf.scan(lambda a, step: read(a) + step, steps, h)[-1], batch)


def siamese(h, batch):
    """One network reads two views of each row, which are concatenated."""
    cell = tf.nn.rnn_cell.GRUCell(3, kernel_initializer=GLOROT())
    views = tf.concat([batch.steps, batch.steps[:, ::-1] * 0.9], 0)
    _, state = tf.nn.dynamic_rnn(cell, views, dtype=F64)
    states = tf.while_loop(lambda i, _: i < 2, lambda i, a: (i + 1, tf.sin(a) + a), (0, state))[1]
    one, other = tf.split(states, 2)
    return _error(tf.reduce_sum(one * other * h, 1, keepdims=True), batch)


LOSSES = {
    loss.__name__: loss
    for loss in (
        *(lstm, gru_of_lengths, both_ways, raw, mapped, scanned, folded, summed, nested, arrays),
        *(branches, zeros_inside, meets_itself, scaled_inside, attending, normalised, wider),
        *(raw_of_lengths, until_each_is_done, until_one_is_done, averaged, averaged_in_memory),
        *(decoding, looked_up),
        *(means_of_rows, until_all_are_done, row_by_row, growing, noise_for_all),
        *(repeating_the_lowest, dropping_the_lowest),
        *(rows_of_a_map, rows_of_a_loop, one_row_for_all, sizes_of_inner_loops),
        *(fed_by_a_layer, lengths_of_entries, identities, last_of_lengths, picked_before),
        *(numbered, siamese, twice, scanned_in_rounds, reading_in_rounds, branches_one_by_one),
    )
}
