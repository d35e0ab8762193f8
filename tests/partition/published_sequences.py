"""Models of sequences as their authors publish them."""

import tensorflow.compat.v1 as tf

import versions
from partition import tables
from partition.harness import ModeKeys
from partition.layer_models import dense
from partition.model_inputs import F64, GLOROT, get_variable


def _cells(units, number=2):
    return [tf.nn.rnn_cell.LSTMCell(units, initializer=GLOROT()) for _ in range(number)]


def _gru(units):
    return tf.nn.rnn_cell.GRUCell(units, kernel_initializer=GLOROT())


def ctc(features, labels, mode, params):
    """Speech: a recurrence in both directions, by time first, and its transcripts."""
    length = features["num_frames"]
    outputs, _ = tf.nn.bidirectional_dynamic_rnn(
        *_cells(4), features["frames"], sequence_length=length, dtype=F64
    )
    logits = tf.transpose(dense(tf.concat(outputs, 2), 5), [1, 0, 2])
    if versions.IS_1:  # Its kernel has no other.
        logits = tf.cast(logits, tf.float32)
    decoded, _ = tf.nn.ctc_greedy_decoder(tf.cast(logits, tf.float32), length)
    text = tf.sparse.to_dense(decoded[0], default_value=-1)
    predictions = {"logits": tf.transpose(logits, [1, 0, 2]), "text": text}
    if labels is None:
        return tables.spec_of(mode, predictions, None, params)
    places = tf.where(tf.not_equal(labels["said"], 0))
    shape = tf.shape(labels["said"], out_type=tf.int64)
    said = tf.SparseTensor(places, tf.gather_nd(labels["said"], places), shape)
    loss = tf.reduce_mean(tf.nn.ctc_loss(said, logits, length))
    distance = tf.edit_distance(tf.cast(decoded[0], tf.int32), said)
    metrics = {"label_error_rate": tf.metrics.mean(distance)}
    return tables.spec_of(mode, predictions, tf.cast(loss, F64), params, metrics)


def time_major(features, labels, mode, params):
    """A language model by time first, whose loss is divided by the number of words."""
    words = tf.transpose(features["words"])
    rows = tf.nn.embedding_lookup(get_variable("table", [9, 4]), words)
    cell = tf.nn.rnn_cell.MultiRNNCell(_cells(4))
    outputs, _ = tf.nn.dynamic_rnn(
        cell, rows, features["num_words"], dtype=F64, time_major=True, swap_memory=True
    )
    logits = dense(outputs[:-1], 9)
    entropies = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=words[1:], logits=logits)
    mask = tf.cast(tf.not_equal(words[1:], 0), F64)
    total = tf.reduce_sum(entropies * mask, axis=0) / (tf.reduce_sum(mask, axis=0) + 1.0)
    predictions = {"perplexity": tf.exp(total)}
    loss = tf.reduce_sum(entropies * mask) / (tf.reduce_sum(mask) + 1e-3)
    return tables.spec_of(mode, predictions, loss, params)


def _encoded(features, units=4):
    """Returns outputs and the last state of the encoder, and the mask of words that there are."""
    table = get_variable("words", [9, 4])
    words = tf.gather(table, features["words"])
    with tf.variable_scope("encoder"):
        outputs, state = tf.nn.dynamic_rnn(_gru(units), words, features["num_words"], dtype=F64)
    return outputs, state, tf.sequence_mask(features["num_words"], tf.shape(outputs)[1])


def _attend(query, memory, mask):
    """Bahdanau's attention: [n, units] of [n, t, units]."""
    with tf.variable_scope("attention", reuse=tf.AUTO_REUSE):
        w, u, v = (get_variable(name, shape) for name, shape in zip("wuv", ([4, 4], [4, 4], [4])))
        keys = tf.tensordot(memory, w, [[2], [0]])
        scores = tf.reduce_sum(v * tf.tanh(keys + (query @ u)[:, None]), 2)
        scores = tf.where(mask, scores, tf.fill(tf.shape(scores), tf.constant(-1e9, F64)))
        return tf.reduce_sum(tf.nn.softmax(scores)[:, :, None] * memory, 1)


def seq2seq_raw_rnn(features, labels, mode, params):
    """A decoder by `tf.nn.raw_rnn`, which is fed with what it said, as long as its targets are."""
    memory, state, mask = _encoded(features)
    replies, project = get_variable("replies", [6, 4]), get_variable("project", [4, 6])
    n, cell = tf.shape(state)[0], _gru(4)
    lengths = tf.fill([n], 4) if labels is None else labels["num_replies"]

    def step(time, output, old, _):
        finished = time >= lengths
        if output is None:
            start = tf.nn.embedding_lookup(replies, tf.ones([n], tf.int32))
            return finished, tf.concat([start, tf.zeros([n, 4], F64)], 1), state, None, None
        said = tf.argmax(tf.matmul(output, project), axis=1)
        given = tf.nn.embedding_lookup(replies, said)
        given = tf.concat([given, _attend(old, memory, mask)], 1)
        done = tf.reduce_all(finished)
        given = tf.cond(done, lambda: tf.zeros([n, 8], F64), lambda: given)
        given.set_shape([state.shape[0], 8])
        return finished, given, old, output, None

    outputs, _, _ = tf.nn.raw_rnn(cell, step)
    outputs = tf.transpose(outputs.stack(), [1, 0, 2])
    logits = tf.tensordot(outputs, project, [[2], [0]])
    predictions = {"said": tf.argmax(logits, 2)}
    return tables.spec_of(mode, predictions, _sequence_loss(logits, labels), params)


def _sequence_loss(logits, labels):
    """The mean over all words, as that of tf.contrib.seq2seq."""
    if labels is None:
        return None
    steps = tf.shape(logits)[1]
    weights = tf.sequence_mask(labels["num_replies"], steps, F64)
    targets = labels["replies"][:, :steps]
    entropies = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
    return tf.reduce_sum(entropies * weights) / (tf.reduce_sum(weights) + 1e-12)


def seq2seq_beam(features, labels, mode, params):
    """Teacher forcing until all are finished by a while loop; beam search in prediction."""
    memory, state, mask = _encoded(features)
    replies, cell = get_variable("replies", [6, 4]), _gru(4)
    project, n = get_variable("project", [4, 6]), tf.shape(state)[0]

    def decode(ids, old, memory, mask):
        given = tf.concat([tf.gather(replies, ids), _attend(old, memory, mask)], 1)
        with tf.variable_scope("decoder", reuse=tf.AUTO_REUSE):
            output, new = cell(given, old)
        return output @ project, new

    decode(tf.ones([n], tf.int32), state, memory, mask)  # So that variables are outside of loops.
    if mode == ModeKeys.PREDICT:
        found, scores = _beam_search(decode, state, memory, mask)
        predictions = {"found": found, "scores": scores}
        return tables.spec_of(mode, predictions, None, params)
    start = tf.concat([tf.ones([n, 1], tf.int32), labels["replies"]], 1)
    array = tf.TensorArray(F64, 0, dynamic_size=True)

    def body(time, old, finished, written):
        logits, new = decode(start[:, time], old, memory, mask)
        new = tf.where(finished, old, new)
        written = written.write(time, tf.where(finished, tf.zeros_like(logits), logits))
        return time + 1, new, tf.logical_or(finished, time + 1 >= labels["num_replies"]), written

    outputs = tf.while_loop(
        lambda time, old, finished, _: tf.logical_not(tf.reduce_all(finished)),
        body,
        (0, state, tf.zeros([n], tf.bool), array),
    )[3]
    logits = tf.transpose(outputs.stack(), [1, 0, 2])
    logits.set_shape([None, None, 6])
    loss = _sequence_loss(logits, labels)
    return tables.spec_of(mode, {"said": tf.argmax(logits, 2)}, loss, params)


def _beam_search(decode, state, memory, mask, beams=2, steps=4, end=0):
    """Returns sequences, [n, beams, steps], and their scores; written out with gather_nd."""
    n = tf.shape(state)[0]

    def tiled(x):
        x = tf.tile(x[:, None], [1, beams] + [1] * (x.shape.ndims - 1))
        return tf.reshape(x, tf.concat([[n * beams], tf.shape(x)[2:]], 0))

    memory, mask = tiled(memory), tiled(mask)
    scores = tf.tile(tf.constant([[0.0] + [-1e7] * (beams - 1)], F64), [n, 1])
    rows = tf.tile(tf.range(n)[:, None], [1, beams])
    first = tf.ones([n, beams, 1], tf.int32)

    def body(time, ids, scores, old, finished):
        flat = tf.reshape(ids[:, :, -1], [-1])
        logits, new = decode(flat, tf.reshape(old, [-1, 4]), memory, mask)
        steps_of = tf.reshape(tf.nn.log_softmax(logits), [n, beams, 6])
        steps_of *= 1.0 - tf.cast(finished, F64)[:, :, None]
        total = tf.reshape(scores[:, :, None] + steps_of, [n, beams * 6])
        scores, chosen = tf.nn.top_k(total, beams)
        places = tf.stack([rows, chosen // 6], 2)
        ids = tf.concat([tf.gather_nd(ids, places), (chosen % 6)[:, :, None]], 2)
        old = tf.gather_nd(tf.reshape(new, [n, beams, 4]), places)
        finished = tf.logical_or(tf.gather_nd(finished, places), tf.equal(chosen % 6, end))
        return time + 1, ids, scores, old, finished

    start = (
        0,
        first,
        scores,
        tf.reshape(tiled(state), [n, beams, 4]),
        tf.zeros([n, beams], tf.bool),
    )
    shapes = [one.shape for one in map(tf.convert_to_tensor, start)]
    shapes[1] = tf.TensorShape([first.shape[0], beams, None])
    made = tf.while_loop(
        lambda time, ids, scores, old, finished: tf.logical_and(
            time < steps, tf.logical_not(tf.reduce_all(finished))
        ),
        body,
        start,
        shape_invariants=tuple(shapes),
    )
    return made[1], made[2]


PLAIN = {model.__name__: model for model in (ctc, time_major, seq2seq_raw_rnn, seq2seq_beam)}
MODELS = {name: tables.of_old_control_flow(model) for name, model in PLAIN.items()}
SPEECH = {"ctc": MODELS.pop("ctc")}
