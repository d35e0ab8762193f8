"""Checkpoints move both ways between N towers and one device, optimizer state included."""

import pathlib
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
import selection
from contract import models

STEPS = contract.DYNAMIC.steps

# Models whose state is more than weights: slots, powers, averages, shared and penalised layers.
MODELS = {
    "adam": ("adam", models.MODELS["unnamed_tf_layers"]),
    "momentum_of_embedding": ("momentum", models.MODELS["embedding"]),
    "keras": ("adam", models.MODELS["keras_sequential"]),
    "partitioned": ("adam", models.MODELS["partitioned_variable"]),
    "average": ("momentum", models.MODELS["average_of_weights"]),
    "two_optimizers": ("adam", models.MODELS["two_optimizers"]),
    "adamw": ("sgd", models.MODELS["adamw"]),
}
PHASES = {"one_to_towers": (0, 3), "towers_to_one": (3, 0)}


def make_estimator(name, directory, num_towers):
    optimizer, model_fn = MODELS[name]
    if num_towers == 0:  # Un-replicated.
        params = contract.make_params(optimizer)
        return contract.make_estimator(model_fn, directory, params)
    params = contract.make_params(optimizer, wrap=replicate.TowerOptimizer)
    return contract.make_estimator(
        contract.replicated(model_fn, num_towers), directory, params, num_towers
    )


def train(name, directory, num_towers):
    # Up to the end of the data, but not to its error: `adamw` counts a step even if that has none.
    make_estimator(name, directory, num_towers).train(
        lambda: contract.dataset(contract.DYNAMIC), steps=STEPS
    )


def read(directory):
    """Returns the tensors of the latest checkpoint, by name."""
    reader = tf.train.load_checkpoint(str(directory))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Function that gives the directory of a model trained on N towers first and M afterwards."""
    done = {}

    def run(name, *phases):
        if (name, phases) not in done:
            before = run(name, *phases[:-1]) if len(phases) > 1 else None
            directory = tmp_path_factory.mktemp(name)
            if before:
                directory.rmdir()  # Python 3.7 copies to what does not exist yet.
                shutil.copytree(before, directory)
            train(name, directory, phases[-1])
            done[name, phases] = directory
        return done[name, phases]

    return run


@pytest.mark.parametrize(
    "name, phases",
    [
        selection.cell(
            name, phases, is_quick=selection.on_diagonal(row, column, 2), id=f"{way}-{name}"
        )
        for column, (way, phases) in enumerate(PHASES.items())
        for row, name in enumerate(MODELS)
    ],
)
def test_training_resumes_on_another_number_of_devices(name, phases, trained):
    got, want = read(trained(name, *phases)), read(trained(name, 0, 0))
    assert got["global_step"] == 2 * STEPS
    assert sorted(got) == sorted(want)
    contract.assert_same_values(got, want, 1e-9, step="the last")


@pytest.mark.parametrize("name", ["adam"])
def test_training_resumes_on_other_towers(name, trained):
    got, want = read(trained(name, 2, 3)), read(trained(name, 0, 0))
    contract.assert_same_values(got, want, 1e-9, step="the last")


@pytest.mark.parametrize("name", MODELS)
def test_the_same_tensors_are_saved(name, trained):
    got, want = (tf.train.list_variables(str(trained(name, towers))) for towers in (3, 0))
    assert sorted(got) == sorted(want)


def test_the_table_has_slots():
    """Adam's checkpoint has two slots and two powers; the other tests rely on it."""
    with tf.Graph().as_default():
        tf.train.create_global_step()
        features, labels = tf.data.make_one_shot_iterator(
            contract.dataset(contract.EVEN)
        ).get_next()
        MODELS["adam"][1](features, labels, contract.ModeKeys.TRAIN, contract.make_params("adam"))
        names = {variable.op.name for variable in tf.global_variables()}
    assert {"dense/kernel/Adam", "dense_1/bias/Adam_1", "beta1_power", "beta2_power"} <= names


def test_evaluation_and_prediction_use_the_checkpoint_of_the_other(trained):
    for directory, towers in ((trained("adam", 0), 3), (trained("adam", 3), 0)):
        here, there = (make_estimator("adam", directory, n) for n in (towers, 3 - towers))
        values = [e.evaluate(lambda: contract.dataset(contract.DYNAMIC)) for e in (here, there)]
        for key in values[0]:
            np.testing.assert_allclose(values[0][key], values[1][key], rtol=1e-6, err_msg=key)
        rows = [list(e.predict(lambda: contract.dataset(contract.DYNAMIC))) for e in (here, there)]
        assert len(rows[0]) == contract.DYNAMIC.total
        for got, want in zip(*rows):
            np.testing.assert_allclose(got["predictions"], want["predictions"], rtol=1e-12)


def test_a_checkpoint_of_towers_has_no_trace_of_them(trained):
    directory = pathlib.Path(trained("adam", 3))
    assert not [name for name in read(directory) if "tower" in name.lower() or "replicate" in name]


def statistics_model_fn(features, labels, mode, params):
    """Batch norm by `tf.layers`, by Keras and by hand, read in all modes and updated in training.

    The last is frozen: its statistics are read in training, too, and nothing updates them.
    """
    training = mode == tf.estimator.ModeKeys.TRAIN
    net = tf.layers.batch_normalization(features, momentum=0.5, training=training)
    net = tf.layers.dense(net, 3, kernel_initializer=tf.ones_initializer())
    keras = tf.keras.layers.BatchNormalization(momentum=0.5)
    net = keras(net, training=training)
    frozen = tf.get_variable(
        "frozen",
        [3],
        initializer=tf.constant_initializer([1.0, 2.0, 3.0]),
        trainable=False,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.MEAN,
    )
    net = net + frozen
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=net)
    loss = tf.reduce_mean(tf.square(tf.reduce_sum(net, axis=1) - labels))
    metrics = {"mean": tf.metrics.mean(net)}
    optimizer = params["wrap"](tf.train.GradientDescentOptimizer(1e-3))
    step = tf.train.get_or_create_global_step()
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS) + (keras.updates if training else [])
    train_op = tf.group(optimizer.minimize(loss, step), *updates)
    return tf.estimator.EstimatorSpec(mode, None, loss, train_op, metrics)


@pytest.mark.parametrize("num_towers", [pytest.param(2, marks=pytest.mark.thorough), 3])
def test_towers_evaluate_and_predict_with_the_statistics_of_the_checkpoint(tmp_path, num_towers):
    rows = np.arange(28, dtype=np.float32).reshape(7, 4) ** 1.5

    def input_fn():
        return tf.data.Dataset.from_tensors((rows, rows[:, 0]))

    def estimator(towers):
        model_fn, wrap = statistics_model_fn, replicate.TowerOptimizer
        if towers:
            model_fn = contract.replicated(model_fn, towers)
        return contract.make_estimator(model_fn, tmp_path, {"wrap": wrap}, max(towers, 1))

    estimator(0).train(lambda: input_fn().repeat(), steps=3)
    # Statistics that are not the initial ones, and would be if towers read their own copies.
    moved = read(tmp_path)
    assert np.max(np.abs(moved["batch_normalization/moving_mean"])) > 1
    saved = tf.train.latest_checkpoint(str(tmp_path))
    with tf.Graph().as_default(), tf.Session() as session:
        for name, value in moved.items():
            value = value + np.float32([5, 6, 7]) if name == "frozen" else value
            tf.get_variable(name, initializer=tf.constant(value))
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, saved, write_meta_graph=False)
    want = estimator(0).evaluate(input_fn)
    got = estimator(num_towers).evaluate(input_fn)
    assert got.keys() == want.keys()
    for name in want:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-5, err_msg=name)
    np.testing.assert_allclose(
        list(estimator(num_towers).predict(input_fn)),
        list(estimator(0).predict(input_fn)),
        rtol=1e-4,
    )
