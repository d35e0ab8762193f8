"""Networks of embeddings, recurrences and attention, as those of `layer_models`."""

import tensorflow.compat.v1 as tf

from partition.layer_models import dense, layer_norm
from partition.model_inputs import F64, GLOROT, get_variable


def embeddings(batch, training):
    rows = tf.nn.embedding_lookup(get_variable("table", [6, 4]), batch.ids)
    return dense(tf.reshape(rows, [-1, 8])) + tf.gather(
        get_variable("bias", [6, 3]), batch.ids[:, 0]
    )


def sparse_embeddings(batch, training):
    ids = tf.sparse.from_dense(batch.ids)
    table = get_variable("table", [6, 3])
    rows = tf.nn.embedding_lookup_sparse(table, ids, None, combiner="mean")
    return dense(batch.x) + tf.pad(rows, [[0, tf.shape(batch.x)[0] - tf.shape(rows)[0]], [0, 0]])


def lstm_of_known_steps(batch, training):
    cell = tf.nn.rnn_cell.LSTMCell(4, initializer=GLOROT())
    outputs, _ = tf.nn.static_rnn(cell, tf.unstack(batch.steps, axis=1), dtype=F64)
    return dense(outputs[-1])


def lstm_by_a_loop(batch, training):
    cell = tf.nn.rnn_cell.LSTMCell(4, initializer=GLOROT())
    outputs, state = tf.nn.dynamic_rnn(cell, batch.steps, dtype=F64)
    return dense(tf.reduce_mean(outputs, axis=1)) + dense(state.c)


def gru_of_lengths(batch, training):
    """Backwards, too, where each row has a length of its own."""
    cells = [tf.nn.rnn_cell.GRUCell(3, kernel_initializer=GLOROT()) for _ in range(2)]
    lengths = 1 + tf.minimum(batch.ids[:, 0], 4)
    outputs, states = tf.nn.bidirectional_dynamic_rnn(
        *cells, batch.steps, sequence_length=lengths, dtype=F64
    )
    return dense(tf.concat(states, axis=1)) + tf.reduce_max(outputs[0], axis=1)


def scanned(batch, training):
    """A recurrence by `tf.scan`, time first."""
    w = get_variable("w", [3, 3])
    steps = tf.transpose(batch.steps, [1, 0, 2])
    start = tf.zeros_like(steps[0])
    return tf.scan(lambda state, step: tf.tanh(state @ w + step), steps, start)[-1]


def attention(batch, training):
    """One query for each row, over its steps that are not masked."""
    query = dense(batch.x, 4)
    keys, values = dense(batch.steps, 4), dense(batch.steps, 3)
    scores = tf.reduce_sum(query[:, None] * keys, axis=2)
    mask = tf.sequence_mask(1 + tf.minimum(batch.ids[:, 0], 4), 5)
    scores = tf.where(mask, scores, tf.fill(tf.shape(scores), tf.constant(-1e9, F64)))
    return tf.reduce_sum(tf.nn.softmax(scores)[:, :, None] * values, axis=1)


def transformer(batch, training):
    """A block of two heads that looks back, and what is behind it."""
    words = tf.gather(get_variable("words", [6, 4]), tf.tile(batch.ids, [1, 3])[:, :5])
    x = words + get_variable("places", [5, 4])[None] + dense(batch.steps, 4)
    projected = [tf.reshape(dense(x, 4, use_bias=False), [-1, 5, 2, 2]) for _ in "qkv"]
    q, k, v = [tf.transpose(one, [0, 2, 1, 3]) for one in projected]
    scores = tf.matmul(q, k, transpose_b=True) / 2.0**0.5
    behind = tf.linalg.band_part(tf.ones([5, 5], F64), -1, 0)
    mixed = tf.matmul(tf.nn.softmax(scores - 1e9 * (1.0 - behind)), v)
    x = layer_norm(x + dense(tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [-1, 5, 4]), 4), "one")
    x = layer_norm(x + dense(dense(x, 8, tf.nn.relu), 4), "two")
    return dense(x[:, -1])


def contracted(batch, training):
    """Products by `einsum`."""
    w, u = get_variable("w", [3, 4, 2]), get_variable("u", [4, 2, 3])
    heads = tf.einsum("nti,ijh->nhtj", batch.steps, w)
    scores = tf.nn.softmax(tf.einsum("nhtj,nhsj->nhts", heads, heads))
    return tf.einsum("nhts,nhsj,jho->no", scores, heads, u) / 5.0


NETWORKS = {
    function.__name__: function
    for function in (
        embeddings,
        sparse_embeddings,
        lstm_of_known_steps,
        lstm_by_a_loop,
        gru_of_lengths,
        scanned,
        attention,
        transformer,
        contracted,
    )
}
