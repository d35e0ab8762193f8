"""Load: batches of very different sizes, many towers, huge graphs, steps beyond 2^31.

Everything is compared with one device, step by step. The slow ones are for `make nightly`.
"""

import functools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
from benchmarks import graph_size
from contract import models

MODELS = ("get_variable", "regularized_tf_layers", "embedding")
USUAL = 6  # rows of a batch
LAST = 2**31  # a step that 32 bits do not hold


def batches_of(sizes):
    """Returns a `tf.data.Dataset` of batches of these sizes, unknown to the graph."""
    features, labels = contract.rows_of(sum(sizes))
    ends = np.cumsum(sizes)

    def made():
        for begin, end in zip(ends - sizes, ends):
            yield {key: value[begin:end] for key, value in features.items()}, labels[begin:end]

    def described(describe):
        return {key: describe(value) for key, value in features.items()}, describe(labels)

    types = described(lambda value: value.dtype)
    shapes = described(lambda value: [None, *value.shape[1:]])
    return tf.data.Dataset.from_generator(made, types, shapes)


def check(name, sizes, num_towers, **kwargs):
    """Asserts that batches of these sizes train as on one device."""
    fn = models.TABLE[name].fn
    input_fn = functools.partial(batches_of, sizes)
    want = contract.record(fn, input_fn, contract.make_params())
    on_towers = contract.replicated(fn, num_towers, **kwargs)
    params = contract.make_params(wrap=replicate.TowerOptimizer)
    got = contract.record(on_towers, input_fn, params, num_towers)
    assert len(got.losses) == len(sizes)
    contract.assert_same_run(got, want)


@pytest.mark.parametrize("times", [10, 100, pytest.param(1_000, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("name", MODELS)
def test_an_input_may_give_many_times_the_usual_rows(name, times):
    check(name, [USUAL, times * USUAL, USUAL + 1, times * USUAL - 1, 1, USUAL], 3)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("num_towers", [3, pytest.param(64, marks=pytest.mark.thorough)])
def test_batches_may_have_one_row(name, num_towers):
    check(name, [1] * 5, num_towers)


@pytest.mark.parametrize("placement", ["consolidation", "replicated"])
def test_64_towers_are_one_device(placement):
    check("regularized_tf_layers", [200, 64, 63, 7], 64, variable_placement=placement)


class StartAt(tf.train.SessionRunHook):
    """Sets the global step when a session begins."""

    def __init__(self, step):
        self._step = step

    def begin(self):
        self._assign = tf.train.get_global_step().assign(self._step)

    def after_create_session(self, session, coord):
        session.run(self._assign)


class Losses(tf.train.SessionRunHook):
    """Records the loss of each step by the global step after it."""

    def __init__(self):
        self.by_step = {}

    def begin(self):
        self._step = tf.train.get_global_step()
        self._loss = tf.get_collection(tf.GraphKeys.LOSSES)[-1]

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        # Read beside the loss, it may be that before or after the update.
        step = run_context.session.run(self._step)
        self.by_step[int(step)] = float(run_values.results)


def trained_from(first, directory, steps=8):
    """Trains on two towers from a step on, with every hook; returns the losses by step."""
    losses = Losses()
    wrap = functools.partial(
        replicate.TowerOptimizer, accumulate_steps=2, loss_scale="dynamic", clip_norm=1.0
    )
    model_fn = contract.replicated(models.TABLE["regularized_tf_layers"].fn, 2)
    config = tf.estimator.RunConfig(
        str(directory),
        tf_random_seed=contract.SEED,
        session_config=contract.session_config(2),
        save_checkpoints_steps=3,
        save_summary_steps=2,
    )
    hooks = [
        StartAt(first),
        losses,
        replicate.hooks.ProgressHook(every_secs=0),
        replicate.hooks.TowerMonitorHook(),
        replicate.hooks.StallHook(config, limit_secs=300),
        replicate.hooks.PreemptionHook(),
    ]
    estimator = tf.estimator.Estimator(
        model_fn, config=config, params=contract.make_params(wrap=wrap)
    )
    estimator.train(
        lambda: batches_of([USUAL] * steps).repeat(), hooks=hooks, max_steps=first + steps
    )
    assert estimator.get_variable_value("global_step") == first + steps
    return losses.by_step


def test_steps_may_be_more_than_32_bits_hold(tmp_path):
    begun, late = (trained_from(first, tmp_path / str(first)) for first in (0, LAST - 4))
    assert max(late) >= LAST
    assert list(late.values()) == list(begun.values())
    assert [step - (LAST - 4) for step in late] == list(begun)


@pytest.mark.parametrize(
    "layers", [30, pytest.param(3_100, marks=[pytest.mark.nightly, pytest.mark.timeout(1_200)])]
)
def test_graphs_may_be_huge(layers):
    input_fn = functools.partial(batches_of, [USUAL, USUAL + 1])
    params = dict(contract.make_params(), layers=layers)
    want = contract.record(graph_size.chain, input_fn, params)
    params["wrap"] = replicate.TowerOptimizer
    got = contract.record(contract.replicated(graph_size.chain, 2), input_fn, params, 2)
    contract.assert_same_run(got, want)
