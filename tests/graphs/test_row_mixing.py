"""Losses by which rows take something of other rows, or that are one value of rows, are said."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
from contract.models import F64, get_variable, optimizer, step
from towers.strangers_gradients import spec

pytestmark = pytest.mark.conformance

OTHER_ROWS = "replicate: in a loss, what is computed of a row depends on other rows of the tower ("
ONE_VALUE = "replicate: a loss is taken from a tower's rows neither as a mean nor as a sum ("
SUM_IN = "replicate: a loss is made of a sum over rows by an operation ("


def _square(errors):
    return tf.reduce_sum(errors**2, 1)


def _count(x):
    return tf.cast(tf.shape(x)[0], F64)


def _classes(labels):
    return tf.cast(tf.reduce_sum(labels, 1) > 0, tf.int32)


def _weighted_by_class(hidden, errors, labels):
    one_hot = tf.one_hot(_classes(labels), 2, dtype=F64)
    weights = 1.0 / (1.0 + tf.reduce_sum(one_hot, 0))
    return tf.reduce_mean(_square(errors) * tf.reduce_sum(one_hot * weights, 1))


def _looked_up_by_class(hidden, errors, labels):
    one_hot = tf.one_hot(_classes(labels), 2, dtype=F64)
    weights = 1.0 / (1.0 + tf.reduce_sum(one_hot, 0))
    return tf.reduce_mean(_square(errors) * tf.gather(weights, _classes(labels)))


def _in_batch_softmax(turn):
    def loss(hidden, errors, labels):
        others = tf.tanh(hidden + 1.0)
        logits = (
            tf.matmul(hidden, others, transpose_b=True)
            if turn
            else tf.matmul(hidden, tf.transpose(others))
        )
        own = tf.range(tf.shape(hidden)[0])
        return tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=own, logits=logits)
        )

    return loss


def _correlation(hidden, errors, labels):
    centred = hidden - tf.reduce_mean(hidden, 0)
    return tf.reduce_mean(errors**2) + tf.reduce_sum(centred**2)


def _batch_norm(hidden, errors, labels):
    normal = tf.layers.batch_normalization(hidden, training=True)
    return tf.reduce_mean(errors**2) + tf.reduce_mean(normal[:, :1] ** 3)


def _fused_batch_norm(hidden, errors, labels):
    images = tf.cast(hidden, tf.float32)[:, tf.newaxis, tf.newaxis, :]
    normal, _, _ = tf.nn.fused_batch_norm(images, tf.ones([3]), tf.zeros([3]))
    return tf.reduce_mean(errors**2) + tf.cast(tf.reduce_mean(normal**3), F64)


def _by_class(hidden, errors, labels):
    return tf.reduce_mean(tf.math.unsorted_segment_mean(_square(errors), _classes(labels), 2))


def _if_finite(hidden, errors, labels):
    total = tf.reduce_sum(_square(errors))
    bad = tf.reduce_any(tf.is_nan(_square(errors)))
    return tf.where(bad, tf.zeros_like(total), total)


# Name -> a loss of hidden values, errors and labels, and how what is said of it begins.
SAID = {
    "class weights": (_weighted_by_class, OTHER_ROWS),
    "class weights that are looked up": (_looked_up_by_class, OTHER_ROWS),
    "negatives of the batch": (_in_batch_softmax(True), OTHER_ROWS),
    "negatives of the batch, turned": (_in_batch_softmax(False), OTHER_ROWS),
    "correlation": (_correlation, OTHER_ROWS),
    "batch norm": (_batch_norm, OTHER_ROWS),
    "fused batch norm": (_fused_batch_norm, OTHER_ROWS),
    "hard rows": (lambda h, e, y: tf.reduce_mean(tf.nn.top_k(_square(e), 2)[0]), OTHER_ROWS),
    "softmax over rows": (
        lambda h, e, y: tf.reduce_sum(tf.nn.softmax(_square(e)) * _square(e)),
        OTHER_ROWS,
    ),
    "logsumexp over rows": (lambda h, e, y: tf.reduce_logsumexp(_square(e)), OTHER_ROWS),
    "rows by their number": (lambda h, e, y: tf.reduce_sum(_square(e) / _count(e)), OTHER_ROWS),
    "means of classes": (_by_class, OTHER_ROWS),
    "largest": (lambda h, e, y: tf.reduce_mean(e**2) + tf.reduce_max(e**2), ONE_VALUE),
    "smallest": (lambda h, e, y: tf.reduce_min(_square(e)), ONE_VALUE),
    "product": (lambda h, e, y: tf.reduce_prod(tf.sigmoid(_square(e))), ONE_VALUE),
    "one row": (lambda h, e, y: _square(e)[0], ONE_VALUE),
    "a sum if it is finite": (_if_finite, SUM_IN),
}


def _attention(hidden, errors, labels):
    scores = tf.nn.softmax(tf.matmul(hidden[:, :, tf.newaxis], hidden[:, tf.newaxis, :]))
    return tf.reduce_mean(errors**2) + tf.reduce_mean(tf.matmul(scores, hidden[:, :, tf.newaxis]))


def _chosen_class(hidden, errors, labels):
    places = tf.stack([tf.range(tf.shape(hidden)[0]), _classes(labels)], 1)
    return tf.reduce_mean(errors**2) + tf.reduce_mean(tf.gather_nd(hidden, places))


def _masked(hidden, errors, labels):
    lengths = 1 + _classes(labels)
    mask = tf.cast(tf.sequence_mask(lengths, 3), F64)
    return tf.reduce_mean(errors**2) + tf.reduce_sum(hidden * mask) / tf.reduce_sum(mask)


# Of these, rows take nothing of each other.
NOT_SAID = {
    "mean": lambda h, e, y: tf.reduce_mean(e**2),
    "mask": _masked,
    "logarithm of a mean": lambda h, e, y: tf.log(tf.reduce_mean(tf.exp(e))),
    "covariance": lambda h, e, y: (
        tf.reduce_mean(e**2) + tf.nn.l2_loss(tf.matmul(h, h, transpose_a=True) / _count(h))
    ),
    "stable logsumexp within rows": lambda h, e, y: tf.reduce_mean(
        tf.reduce_logsumexp(h, 1) + _square(e)
    ),
    "norm of a row": lambda h, e, y: tf.reduce_mean(e**2 + tf.nn.l2_normalize(h, 1)[:, :1]),
    "attention within rows": _attention,
    "a class of each row": _chosen_class,
    "largest within rows": lambda h, e, y: tf.reduce_mean(tf.reduce_max(h, 1) + _square(e)),
    "hard places of a row": lambda h, e, y: (
        tf.reduce_mean(e**2) + tf.reduce_mean(tf.nn.top_k(h, 2)[0])
    ),
}


def _record(loss_of, num_towers, batches=contract.UNEVEN, **kwargs):
    def model_fn(features, labels, mode, params):
        hidden = tf.tanh(features["x"] @ get_variable("w", [4, 3]))
        errors = hidden @ get_variable("v", [3, 1]) - labels
        loss = loss_of(hidden, errors, labels)
        return spec(mode, loss, optimizer(params).minimize(loss, step()))

    return contract.record_plain(model_fn, num_towers, batches, **kwargs)


@pytest.mark.usefixtures("resource_variables")
@pytest.mark.parametrize("name", SAID)
def test_what_differs_from_one_device_is_said_with_its_line(name, warnings):
    loss_of, begins = SAID[name]
    got = _record(loss_of, 2)
    (said,) = [text for text in warnings() if text.startswith(begins)]
    assert "test_row_mixing.py:" in said or "batch_norm" in name
    want = _record(loss_of, 1)
    assert np.max(np.abs(np.array(got.losses) - want.losses)) > 1e-9, "nothing was to be said"


@pytest.mark.parametrize("name", NOT_SAID)
def test_what_does_not_is_not_said_and_equal(name, warnings):
    got = _record(NOT_SAID[name], 2)
    assert warnings() == []
    contract.assert_same_run(got, _record(NOT_SAID[name], 1))


@pytest.mark.parametrize("name", ["largest", "a sum if it is finite"])
def test_with_loss_reduction_sum_it_is_as_was_said(name, warnings):
    _record(SAID[name][0], 2, reduction=tf.losses.Reduction.SUM)
    assert warnings() == []


def test_towers_that_the_model_tells_apart_may_differ(warnings):
    """As those of a search, each of which trains a network of its own."""

    def loss_of(hidden, errors, labels):
        own = tf.cast(tf.convert_to_tensor(replicate.tower_index()), F64)
        return _batch_norm(hidden, errors * (1.0 + own), labels)

    _record(loss_of, 2)
    assert warnings() == []


def test_the_first_of_several_is_said_once(warnings):
    def loss_of(hidden, errors, labels):
        for _ in range(3):
            hidden -= tf.reduce_mean(hidden**2, 0)
        return tf.reduce_mean(errors**2) + tf.reduce_mean(hidden)

    _record(loss_of, 2)
    (said,) = warnings()
    assert said.startswith(f"{OTHER_ROWS}sub_1, ")
    assert "Take `replicate.cross_tower_mean` or `cross_tower_sum` of what rows have in common" in (
        said
    )
