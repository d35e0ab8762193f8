"""The input of a search: batches to train on, and batches to reward with."""

import tensorflow.compat.v1 as tf

from examples.data.datasets import BATCHES_AHEAD, worker_of


def input_fn(data, params, start_step, config=None):
    """Returns the input of a search: batches of training and of validation images.

    Args:
        data: The `Data` to search on.
        params: Dict of settings: `train_batch_size` and `rl_batch_size_multiplier`; and what a
            TPUEstimator adds, `batch_size` (training images for a core) and `context`.
        start_step: Step from which the search starts or resumes.
        config: The Estimator's `RunConfig`, which tells workers apart. None: there is one.

    Returns:
        An endless `tf.data.Dataset` of `(features, labels)`, dicts with the keys `train` and
        `validation`: images, float32 [rows, height, width, channels], on TPUs [height, width,
        channels, rows]; and one-hot labels, float32 [rows, num_classes].

    Raises:
        DataError: If one of the two parts has no images.
    """
    global_rows = params["train_batch_size"]
    rows = params.get("batch_size", global_rows)
    worker = worker_of(config, params.get("context"))
    batches = {}
    for part, multiplier in (("train", 1.0), ("validation", params["rl_batch_size_multiplier"])):
        start = start_step * round(global_rows * multiplier)
        batches[part] = data.training_batches(part, round(rows * multiplier), start, worker)
    together = tf.data.Dataset.zip(batches).map(
        lambda batch: tuple({part: batch[part][i] for part in batches} for i in (0, 1))
    )
    return together.prefetch(BATCHES_AHEAD)
