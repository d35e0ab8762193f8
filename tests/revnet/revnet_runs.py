"""Small RevNets for digits, on every engine, for tests of how they are trained."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from examples.revnet.training import train_eval, train_settings

ENGINES = ("eager", "function", "estimator", "towers", "tpu")
SMALL = {
    "units": [2],
    "filters": [4],
    "initial_filters": 4,
    "train_batch_size": 13,  # two towers get 7 and 6 images
    "tpu_iterations_per_loop": 1,
    # Rates change in between, so that it matters what momentum holds.
    "learning_rates": [0.1, 0.05],
    "boundaries": [2],
}


@pytest.fixture(autouse=True)
def fresh_graph():
    """Instead of a graph there is eager mode, as in the program; Estimators make graphs."""
    yield


def settings(directory, **given):
    """Returns the resolved settings of a small network that is trained for 4 steps."""
    given = {**SMALL, "max_global_step": 4, **given}
    return train_settings.resolve(checkpoint_dir=str(directory), **given)


def losses(params):
    """Trains; returns the loss of each step, by step."""
    found = {}
    assert train_eval.train(params, found.__setitem__)
    return found


def variables(params):
    """Returns what the latest checkpoint holds by name; no counts of checkpoints."""
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(params["checkpoint_dir"]))
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if "CHECKPOINTABLE" not in name and not name.startswith("save_counter")
    }


def assert_same(got, want):
    """Asserts that two dicts of arrays are equal, bit by bit."""
    assert set(got) == set(want)
    for name, value in want.items():
        np.testing.assert_array_equal(got[name], value, err_msg=name)


def scalars(directory):
    """Returns the tags in the event files of a directory, and the steps at which they are."""
    found = {}
    for path in directory.glob("events*"):
        for event in tf.train.summary_iterator(str(path)):
            for value in event.summary.value:
                found.setdefault(value.tag, set()).add(event.step)
    return found
