"""Networks of every family, as papers have them, that `benchmarks.coverage` builds and never runs.

Each is a function without arguments that returns a batch of placeholders, of unknown size, and a
function of the batch that returns the loss.
"""

import itertools

import numpy as np
import tensorflow.compat.v1 as tf

from benchmarks import networks
from replicate.bench import models

WORDS, WIDTH, TIME = 8000, 256, 32


def _images(side=64, channels=3):
    return tf.placeholder(tf.float32, [None, side, side, channels])


def _ids(*shape):
    return tf.placeholder(tf.int32, [None, *shape])


def _numbers(*shape):
    return tf.placeholder(tf.float32, [None, *shape])


def _dense(net, units, activation=None):
    return tf.layers.dense(net, units, activation)


def _convolved(net, channels, size=3, stride=1, activation=tf.nn.relu):
    return tf.layers.conv2d(net, channels, size, stride, "same", activation=activation)


def _gelu(net):
    return 0.5 * net * (1.0 + tf.math.erf(net / np.sqrt(2.0)))


def _embedded(name, tokens, width=WIDTH, words=WORDS):
    return tf.nn.embedding_lookup(tf.get_variable(name, [words, width]), tokens)


def _entropy(labels, logits):
    return tf.losses.sparse_softmax_cross_entropy(labels, logits)


def _clicks(labels, logits):
    return tf.losses.sigmoid_cross_entropy(labels, logits)


def _of(name):
    """Returns one of the networks whose speed is measured."""

    def make():
        case = networks.CASES[name]
        features, labels = models.MODELS[name].rows(case, 1, np.random.RandomState(1))
        batch = tf.nest.map_structure(
            lambda row: tf.placeholder(row.dtype, [None, *row.shape[1:]]), (features, labels)
        )
        return batch, lambda given: models.MODELS[name].loss(*given, case)

    return make


def efficientnet():
    """Mobile blocks with squeeze and excitation, swish and dropped branches (Tan and Le, 2019)."""

    def normed(net):
        return tf.layers.batch_normalization(net, training=True)

    def block(net, channels, stride, expansion):
        before, width = net, net.shape.as_list()[-1] * expansion
        net = tf.nn.swish(normed(_convolved(net, width, 1, activation=None)))
        kernel = tf.get_variable(f"depthwise_{next(count)}", [3, 3, width, 1])
        net = tf.nn.depthwise_conv2d(net, kernel, [1, stride, stride, 1], "SAME")
        net = tf.nn.swish(normed(net))
        squeezed = tf.reduce_mean(net, [1, 2], keepdims=True)
        squeezed = _convolved(squeezed, width // 4, 1, activation=tf.nn.swish)
        net = normed(
            _convolved(net * _convolved(squeezed, width, 1, activation=tf.sigmoid), channels, 1)
        )
        if stride > 1 or before.shape[-1] != net.shape[-1]:
            return net
        kept = tf.floor(0.8 + tf.random.uniform([tf.shape(net)[0], 1, 1, 1]))
        return before + net / 0.8 * kept

    def loss(batch):
        net = tf.nn.swish(normed(_convolved(batch[0], 32, 3, 2, activation=None)))
        for channels, stride, expansion in (
            (16, 1, 1),
            (24, 2, 6),
            (24, 1, 6),
            (40, 2, 6),
            (40, 1, 6),
        ):
            net = block(net, channels, stride, expansion)
        net = tf.reduce_mean(_convolved(net, 1280, 1, activation=tf.nn.swish), [1, 2])
        return _entropy(batch[1], _dense(tf.layers.dropout(net, 0.2, training=True), 1000))

    count = itertools.count()
    return (_images(), _ids()), loss


def gpt():
    """A decoder with causal attention and dropout (Radford et al., 2018)."""
    heads = 4

    def attended(net):
        def split(x):
            return tf.transpose(tf.reshape(x, [-1, TIME, heads, WIDTH // heads]), [0, 2, 1, 3])

        query, key, value = map(split, tf.split(_dense(net, 3 * WIDTH), 3, -1))
        scores = tf.matmul(query, key, transpose_b=True) / np.sqrt(WIDTH / heads)
        before = tf.linalg.band_part(tf.ones([TIME, TIME]), -1, 0)
        weights = tf.nn.dropout(tf.nn.softmax(scores - 1e9 * (1 - before)), rate=0.1)
        mixed = tf.transpose(tf.matmul(weights, value), [0, 2, 1, 3])
        return _dense(tf.reshape(mixed, [-1, TIME, WIDTH]), WIDTH)

    def normed(net):
        mean, variance = tf.nn.moments(net, [-1], keepdims=True)
        return (net - mean) * tf.math.rsqrt(variance + 1e-5)

    def loss(batch):
        net = _embedded("words", batch) + tf.get_variable("places", [TIME, WIDTH])
        for _ in range(4):
            net += tf.nn.dropout(attended(normed(net)), rate=0.1)
            net += _dense(_dense(normed(net), 4 * WIDTH, _gelu), WIDTH)
        logits = tf.tensordot(normed(net), tf.get_variable("out", [WIDTH, WORDS]), 1)
        return _entropy(batch[:, 1:], logits[:, :-1])

    return _ids(TIME), loss


class _Attending(tf.nn.rnn_cell.RNNCell):
    """An LSTM that attends to a memory, [n, time, width] (Luong et al., 2015)."""

    def __init__(self, memory):
        super().__init__()
        self._cell, self._memory = tf.nn.rnn_cell.LSTMCell(WIDTH), memory

    state_size = property(lambda self: (self._cell.state_size, WIDTH))
    output_size = property(lambda self: WIDTH)

    def call(self, inputs, state):
        inner, before = state
        query, inner = self._cell(tf.concat([inputs, before], -1), inner)
        weights = tf.nn.softmax(tf.einsum("nd,ntd->nt", query, self._memory))
        mixed = tf.einsum("nt,ntd->nd", weights, self._memory)
        output = _dense(tf.concat([query, mixed], -1), WIDTH, tf.tanh)
        return output, (inner, output)


def seq2seq():
    """Translates by an LSTM that attends to another one; sentences have any length."""

    def loss(batch):
        source, target = batch
        cell, lengths = tf.nn.rnn_cell.LSTMCell, tf.reduce_sum(tf.sign(source), 1)
        memory, last = tf.nn.dynamic_rnn(
            cell(WIDTH), _embedded("source", source), lengths, dtype=tf.float32
        )
        start = last, tf.zeros_like(last.h)
        with tf.variable_scope("decoder"):
            net, _ = tf.nn.dynamic_rnn(
                _Attending(memory), _embedded("target", target[:, :-1]), initial_state=start
            )
        weights = tf.cast(tf.sign(target[:, 1:]), tf.float32)
        logits = _dense(net, WORDS)
        return tf.losses.sparse_softmax_cross_entropy(target[:, 1:], logits, weights)

    return (_ids(None), _ids(None)), loss


def unet():
    """Down and up again, with the same sizes joined (Ronneberger et al., 2015)."""

    def loss(batch):
        net, kept = batch[0], []
        for channels in (32, 64, 128):
            net = _convolved(_convolved(net, channels), channels)
            kept.append(net)
            net = tf.layers.max_pooling2d(net, 2, 2)
        net = _convolved(net, 256)
        for channels in (128, 64, 32):
            net = tf.layers.conv2d_transpose(net, channels, 2, 2, "same")
            net = _convolved(tf.concat([net, kept.pop()], -1), channels)
        return _entropy(batch[1], _convolved(net, 4, 1, activation=None))

    return (_images(), _ids(64, 64)), loss


def wgan_gp():
    """A critic with its penalty on gradients, and its generator (Gulrajani et al., 2017)."""

    def critic(x):
        with tf.variable_scope("critic", reuse=tf.AUTO_REUSE):
            net = tf.nn.conv2d(x, tf.get_variable("a", [5, 5, 3, 64]), 2, "SAME")
            net = tf.nn.leaky_relu(net)
            net = tf.nn.conv2d(net, tf.get_variable("b", [5, 5, 64, 128]), 2, "SAME")
            net = tf.reshape(tf.nn.leaky_relu(net), [-1, 8 * 8 * 128])
            return net @ tf.get_variable("c", [8 * 8 * 128, 1])

    def loss(real):
        net = _dense(tf.random.normal([tf.shape(real)[0], 128]), 8 * 8 * 128, tf.nn.relu)
        net = tf.layers.conv2d_transpose(tf.reshape(net, [-1, 8, 8, 128]), 64, 5, 2, "same")
        made = tf.layers.conv2d_transpose(tf.nn.relu(net), 3, 5, 2, "same", activation=tf.tanh)
        mix = tf.random.uniform([tf.shape(real)[0], 1, 1, 1])
        between = real + mix * (made - real)
        slope = tf.gradients(critic(between), between)[0]
        norms = tf.sqrt(tf.reduce_sum(slope**2, [1, 2, 3]) + 1e-12)
        penalty = tf.reduce_mean((norms - 1.0) ** 2)
        return tf.reduce_mean(critic(made)) - tf.reduce_mean(critic(real)) + 10.0 * penalty

    return _images(32), loss


def vae():
    """Kingma and Welling, 2014."""

    def loss(x):
        mean, log = tf.split(_dense(_dense(x, 512, tf.nn.relu), 64), 2, 1)
        drawn = mean + tf.exp(0.5 * log) * tf.random.normal(tf.shape(mean))
        logits = _dense(_dense(drawn, 512, tf.nn.relu), 784)
        errors = tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=logits)
        divergence = -0.5 * tf.reduce_sum(1 + log - mean**2 - tf.exp(log), 1)
        return tf.reduce_mean(tf.reduce_sum(errors, 1) + divergence)

    return _numbers(784), loss


def simclr():
    """All pairs of two views of each image (Chen et al., 2020)."""

    def loss(batch):
        count, net = tf.shape(batch[0])[0], tf.concat(batch, 0)
        for channels in (32, 64, 128):
            net = _convolved(net, channels, 3, 2)
        net = _dense(_dense(tf.reduce_mean(net, [1, 2]), 128, tf.nn.relu), 64)
        one, other = tf.split(tf.math.l2_normalize(net, -1), 2)
        itself = 1e9 * tf.one_hot(tf.range(count), count)

        def side(a, b):
            logits = tf.concat([a @ tf.transpose(b), a @ tf.transpose(a) - itself], 1) / 0.1
            return tf.reduce_mean(_entropy(tf.range(count), logits))

        return side(one, other) + side(other, one)

    return (_images(), _images()), loss


def deepfm():
    """Products of pairs of fields beside a network of them (Guo et al., 2017)."""
    fields = 26

    def loss(batch):
        net = _embedded("fields", batch[0], 16, 100_000)
        total = tf.reduce_sum(net, 1)
        pairs = 0.5 * tf.reduce_sum(total**2 - tf.reduce_sum(net**2, 1), 1, keepdims=True)
        line = tf.reduce_sum(_embedded("line", batch[0], 1, 100_000), 1)
        deep = tf.reshape(net, [-1, fields * 16])
        for _ in range(3):
            deep = tf.layers.dropout(_dense(deep, 400, tf.nn.relu), 0.5, training=True)
        return _clicks(batch[1], line + pairs + _dense(deep, 1))

    return (_ids(fields), _numbers(1)), loss


def din():
    """Attention of a candidate over what a user clicked (Zhou et al., 2018)."""

    def loss(batch):
        history, candidate, labels = batch
        mask = tf.cast(history > 0, tf.float32)
        keys = _embedded("items", history, 64, 100_000)
        with tf.variable_scope("", reuse=True):
            query = _embedded("items", candidate, 64, 100_000)
        each = tf.tile(query[:, None], [1, tf.shape(keys)[1], 1])
        net = _dense(tf.concat([each, keys, each - keys, each * keys], -1), 80, tf.sigmoid)
        weights = tf.squeeze(_dense(_dense(net, 40, tf.sigmoid), 1), -1) * mask
        user = tf.einsum("nt,ntd->nd", weights, keys)
        net = tf.concat([user, query, user * query], 1)
        for units in (200, 80):
            net = _dense(tf.layers.batch_normalization(net, training=True), units, tf.nn.relu)
        return _clicks(labels, _dense(net, 1))

    return (_ids(None), _ids(), _numbers(1)), loss


def bilstm_crf():
    """Tags words, padded to the longest sentence, by a chain (Huang et al., 2015)."""
    tags = 20

    def forward(scores, chain, lengths):
        def step(before, given):
            time, here = given
            after = tf.reduce_logsumexp(before[:, :, None] + chain, 1) + here
            return tf.where_v2((time < lengths)[:, None], after, before)

        rest = tf.transpose(scores[:, 1:], [1, 0, 2])
        times = tf.range(1, tf.shape(scores)[1])
        return tf.reduce_logsumexp(tf.scan(step, (times, rest), scores[:, 0])[-1], 1)

    def loss(batch):
        words, labels = batch
        lengths = tf.reduce_sum(tf.sign(words), 1)
        cell = tf.nn.rnn_cell.LSTMCell
        outputs, _ = tf.nn.bidirectional_dynamic_rnn(
            cell(WIDTH), cell(WIDTH), _embedded("words", words), lengths, dtype=tf.float32
        )
        scores = _dense(tf.concat(outputs, -1), tags)
        chain = tf.get_variable("chain", [tags, tags])
        mask = tf.sequence_mask(lengths, tf.shape(words)[1], tf.float32)
        unary = tf.reduce_sum(tf.one_hot(labels, tags) * scores, -1) * mask
        steps = tf.gather_nd(chain, tf.stack([labels[:, :-1], labels[:, 1:]], -1)) * mask[:, 1:]
        given = tf.reduce_sum(unary, 1) + tf.reduce_sum(steps, 1)
        return tf.reduce_mean(forward(scores, chain, lengths) - given)

    return (_ids(None), _ids(None)), loss


def detection_heads():
    """Boxes cut out of a feature map, with heads for class, box and mask (He et al., 2017)."""
    boxes = 8

    def loss(batch):
        image, places, classes, offsets, masks = batch
        net = image
        for channels in (64, 128, 256):
            net = _convolved(net, channels, 3, 2)
        rows = tf.repeat(tf.range(tf.shape(image)[0]), boxes)
        cut = tf.image.crop_and_resize(net, tf.reshape(places, [-1, 4]), rows, [14, 14])
        flat = _dense(tf.reshape(cut, [-1, 14 * 14 * 256]), 512, tf.nn.relu)
        net = tf.layers.conv2d_transpose(_convolved(_convolved(cut, 256), 256), 256, 2, 2)
        shape = _convolved(net, 1, 1, activation=None)
        given = tf.reshape(masks, [-1, 28, 28, 1])
        return (
            _entropy(tf.reshape(classes, [-1]), _dense(flat, 81))
            + tf.losses.huber_loss(tf.reshape(offsets, [-1, 4]), _dense(flat, 4))
            + _clicks(given, shape)
        )

    batch = (
        _images(128),
        _numbers(boxes, 4),
        _ids(boxes),
        _numbers(boxes, 4),
        _numbers(boxes, 28, 28),
    )
    return batch, loss


def ragged_words():
    """Averages the words of rows that have any number of them, as fastText does (Joulin, 2016)."""

    def loss(batch):
        words, labels = batch
        rows = words.with_flat_values(_embedded("words", words.flat_values))
        net = tf.reshape(tf.reduce_mean(rows, 1), [-1, WIDTH])
        return _entropy(labels, _dense(_dense(net, 512, tf.nn.relu), 100))

    values, splits = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int64, [None])
    return (tf.RaggedTensor.from_row_splits(values, splits, validate=False), _ids()), loss


NETWORKS = {
    **{name: _of(name) for name in networks.CASES},
    "efficientnet": efficientnet,
    "gpt": gpt,
    "seq2seq": seq2seq,
    "unet": unet,
    "wgan_gp": wgan_gp,
    "vae": vae,
    "simclr": simclr,
    "deepfm": deepfm,
    "din": din,
    "bilstm_crf": bilstm_crf,
    "detection_heads": detection_heads,
    "ragged_words": ragged_words,
}
