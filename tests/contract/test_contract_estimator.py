"""The contract through a real Estimator: training, evaluation, prediction, inputs, hooks."""

import collections
import pathlib
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
import selection
from bodies import control_flow
from contract import models, structures

pytestmark = pytest.mark.conformance

# A representative part of the table, which `test_contract.py` trains without Estimators.
RUNS = [
    selection.cell(name, *row.estimator, is_quick=name not in models.rows("thorough"))
    for name, row in models.TABLE.items()
    if row.estimator
]


@pytest.mark.parametrize("model, optimizer, num_towers", RUNS)
def test_an_estimator_of_towers_is_one_of_one_device(model, optimizer, num_towers, tmp_path):
    model_fn = models.MODELS[model]
    want = contract.run_estimator(
        model_fn, tmp_path / "one", contract.DYNAMIC, contract.make_params(optimizer)
    )
    got = contract.run_estimator(
        contract.replicated(model_fn, num_towers),
        tmp_path / "towers",
        contract.DYNAMIC,
        contract.make_params(optimizer, wrap=replicate.TowerOptimizer),
        num_towers,
    )
    contract.assert_same_run(got.run, want.run)
    assert sorted(got.evaluation) == sorted(want.evaluation) == ["global_step", "loss", "mae"]
    for key, value in want.evaluation.items():  # Estimators average in float32.
        contract.assert_close(got.evaluation[key], value, 1e-5, key)
    assert len(got.predictions) == len(want.predictions) == contract.DYNAMIC.total
    for row, expected in zip(got.predictions, want.predictions):
        contract.assert_same_values(row, expected, 1e-9)
    tensors = [tf.train.list_variables(run.estimator.model_dir) for run in (got, want)]
    assert tensors[0] == tensors[1]


@pytest.mark.parametrize(
    ("structure", "labels", "batches", "num_towers"),
    [
        pytest.param(
            structure,
            labels,
            batches,
            num_towers,
            # Of ragged tensors, TensorFlow knows the rows by more than their shape.
            marks=[pytest.mark.thorough] * (num_towers == 2 and structure != "ragged"),
        )
        for batches, num_towers in ((contract.DYNAMIC, 3), (contract.UNEVEN, 2))
        for structure, labels in (
            *((structure, "labels") for structure in structures.STRUCTURES),
            *(("dict", labels) for labels in structures.LABELS),
        )
    ],
)
def test_any_structure_of_features_and_labels(structure, labels, batches, num_towers):
    def run(model_fn, params, num_towers=1):
        outer = structures.restructured(model_fn, structure, labels)
        return contract.record(outer, lambda: contract.dataset(batches), params, num_towers)

    want = run(structures.model_fn, contract.make_params())
    towers_params = contract.make_params(wrap=replicate.TowerOptimizer)
    got = run(contract.replicated(structures.model_fn, num_towers), towers_params, num_towers)
    contract.assert_same_run(got, want)


def make_spec(features, mode, **kwargs):
    """A spec of the loss w·mean(x) with w = 1 at first."""
    w = models.get_variable("w", [], initializer=tf.ones_initializer(), use_resource=True)
    loss = w * tf.reduce_mean(features["x"])
    optimizer = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.125))
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, **kwargs)


def train(model_fn, directory, num_towers=3, params=None, **kwargs):
    """Trains with an Estimator on batches of 11, 11 and 9 rows; returns the Estimator."""
    estimator = contract.make_estimator(
        contract.replicated(model_fn, num_towers), directory, params, num_towers
    )
    return estimator.train(lambda: contract.dataset(contract.DYNAMIC), **kwargs)


MEANS = [
    contract.rows_of(23)[0]["x"][rows].mean()
    for rows in (slice(0, 11), slice(11, 22), slice(22, 23))
]
SHARD_MEANS = [  # For the first of three shards: 4, 4 and 1 rows.
    contract.rows_of(23)[0]["x"][rows].mean()
    for rows in (slice(0, 4), slice(11, 15), slice(22, 23))
]
# The gradient is mean(x), so that w falls by 0.125·mean(x) per step, and loss is w·mean(x).
LOSSES = [mean * (1 - 0.125 * sum(MEANS[:step])) for step, mean in enumerate(MEANS)]


def test_params_and_config_are_passed_by_name_and_may_be_changed(tmp_path):
    seen = []

    def model_fn(labels, config, features, mode, params):  # By name, not in order.
        seen.append((params.pop("once"), params["nested"].pop(), config.model_dir))
        features.pop("ids")
        features["x"] = features.pop("x") * 1.0
        return make_spec(features, mode)

    params = {"once": 1, "nested": [2, 3]}
    train(model_fn, tmp_path, params=params)
    assert seen == [(1, 3, str(tmp_path))]  # It is called once, for all towers.
    assert params == {"once": 1, "nested": [2, 3]}


class CountingHook(tf.train.SessionRunHook):
    def __init__(self):
        self.begun = self.steps = 0

    def begin(self):
        self.begun += 1

    def after_run(self, run_context, run_values):
        self.steps += 1


def test_hooks_run_once_per_step(tmp_path):
    hooks = collections.defaultdict(list)

    def hook(kind):
        hooks[kind].append(CountingHook())
        return [hooks[kind][-1]]

    def model_fn(features, labels, mode):
        kinds = ("training_hooks", "training_chief_hooks", "evaluation_hooks")
        return make_spec(features, mode, **{kind: hook(kind) for kind in kinds})

    estimator = train(model_fn, tmp_path)
    assert all(len(made) == 1 for made in hooks.values())
    estimator.evaluate(lambda: contract.dataset(contract.DYNAMIC))
    begun = {kind: [hook.begun for hook in made] for kind, made in hooks.items()}
    steps = {kind: [hook.steps for hook in made] for kind, made in hooks.items()}
    for kind in ("training_hooks", "training_chief_hooks"):
        assert begun[kind] == [1, 0]  # One of TRAIN, one of EVAL.
        assert steps[kind] == [3, 0]
    assert begun["evaluation_hooks"] == [0, 1]
    assert steps["evaluation_hooks"] == [0, 3]


def test_logged_tensors_have_the_names_of_one_device(tmp_path):
    logged = []

    def model_fn(features, labels, mode):
        with tf.name_scope("scope"):
            tf.reduce_mean(features["x"], name="mean")
        return make_spec(features, mode)

    def formatter(values):
        logged.append(values["scope/mean"])
        return ""

    hook = tf.train.LoggingTensorHook(["scope/mean"], every_n_iter=1, formatter=formatter)
    train(model_fn, tmp_path, hooks=[hook])
    np.testing.assert_allclose(logged, MEANS, rtol=1e-12)


@pytest.mark.parametrize("num_towers", [1, 3])
def test_the_estimator_logs_the_loss_of_the_whole_batch(num_towers, tmp_path, caplog):
    caplog.set_level("INFO", logger="tensorflow")
    train(lambda features, labels, mode: make_spec(features, mode), tmp_path, num_towers)
    lines = [re.match(r"loss = (.*), step = [01]", r.getMessage()) for r in caplog.records]
    np.testing.assert_allclose([float(line[1]) for line in lines if line], LOSSES[:1], rtol=1e-6)


class Listener(tf.train.CheckpointSaverListener):
    def __init__(self):
        self.saved = []

    def after_save(self, session, global_step_value):
        self.saved.append((int(global_step_value), session.run("w/Read/ReadVariableOp:0")))


def test_scaffold_saving_listeners_and_tables(tmp_path):
    """Every tower has a table and a local variable, and the model its own initialisation."""
    calls = []

    def model_fn(features, labels, mode):
        keys, values = tf.constant(list(range(6)), tf.int64), tf.constant([1.0] * 6, tf.float64)
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), 0.0)
        local = tf.get_local_variable("local", initializer=np.float64(0.0), trainable=False)
        ones = table.lookup(features["ids"][:, :1]) + local  # 1 for every row.
        init = tf.group(tf.tables_initializer(), tf.local_variables_initializer())
        scaffold = tf.train.Scaffold(
            local_init_op=init, init_fn=lambda scaffold, session: calls.append(scaffold)
        )
        return make_spec({"x": features["x"] * ones}, mode, scaffold=scaffold)

    listener = Listener()
    train(model_fn, tmp_path, saving_listeners=[listener])
    assert len(calls) == 1
    np.testing.assert_allclose(listener.saved, [(0, 1.0), (3, 1 - 0.125 * sum(MEANS))], rtol=1e-12)


@pytest.mark.parametrize("num_towers", [1, 3])
def test_summaries_are_those_of_one_device(num_towers, tmp_path):
    def model_fn(features, labels, mode):
        with tf.name_scope("inner"):
            tf.summary.scalar("average", tf.cast(tf.reduce_mean(features["x"]), tf.float32))
        tf.summary.histogram("x", features["x"])
        return make_spec(features, mode)

    train(model_fn, tmp_path, num_towers, steps=1)
    values = collections.defaultdict(list)
    for path in pathlib.Path(tmp_path).glob("events.*"):
        for event in tf.train.summary_iterator(str(path)):
            for value in event.summary.value:
                values[value.tag].append(value.simple_value)
    assert sorted(values) == ["inner/average", "loss", "x"]
    np.testing.assert_allclose(values["loss"], LOSSES[:1], rtol=1e-6)
    np.testing.assert_allclose(values["inner/average"], MEANS[:1], rtol=1e-6)


def test_evaluation_gives_the_mean_of_the_whole_batches_losses(tmp_path):
    estimator = train(lambda features, labels, mode: make_spec(features, mode), tmp_path)
    evaluation = estimator.evaluate(lambda: contract.dataset(contract.DYNAMIC))
    w = 1 - 0.125 * sum(MEANS)
    np.testing.assert_allclose(evaluation["loss"], w * np.mean(MEANS), rtol=1e-5)
    assert evaluation["global_step"] == 3


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("num_towers", [1, 2, 3])
def test_what_an_update_waits_for_it_waits_for_in_all_towers(num_towers, version):
    """A check of the rows, made before the gradients are applied, stops the step on any tower."""

    def model_fn(features, labels, mode, params):
        w = models.get_variable("w", [], initializer=tf.ones_initializer())
        loss = w * tf.reduce_mean(features)
        optimizer = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.125))
        pairs = optimizer.compute_gradients(loss)
        check = tf.debugging.assert_less(features, tf.constant(params["limit"], tf.float64))
        with tf.control_dependencies([check]):
            train_op = optimizer.apply_gradients(pairs, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def run(limit):
        with control_flow(version):  # An assertion is in a branch.
            return contract.record(
                contract.replicated(model_fn, num_towers),
                lambda: tf.data.Dataset.from_tensors((np.array([1.0, 2.0, 9.0]), {})),
                {"limit": limit},
                num_towers,
            )

    assert run(10.0).variables[0]["w:0"] == 0.5  # 1 - 0.125·(1 + 2 + 9)/3
    with pytest.raises(tf.errors.InvalidArgumentError, match="x < y did not hold"):
        run(5.0)  # The last tower has the 9.
