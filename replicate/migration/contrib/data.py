"""Transformations of `tf.contrib.data` that need one line with newer methods of datasets."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import tensorflow.compat.v1 as tf

Transformation = Callable[[tf.data.Dataset], tf.data.Dataset]


def batch_and_drop_remainder(batch_size: Any) -> Transformation:
    """Returns a transformation, for `Dataset.apply`, into batches of equal size.

    Args:
        batch_size: Number of rows of a batch.
    """
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(
    batch_size: Any, padded_shapes: Any, padding_values: Any = None
) -> Transformation:
    """Returns a transformation, for `Dataset.apply`, into padded batches of equal size.

    Args:
        batch_size: Number of rows of a batch.
        padded_shapes: As for `Dataset.padded_batch`.
        padding_values: As for `Dataset.padded_batch`.
    """
    return lambda dataset: dataset.padded_batch(
        batch_size, padded_shapes, padding_values, drop_remainder=True
    )


def sloppy_interleave(
    map_func: Callable[..., tf.data.Dataset], cycle_length: Any, block_length: Any = 1
) -> Transformation:
    """Returns a transformation, for `Dataset.apply`, that mixes datasets in any order.

    Args:
        map_func: Function that makes a dataset of an element.
        cycle_length: Number of datasets that are read at a time.
        block_length: Number of consecutive elements of each dataset.
    """
    return tf.data.experimental.parallel_interleave(
        map_func, cycle_length, block_length, sloppy=True
    )


def reduce_dataset(dataset: tf.data.Dataset, reducer: tf.data.experimental.Reducer) -> Any:
    """Reduces a dataset; returns tensors.

    Args:
        dataset: The dataset.
        reducer: The reducer. As in TensorFlow 1.15, its `finalize_func` is not called.

    Raises:
        TypeError: If `dataset` is not a dataset.
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
        file_pattern: Paths, or patterns of paths.
        batch_size: Number of examples of a batch.
        features: The features to parse, as for `tf.io.parse_example`.
        reader: Function that makes a dataset of a file's name.
        reader_args: Further arguments of `reader`.
        randomize_input: Whether to shuffle.
        num_epochs: Number of times to read the files; None for ever.
        capacity: Size of the buffer for shuffling, in examples.
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
