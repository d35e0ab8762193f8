"""Losses of samples, boxes, experts and pairs, as their authors publish them."""

import tensorflow.compat.v1 as tf

from partition import tables
from partition.harness import ModeKeys
from partition.layer_models import dense
from partition.model_inputs import F64, GLOROT, get_variable, hidden

CLASSES = 9


def _sampled(features, labels, mode, params, function):
    """A network over words whose loss takes samples of them, and whose predictions take all."""
    words = features["words"]
    table = get_variable("table", [CLASSES, 4])
    mask = tf.cast(tf.not_equal(words, 0), F64)[:, :, None]
    h = tf.reduce_sum(tf.nn.embedding_lookup(table, words) * mask, 1) / tf.reduce_sum(mask, 1)
    w, b = get_variable("w", [CLASSES, 4]), get_variable("b", [CLASSES])
    logits = tf.matmul(h, w, transpose_b=True) + b
    # Tensors that the loss does not need may be read after the update of a reference variable.
    predictions = {"h": h} if mode == ModeKeys.TRAIN else {"p": tf.nn.softmax(logits)}
    if labels is None:
        return tables.spec_of(mode, predictions, None, params)
    target = tf.cast(words[:, :1], tf.int64)
    if mode != ModeKeys.TRAIN:
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target[:, 0], logits=logits)
        )
        return tables.spec_of(mode, predictions, loss, params)
    return tables.spec_of(mode, predictions, tf.reduce_mean(function(w, b, target, h)), params)


def _as_doubles(sampled):
    return sampled[0], tf.cast(sampled[1], F64), tf.cast(sampled[2], F64)


def sampled_softmax(features, labels, mode, params):
    def loss(w, b, target, h):
        sampled = tf.random.log_uniform_candidate_sampler(target, 1, 4, True, CLASSES, seed=5)
        return tf.nn.sampled_softmax_loss(
            w, b, target, h, 4, CLASSES, sampled_values=_as_doubles(sampled)
        )

    return _sampled(features, labels, mode, params, loss)


def noise_contrastive(features, labels, mode, params):
    def loss(w, b, target, h):
        sampled = tf.random.learned_unigram_candidate_sampler(target, 1, 3, True, CLASSES, seed=5)
        return tf.nn.nce_loss(
            w, b, target, h, 3, CLASSES, sampled_values=_as_doubles(sampled),
            remove_accidental_hits=True,
        )  # fmt: skip

    return _sampled(features, labels, mode, params, loss)


def hard_negatives(features, labels, mode, params):
    """SSD: classes of anchors, as many of the hardest negatives as three times the positives."""
    anchors = tf.reshape(dense(features["frames"], 7), [-1, 49])
    scores = tf.reshape(dense(anchors, 6 * 4), [-1, 6, 4])
    boxes = tf.reshape(dense(anchors, 6 * 2, use_bias=False), [-1, 6, 2])
    predictions = {"best": tf.argmax(scores, 2), "boxes": boxes}
    if labels is None:
        return tables.spec_of(mode, predictions, None, params)
    classes = tf.reshape(labels["replies"], [-1, 4])
    classes = tf.pad(tf.minimum(classes, 3), [[0, 0], [0, 2]])
    flat = tf.reshape(classes, [-1])
    logits = tf.reshape(scores, [-1, 4])
    positive = flat > 0
    number = tf.reduce_sum(tf.cast(positive, tf.int32))
    background = tf.nn.softmax(logits)[:, 0]
    negative = tf.logical_not(positive)
    values = tf.where(negative, background, tf.ones_like(background))
    many = tf.minimum(3 * number, tf.reduce_sum(tf.cast(negative, tf.int32)))
    hardest, _ = tf.nn.top_k(-values, k=many)
    chosen = tf.logical_and(negative, values <= -hardest[-1])
    entropies = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=flat, logits=logits)
    picked = tf.boolean_mask(entropies, tf.logical_or(positive, chosen))
    where = tf.reshape(boxes, [-1, 2])
    errors = tf.boolean_mask(where - tf.tile(labels["y"], [6, 2]), positive)
    errors = tf.where(tf.abs(errors) < 1, 0.5 * errors**2, tf.abs(errors) - 0.5)
    count = tf.cast(number, F64)
    loss = tf.reduce_sum(picked) / count + tf.reduce_sum(errors) / count
    return tables.spec_of(mode, predictions, loss, params)


def masked_rows(features, labels, mode, params):
    """Losses of rows that a mask keeps, by `boolean_mask` and `tf.where`, and of words kept."""
    h = hidden(features["x"])
    words = get_variable("words", [9, 3])
    predictions = {"h": h}
    if labels is None:
        return tables.spec_of(mode, predictions, None, params)
    kept = labels["click"][:, 0] > 0
    rows = tf.boolean_mask(h, kept)
    targets = tf.boolean_mask(labels["k"], kept)
    entropies = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=rows)
    loss = tf.reduce_sum(entropies) / (tf.cast(tf.size(targets), F64) + 1e-8)
    mask = tf.not_equal(features["words"], 0)
    flat = tf.boolean_mask(tf.nn.embedding_lookup(words, features["words"]), mask)
    tags = tf.boolean_mask(labels["tags"], mask)
    loss += tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tags, logits=dense(flat, 4))
    )
    places = tf.where(kept)[:, 0]
    loss += 0.1 * tf.reduce_sum(tf.gather(h, places) ** 2) / 11.0
    accuracy = tf.metrics.accuracy(tags, tf.argmax(dense(flat, 4, name="dense_1"), 1))
    return tables.spec_of(mode, predictions, loss, params, {"accuracy": accuracy})


def experts_of_tensor2tensor(features, labels, mode, params):
    """The dispatcher of tensor2tensor: rows go to experts whose gates are not 0, and come back."""
    x, number = features["x"], 3
    gates = tf.nn.softmax(tf.matmul(x, get_variable("gate", [4, number])))
    top, places = tf.nn.top_k(gates, 2)
    top /= tf.reduce_sum(top, 1, keepdims=True)
    gates = tf.reduce_sum(tf.one_hot(places, number, dtype=F64) * top[:, :, None], 1)
    importance = tf.reduce_sum(gates, 0)
    where = tf.cast(tf.where(tf.transpose(gates) > 0), tf.int32)
    expert, row = tf.unstack(where, num=2, axis=1)
    sizes = tf.reduce_sum(tf.cast(gates > 0, tf.int32), [0])
    weights = tf.gather(tf.reshape(gates, [-1]), row * number + expert)
    parts = tf.split(tf.gather(x, row), sizes, 0, num=number)
    made = []
    for index, part in enumerate(parts):
        w = get_variable(f"w{index}", [4, 3])
        made.append(tf.tanh(tf.matmul(tf.reshape(part, [-1, 4]), w)))
    joined = tf.concat(made, 0) * weights[:, None]
    h = tf.unsorted_segment_sum(joined, row, tf.shape(gates)[0])
    if labels is None:
        return tables.spec_of(mode, {"h": h}, None, params)
    mean, variance = tf.nn.moments(importance, [0])
    loss = tf.reduce_mean((h - labels["y"]) ** 2) + 0.1 * variance / (mean**2 + 1e-10)
    return tables.spec_of(mode, {"h": h}, loss, params)


def experts_by_partition(features, labels, mode, params):
    """A switch: each row goes to its best expert by `dynamic_partition`, and is stitched back."""
    x = features["x"]
    gates = tf.nn.softmax(dense(x, 3))
    best = tf.argmax(gates, 1, output_type=tf.int32)
    rows = tf.dynamic_partition(x, best, 3)
    places = tf.dynamic_partition(tf.range(tf.shape(x)[0]), best, 3)
    made = [dense(part, 3, tf.tanh, name=f"expert{i}") for i, part in enumerate(rows)]
    h = tf.dynamic_stitch(places, made) * tf.reduce_max(gates, 1, keepdims=True)
    h = tf.reshape(h, [-1, 3])
    if labels is None:
        return tables.spec_of(mode, {"h": h}, None, params)
    fraction = tf.reduce_mean(tf.one_hot(best, 3, dtype=F64), 0)
    balance = 3.0 * tf.reduce_sum(fraction * tf.reduce_mean(gates, 0))
    loss = tf.reduce_mean((h - labels["y"]) ** 2) + 0.1 * balance
    return tables.spec_of(mode, {"h": h}, loss, params)


def simclr(features, labels, mode, params):
    """Two views of each row, put below each other, through a recurrence: NT-Xent."""
    views = tf.concat([features["frames"], features["frames"][:, ::-1] * 0.9], 0)
    lengths = tf.tile(features["num_frames"], [2])
    cell = tf.nn.rnn_cell.GRUCell(4, kernel_initializer=GLOROT())
    _, state = tf.nn.dynamic_rnn(cell, views, lengths, dtype=F64)
    h = tf.math.l2_normalize(dense(state, 3, use_bias=False), -1)
    one, two = tf.split(h, 2, 0)
    if labels is None:
        return tables.spec_of(mode, {"one": one}, None, params)
    n = tf.shape(one)[0]
    targets = tf.one_hot(tf.range(n), n * 2, dtype=F64)
    masks = tf.one_hot(tf.range(n), n, dtype=F64) * 1e9

    def logits(a, b):
        return tf.matmul(a, b, transpose_b=True) / 0.5

    first = tf.concat([logits(one, two), logits(one, one) - masks], 1)
    second = tf.concat([logits(two, one), logits(two, two) - masks], 1)
    rows = [
        tf.nn.softmax_cross_entropy_with_logits_v2(labels=targets, logits=both)
        for both in (first, second)
    ]
    return tables.spec_of(mode, {"one": one}, tf.reduce_mean(rows[0] + rows[1]), params)


MODELS = {
    model.__name__: tables.of_old_control_flow(model)
    for model in (
        sampled_softmax,
        noise_contrastive,
        hard_negatives,
        masked_rows,
        experts_of_tensor2tensor,
        experts_by_partition,
        simclr,
    )
}
