"""A tagger by a conditional random field, written out as tf.contrib.crf has it."""

import tensorflow.compat.v1 as tf

from partition import tables
from partition.layer_models import dense
from partition.model_inputs import F64, GLOROT, get_variable


def crf_sequence_score(inputs, tags, lengths, transitions):
    """Scores of tag sequences, [n]; a sequence of one word has no transitions."""

    def single():
        example = tf.expand_dims(tf.range(tf.shape(inputs)[0]), 1)
        places = tf.concat([example, tags[:, :1]], axis=1)
        scores = tf.gather_nd(tf.squeeze(inputs, [1]), places)
        return tf.where(tf.less_equal(lengths, 0), tf.zeros_like(scores), scores)

    def multi():
        unary = crf_unary_score(tags, lengths, inputs)
        return unary + crf_binary_score(tags, lengths, transitions)

    return tf.cond(tf.equal(tf.shape(inputs)[1], 1), single, multi)


def crf_unary_score(tags, lengths, inputs):
    n, most, number = (tf.shape(inputs)[axis] for axis in range(3))
    flat = tf.reshape(inputs, [-1])
    offsets = tf.expand_dims(tf.range(n) * most * number, 1)
    offsets += tf.expand_dims(tf.range(most) * number, 0)
    offsets = tf.where(tf.equal(n, 0), tf.zeros_like(offsets), offsets)
    places = tf.reshape(offsets + tags, [-1])
    scores = tf.reshape(tf.gather(flat, places), [n, most])
    return tf.reduce_sum(scores * tf.sequence_mask(lengths, tf.shape(tags)[1], F64), 1)


def crf_binary_score(tags, lengths, transitions):
    number, pairs = transitions.get_shape()[0], tf.shape(tags)[1] - 1
    starts = tf.slice(tags, [0, 0], [-1, pairs])
    ends = tf.slice(tags, [0, 1], [-1, pairs])
    places = starts * number + ends
    scores = tf.gather(tf.reshape(transitions, [-1]), places)
    masks = tf.sequence_mask(lengths, tf.shape(tags)[1], F64)
    return tf.reduce_sum(scores * tf.slice(masks, [0, 1], [-1, -1]), 1)


class CrfForwardRnnCell(tf.nn.rnn_cell.RNNCell):
    """Adds up scores of all paths."""

    def __init__(self, transitions):
        super().__init__()
        self._transitions = tf.expand_dims(transitions, 0)
        self._number = int(transitions.shape[0])

    @property
    def state_size(self):
        return self._number

    @property
    def output_size(self):
        return self._number

    def __call__(self, inputs, state, scope=None):
        both = tf.expand_dims(state, 2) + self._transitions
        new = inputs + tf.reduce_logsumexp(both, [1])
        return new, new


def crf_log_norm(inputs, lengths, transitions):
    first = tf.squeeze(tf.slice(inputs, [0, 0, 0], [-1, 1, -1]), [1])

    def single():
        log_norm = tf.reduce_logsumexp(first, [1])
        return tf.where(tf.less_equal(lengths, 0), tf.zeros_like(log_norm), log_norm)

    def multi():
        rest = tf.slice(inputs, [0, 1, 0], [-1, -1, -1])
        less = tf.maximum(tf.constant(0, lengths.dtype), lengths - 1)
        _, alphas = tf.nn.dynamic_rnn(
            CrfForwardRnnCell(transitions), rest, less, initial_state=first, dtype=F64
        )
        log_norm = tf.reduce_logsumexp(alphas, [1])
        return tf.where(tf.less_equal(lengths, 0), tf.zeros_like(log_norm), log_norm)

    return tf.cond(tf.equal(tf.shape(inputs)[1], 1), single, multi)


class CrfDecodeForwardRnnCell(CrfForwardRnnCell):
    """Scores of the best paths, and where they come from."""

    def __call__(self, inputs, state, scope=None):
        both = tf.expand_dims(state, 2) + self._transitions
        return tf.argmax(both, 1, output_type=tf.int32), inputs + tf.reduce_max(both, [1])


class CrfDecodeBackwardRnnCell(tf.nn.rnn_cell.RNNCell):
    """Follows them back."""

    @property
    def state_size(self):
        return 1

    @property
    def output_size(self):
        return 1

    def __call__(self, inputs, state, scope=None):
        state = tf.squeeze(state, axis=[1])
        places = tf.stack([tf.range(tf.shape(inputs)[0]), state], axis=1)
        new = tf.expand_dims(tf.gather_nd(inputs, places), axis=-1)
        return new, new


def crf_decode(potentials, transitions, lengths):
    """Viterbi: tags, [n, t], and the best scores; of at least two words."""
    first = tf.squeeze(tf.slice(potentials, [0, 0, 0], [-1, 1, -1]), [1])
    rest = tf.slice(potentials, [0, 1, 0], [-1, -1, -1])
    less = tf.maximum(tf.constant(0, lengths.dtype), lengths - 1)
    with tf.variable_scope("forward"):
        pointers, last = _decoded(CrfDecodeForwardRnnCell(transitions), rest, less, first)
    pointers = tf.reverse_sequence(pointers, less, seq_axis=1)
    start = tf.expand_dims(tf.argmax(last, 1, output_type=tf.int32), -1)
    with tf.variable_scope("backward"):
        tags, _ = tf.nn.dynamic_rnn(
            CrfDecodeBackwardRnnCell(), pointers, less, start, dtype=tf.int32
        )
    tags = tf.concat([start, tf.squeeze(tags, [2])], 1)
    return tf.reverse_sequence(tags, lengths, seq_axis=1), tf.reduce_max(last, 1)


def _decoded(cell, inputs, lengths, start):
    """Runs a cell whose outputs are integers, which `dynamic_rnn` fills with zeros of their own."""
    return tf.nn.dynamic_rnn(cell, inputs, lengths, start, dtype=tf.int32)


def crf(features, labels, mode, params):
    """A recurrence in both directions, and the tagger."""
    lengths = features["num_words"]
    words = tf.nn.embedding_lookup(get_variable("words", [9, 4]), features["words"])
    cells = [tf.nn.rnn_cell.LSTMCell(3, initializer=GLOROT()) for _ in range(2)]
    outputs, _ = tf.nn.bidirectional_dynamic_rnn(*cells, words, lengths, dtype=F64)
    x = tf.reshape(tf.concat(outputs, axis=-1), [-1, 6])
    potentials = tf.reshape(dense(x, 4), [-1, tf.shape(outputs[0])[1], 4])
    transitions = get_variable("transitions", [4, 4])
    tags, best = crf_decode(potentials, transitions, lengths)
    predictions = {"tags": tags, "best": best}
    if labels is None:
        return tables.spec_of(mode, predictions, None, params)
    score = crf_sequence_score(potentials, labels["tags"], lengths, transitions)
    log_norm = crf_log_norm(potentials, lengths, transitions)
    loss = tf.reduce_mean(log_norm - score)
    weights = tf.sequence_mask(lengths, tf.shape(tags)[1])
    metrics = {"accuracy": tf.metrics.accuracy(labels["tags"], tags, weights)}
    return tables.spec_of(mode, predictions, loss, params, metrics)


PLAIN = {"crf": crf}
MODELS = {"crf": tables.of_old_control_flow(crf)}
