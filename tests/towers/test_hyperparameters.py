"""What optimizers take of rows besides gradients, such as a learning rate: that of one device."""

import functools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
from contract.models import F64, step
from towers.strangers_gradients import spec
from towers.strangers_state import linear

pytestmark = pytest.mark.conformance


def _count(x):
    return tf.cast(tf.shape(x)[0], F64)


def _minimize(make, errors, loss):
    return make(errors, loss).minimize(loss, step())


def _sgd(rate):
    return lambda errors, loss: tf.train.GradientDescentOptimizer(rate(errors, loss))


RATES = {
    "the loss": lambda errors, loss: 0.1 * loss,
    "a function of it": lambda errors, loss: 0.3 * tf.sigmoid(loss) + 0.01,
    "one that chooses": lambda errors, loss: tf.where(loss > 0.8, tf.constant(0.3, F64), 0.01),
    "how many rows": lambda errors, loss: 0.01 * _count(errors),
    "the largest": lambda errors, loss: 0.1 * tf.reduce_max(errors),
    "what a function returns": lambda errors, loss: functools.partial(tf.identity, 0.1 * loss),
}


def _by_compute_and_apply(errors, loss):
    optimizer = tf.train.MomentumOptimizer(0.1 * loss, 0.9)
    pairs = optimizer.compute_gradients(loss)
    return optimizer.apply_gradients([(0.5 * g, v) for g, v in pairs], step())


def _by_wrapped(errors, loss, **kwargs):
    optimizer = tf.train.GradientDescentOptimizer(0.1 * loss)
    return replicate.TowerOptimizer(optimizer, **kwargs).minimize(loss, step())


STEPS = {
    **{f"SGD by {name}": functools.partial(_minimize, _sgd(rate)) for name, rate in RATES.items()},
    "Adam": lambda e, loss: tf.train.AdamOptimizer(0.1 * loss, beta1=0.5).minimize(loss, step()),
    "Ftrl": lambda e, loss: tf.train.FtrlOptimizer(0.1 * loss).minimize(loss, step()),
    "compute and apply": _by_compute_and_apply,
    "TowerOptimizer": _by_wrapped,
    "a loss scale": functools.partial(_by_wrapped, loss_scale="dynamic"),
    "finite": functools.partial(_by_wrapped, check_finite=True),
    "gradients changed by rows": lambda errors, loss: _by_wrapped(
        errors, loss, transform_gradients=lambda pairs: [(g * loss, v) for g, v in pairs]
    ),
    "a norm of rows": lambda errors, loss: _by_wrapped(errors, loss, clip_norm=0.01 * loss),
    "batches": functools.partial(_by_wrapped, accumulate_steps=2),
    "a loss scale, batches": functools.partial(
        _by_wrapped, loss_scale="dynamic", accumulate_steps=2
    ),
}


def _record(name, num_towers, batches=contract.UNEVEN, **kwargs):
    def model_fn(features, labels, mode, params):
        errors = (linear(features) - labels) ** 2
        loss = tf.reduce_mean(errors)
        return spec(mode, loss, STEPS[name](errors, loss))

    return contract.record_plain(model_fn, num_towers, batches, **kwargs)


@pytest.mark.parametrize("name", STEPS)
def test_what_is_made_of_rows_is_that_of_all(name, warnings):
    want = _record(name, 1)
    number = list(STEPS).index(name)
    got = _record(name, 2 + number % 2)
    assert np.ptp(want.losses) > 0
    for run in (got, want):  # What is accumulated lies elsewhere on towers.
        for values in run.variables:
            for variable in [variable for variable in values if "accumulated" in variable]:
                del values[variable]
    contract.assert_same_run(got, want)
    assert [text for text in warnings() if "tower 0's" in text] == []


@pytest.mark.parametrize("placement", ["round_robin", "replicated"])
@pytest.mark.parametrize("name", ["SGD by the loss", "Adam", "TowerOptimizer"])
def test_variables_on_all_devices(name, placement):
    got = _record(name, 3, contract.EVEN, variable_placement=placement)
    contract.assert_same_run(got, _record(name, 1, contract.EVEN))


@pytest.mark.parametrize("batches", ["EVEN", "DYNAMIC"])
def test_other_shards(batches):
    batches = getattr(contract, batches)
    got = _record("SGD by the loss", 2, batches)
    contract.assert_same_run(got, _record("SGD by the loss", 1, batches))


@pytest.mark.parametrize(
    "rate",
    [
        lambda errors, loss: tf.reduce_mean(tf.sort(errors, axis=0)[:2]),
        lambda errors, loss: lambda: tf.reduce_mean(errors),  # Made where it is applied.
    ],
)
def test_what_is_not_known_of_all_rows_is_said(rate, warnings, monkeypatch):
    monkeypatch.setitem(STEPS, "SGD by rows", functools.partial(_minimize, _sgd(rate)))
    _record("SGD by rows", 2)
    (said,) = [text for text in warnings() if "tower 0's" in text]
    assert said.startswith(
        "replicate: gradients of the whole batch are applied with what is made from rows, such as "
        "a learning rate, and nothing says what that is of all rows, so that it is tower 0's: "
    )
    assert "test_hyperparameters.py:" in said
    assert "Make it of `replicate.cross_tower_mean` or `cross_tower_sum`." in said


def test_what_the_model_made_of_all_rows_is_left_alone(warnings, monkeypatch):
    rate = _sgd(lambda errors, loss: 0.1 * replicate.cross_tower_mean(tf.reduce_mean(errors)))
    monkeypatch.setitem(STEPS, "SGD by a mean", functools.partial(_minimize, rate))
    got = _record("SGD by a mean", 2, contract.EVEN)
    contract.assert_same_run(got, _record("SGD by a mean", 1, contract.EVEN))
    assert warnings() == []


def test_nothing_is_made_where_no_row_enters():
    def operations(rate):
        def model_fn(features, labels, mode, params):
            loss = tf.reduce_mean((linear(features) - labels) ** 2)
            optimizer = tf.train.GradientDescentOptimizer(rate(loss))
            return spec(mode, loss, optimizer.minimize(loss, step()))

        with tf.Graph().as_default() as graph:
            rows = tf.data.make_one_shot_iterator(contract.dataset(contract.UNEVEN)).get_next()
            contract.replicated(model_fn, 2)(*rows, mode="train", params=contract.make_params())
        return sum(op.name.startswith("replicate/updates") for op in graph.get_operations())

    assert operations(lambda loss: 0.1) == 0
    assert operations(lambda loss: 0.1 * loss) > 0
