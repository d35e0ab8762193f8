"""Transformations of `tf.contrib.data` that are a line with what datasets have since."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import tensorflow.compat.v1 as tf

Transformation = Callable[[tf.data.Dataset], tf.data.Dataset]


def batch_and_drop_remainder(batch_size: Any) -> Transformation:
    """Returns a transformation, for `Dataset.apply`, into batches that are all whole.

    Args:
        batch_size: How many rows a batch has.
    """
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(
    batch_size: Any, padded_shapes: Any, padding_values: Any = None
) -> Transformation:
    """Returns a transformation, for `Dataset.apply`, into padded batches that are all whole.

    Args:
        batch_size: How many rows a batch has.
        padded_shapes: As `Dataset.padded_batch` takes it.
        padding_values: As `Dataset.padded_batch` takes it.
    """
    return lambda dataset: dataset.padded_batch(
        batch_size, padded_shapes, padding_values, drop_remainder=True
    )


def sloppy_interleave(
    map_func: Callable[..., tf.data.Dataset], cycle_length: Any, block_length: Any = 1
) -> Transformation:
    """Returns a transformation, for `Dataset.apply`, that mixes datasets in any order.

    Args:
        map_func: Makes a dataset of an element.
        cycle_length: How many datasets are read at a time.
        block_length: How many elements in a row come of each.
    """
    return tf.data.experimental.parallel_interleave(
        map_func, cycle_length, block_length, sloppy=True
    )


def reduce_dataset(dataset: tf.data.Dataset, reducer: tf.data.experimental.Reducer) -> Any:
    """Returns what a dataset is reduced to, as tensors.

    Args:
        dataset: What is reduced.
        reducer: Of which `finalize_func` is not called, as it was in TensorFlow 1.15.

    Raises:
        TypeError: If `dataset` is none.
    """
    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(f"`dataset` is to be a `tf.data.Dataset`, but is {dataset!r}.")
    return dataset.reduce(reducer.init_func(np.int64(0)), reducer.reduce_func)


def read_batch_features(
    file_pattern: Any,
    batch_size: Any,
    features: Any,
    reader: Any = tf.data.TFRecordDataset,
    reader_args: Any = None,
    randomize_input: bool = True,
    num_epochs: int | None = None,
    capacity: int = 10000,
) -> Any:
    """Returns the next batch of parsed examples in files.

    Args:
        file_pattern: Paths, or patterns of such.
        batch_size: How many examples a batch has.
        features: What to parse, as `tf.io.parse_example` takes it.
        reader: Makes a dataset of the name of a file.
        reader_args: What `reader` takes besides.
        randomize_input: Whether to shuffle.
        num_epochs: How often to read the files; None for ever.
        capacity: How many examples there are to choose from when they are shuffled.
    """
    dataset = tf.data.experimental.make_batched_features_dataset(
        file_pattern,
        batch_size,
        features,
        reader=reader,
        reader_args=reader_args,
        shuffle=randomize_input,
        num_epochs=num_epochs,
        shuffle_buffer_size=capacity,
    )
    return tf.data.make_one_shot_iterator(dataset).get_next()
