"""Checkpoints move both ways between N towers and one device, optimizer state included."""

import pathlib
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import contract_models as models
import replicate

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
            directory = tmp_path_factory.mktemp(name)
            if len(phases) > 1:
                shutil.copytree(run(name, *phases[:-1]), directory, dirs_exist_ok=True)
            train(name, directory, phases[-1])
            done[name, phases] = directory
        return done[name, phases]

    return run


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("phases", [(0, 3), (3, 0)], ids=["one_to_towers", "towers_to_one"])
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
    """What the other tests rely on: Adam's checkpoint has two slots and two powers."""
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
