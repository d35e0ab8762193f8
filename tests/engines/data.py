"""Features, labels and `params` of the models that every engine trains."""

import functools

import numpy as np
import tensorflow.compat.v1 as tf

from contract import models
from examples.nas_search.search import search_settings

ROWS, STEPS, SEED = 12, 4, 7


@functools.lru_cache(maxsize=None)
def rows():
    """Returns features and labels of all steps, each row different."""
    random, count = np.random.RandomState(SEED), ROWS * STEPS
    features = {
        "x": random.normal(size=(count, 4)),
        "ids": random.randint(0, 6, size=(count, 3)).astype(np.int32),
        "counted": (random.uniform(size=(count, 1)) > 0.4).astype(np.float64),
        "images": random.normal(size=(count, 6, 6, 2)),
    }
    return features, np.sin(features["x"].sum(axis=1, keepdims=True)) + features["counted"]


@functools.lru_cache(maxsize=None)
def images():
    """Returns features and labels of an architecture search: for each part, its rows' sizes."""
    random = np.random.RandomState(SEED)
    counts = {"train": ROWS * STEPS, "validation": 2 * ROWS * STEPS}
    features = {k: random.rand(count, 8, 8, 1).astype("float32") for k, count in counts.items()}
    eye = np.eye(10, dtype="float32")
    return features, {k: eye[random.randint(10, size=count)] for k, count in counts.items()}


def dataset(name, parts=1):
    """Returns the batches of all steps for a model, each in as many parts."""
    if not models.TABLE[name].own_networks:
        data = tf.data.Dataset.from_tensor_slices(rows())
        return data.batch(ROWS // parts, drop_remainder=True)
    features, labels = images()
    sizes = {"train": ROWS // parts, "validation": 2 * ROWS // parts}
    data = {
        key: tf.data.Dataset.from_tensor_slices((features[key], labels[key])).batch(size, True)
        for key, size in sizes.items()
    }
    return tf.data.Dataset.zip(data).map(
        lambda part: tuple({key: part[key][index] for key in part} for index in (0, 1))
    )


def settings_of(name, towers, directory):
    """Returns the `params` of a model."""
    if not models.TABLE[name].own_networks:
        return {}
    return search_settings.resolve(
        preset="digits",
        train_batch_size=ROWS,
        rl_batch_size_multiplier=2.0,
        max_global_step=STEPS,
        rl_delay_steps_fraction=0.25,
        increase_ops_warmup_steps_fraction=0.25,
        increase_filters_warmup_steps_fraction=0.25,
        model_learning_rate=0.5,
        rl_learning_rate=1.0,
        rl_cost_model_target=0.012,
        num_towers=towers,
        seed=SEED,
        checkpoint_dir=str(directory),
    )
