"""Rows of a table of people, as an input_fn of TPUEstimator takes them: batches of one size."""

import numpy as np
import tensorflow as tf

NUM_FEATURES = 9
NUM_LABELS = 3


def _rows(num_rows, seed):
    random = np.random.RandomState(seed)
    x = random.normal(size=(num_rows, NUM_FEATURES)).astype(np.float32)
    ids = random.randint(0, 10, (num_rows, 2)).astype(np.int32)
    scores = x[:, :NUM_LABELS] + np.eye(NUM_LABELS)[ids[:, 0] % NUM_LABELS]
    return x, ids, np.argmax(scores, axis=1).astype(np.int32)


def input_fn_builder(num_rows, seed, shuffle_buffer=None):
    """Creates an `input_fn` closure to be passed to TPUEstimator."""

    def input_fn(params):
        dataset = tf.data.Dataset.from_tensor_slices(_rows(num_rows, seed))
        if shuffle_buffer:
            dataset = dataset.apply(
                tf.contrib.data.shuffle_and_repeat(buffer_size=shuffle_buffer, seed=17)
            )

        def parse(x, ids, label):
            return {"x": x, "ids": ids}, label

        dataset = dataset.apply(
            tf.contrib.data.map_and_batch(
                parse,
                batch_size=params["batch_size"],
                num_parallel_batches=1,
                drop_remainder=True,
            )
        )
        return dataset.prefetch(2)

    return input_fn
