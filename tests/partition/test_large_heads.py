"""Losses over large vocabularies and over all pairs of rows: what crosses, in bytes."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
from replicate.partition import coverage_of
from replicate.reports import report

N, WIDTH, WORDS, DRAWN, STEPS = 24, 8, 500, 30, 6
FLOAT = 4


def logits(x):
    kernel = tf.get_variable("words", [WIDTH, WORDS])
    return tf.matmul(tf.layers.dense(x, WIDTH), kernel)


def of_rows(x, words):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=words, logits=logits(x))


def cumulated(x, words):
    """A loss that all rows make together, of the losses of rows."""
    return tf.reduce_mean(tf.square(tf.cumsum(of_rows(x, words))))


def hardest(x, words):
    return tf.reduce_mean(tf.nn.top_k(of_rows(x, words), k=3).values)


def weighted_by_each_other(x, words):
    losses = of_rows(x, words)
    return tf.reduce_sum(losses * tf.nn.softmax(losses))


def smoothest(x, words):
    """All logits of all rows meet in a number."""
    return tf.reduce_logsumexp(logits(x))


def similar(x, words):
    """Each row is to find its own among all others."""
    a, b = tf.layers.dense(x, WIDTH), tf.layers.dense(x, WIDTH)
    found = tf.matmul(a, b, transpose_b=True)
    own = tf.range(tf.shape(found)[0])
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=own, logits=found))


def triplets(x, words):
    """Every other row of the same word is to be nearer than every row of another one."""
    h = tf.layers.dense(x, WIDTH)
    distance = tf.reduce_sum(tf.square(h[:, None] - h[None]), -1)
    same = tf.cast(tf.equal(words[:, None], words[None]), tf.float32)
    further = tf.nn.relu(distance[:, :, None] - distance[:, None, :] + 0.2)
    return tf.reduce_mean(further * same[:, :, None] * (1 - same)[:, None, :])


def sampled(make):
    def loss(x, words):
        kernel, bias = tf.get_variable("words", [WORDS, WIDTH]), tf.get_variable("b", [WORDS])
        h = tf.layers.dense(x, WIDTH)
        return tf.reduce_mean(make(kernel, bias, words[:, None], h, DRAWN, WORDS))

    return loss


def masked_words(x, words):
    """BERT's: each sequence has words to predict, by their places in the flat batch."""
    flat = tf.reshape(tf.layers.dense(x, STEPS * WIDTH, tf.tanh), [-1, WIDTH])
    places = words + STEPS * tf.range(tf.size(words, out_type=tf.int64))
    return tf.reduce_mean(of_rows(tf.gather(flat, places), words))


def chosen_steps(x, words):
    """The states at the best two steps of each row, and crops of them, as from an image."""
    made = tf.layers.dense(x, STEPS * WIDTH, tf.tanh)
    steps = tf.reshape(made, [-1, STEPS, WIDTH])
    best = tf.nn.top_k(steps[:, :, 0], 2).indices
    rows = tf.expand_dims(tf.range(tf.shape(x)[0]), 1) * tf.ones_like(best)
    states = tf.gather_nd(steps, tf.stack([rows, best], -1))
    boxes = tf.sigmoid(tf.reshape(states, [-1, WIDTH])[:, :4])
    crops = tf.image.crop_and_resize(steps[..., None], boxes, tf.reshape(rows, [-1]), [2, 2])
    return tf.reduce_mean(crops) + tf.reduce_mean(states**2)


ROWS = N * FLOAT
EMBEDDED = N * WIDTH * FLOAT
IDS = 2 * ROWS  # Of 64 bits.
# The greatest tensor that is joined, and how many bytes of joined tensors there are at most.
HEADS = {
    "cumulated": (cumulated, ROWS, 2 * ROWS),
    "hardest": (hardest, ROWS, ROWS),
    "weighted_by_each_other": (weighted_by_each_other, ROWS, ROWS),
    "smoothest": (smoothest, 0, 0),
    "similar": (similar, EMBEDDED, EMBEDDED),
    "chosen_steps": (chosen_steps, 0, 0),
    "triplets": (triplets, EMBEDDED, EMBEDDED + IDS),
    # Labels, and gradients of the rows that these have looked up.
    "sampled": (sampled(tf.nn.sampled_softmax_loss), EMBEDDED, EMBEDDED + 2 * IDS + ROWS),
    "contrasted": (sampled(tf.nn.nce_loss), EMBEDDED, EMBEDDED + 2 * IDS + ROWS),
}


@pytest.mark.parametrize("is_static", [True, False], ids=["static", "unknown"])
@pytest.mark.parametrize("name", list(HEADS))
def test_what_is_large_is_not_joined(name, is_static, fresh_graph):
    loss, largest, total = HEADS[name]
    coverage = covered(loss, 2, is_static, fresh_graph)
    # Where the graph does not know n, 32 rows are counted for each tower.
    per_row = 1 if is_static else N / 64
    joined = [one.size * per_row for one in coverage.meetings if one.kind == "join"]
    assert max(joined, default=0) <= largest
    assert np.sum(joined) <= total
    assert coverage.share_multiplied > 0.96


def test_rows_that_unknown_indices_pick_cross_once(fresh_graph):
    """Not once for each tower, nor as one sum for each tower in the gradient."""
    coverage = covered(masked_words, 4, True, fresh_graph)
    assert coverage.share_multiplied == 1.0
    # Three quarters of all steps to the device that picks, of the picked ones to the towers, and
    # as many back; and a few integers.
    crossing = report.last().kinds["other"].size
    assert crossing <= 0.75 * 2 * (STEPS + 1) * EMBEDDED + 8 * IDS


def covered(loss, num_towers, is_static, graph):
    """Returns the `Coverage` of a training step of a loss."""

    def model_fn(features, labels, mode):
        made = loss(features, labels)
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        train_op = optimizer.minimize(made, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=made, train_op=train_op)

    tf.train.create_global_step()
    size = [N] if is_static else [None]
    features = tf.placeholder(tf.float32, [*size, WIDTH])
    labels = tf.placeholder(tf.int64, size)
    contract.replicated(model_fn, num_towers)(features, labels, "train")
    return coverage_of(graph)
