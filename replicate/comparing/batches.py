"""Reads batches once from the user's input, and gives them to both runs from memory."""

from __future__ import annotations

import copy
from typing import Any, Callable, Iterable, Iterator, Sequence

import numpy as np
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

from replicate.arguments import call_arguments
from replicate.batch import other_sizes
from replicate.compat import graph as graph_lib


def read(input_fn: Callable[..., Any], mode: str, params: Any, config: Any, most: int) -> Batches:
    """Returns the first batches of an `input_fn`.

    Args:
        input_fn: As for `tf.estimator.Estimator`: a function of `mode`, `params` and `config`, or
            some of them, that returns a dataset, or features with or without labels.
        mode: The `ModeKeys` that it is called with.
        params: The `params`.
        config: The `RunConfig`.
        most: Number of batches to read, an integer; all, if the input has fewer.

    Returns:
        The `Batches`.

    Raises:
        ValueError: If `input_fn` returns anything else, or ends before the first batch.
    """
    # An Estimator gives a copy, so that `input_fn` may change it.
    given = {"mode": mode, "params": copy.deepcopy(params or {}), "config": config}
    hooks: list[tf.train.SessionRunHook] = []
    with tf.Graph().as_default():
        tf.set_random_seed(config.tf_random_seed)
        tf.train.get_or_create_global_step()  # The Estimator makes it before the input, too.
        made = input_fn(**call_arguments.accepted(input_fn, given))
        if isinstance(made, tf2.data.Dataset):
            iterator = tf.data.make_initializable_iterator(made)
            hooks.append(_Begin(iterator.initializer))
            made = iterator.get_next()
        batches = Batches(_features_and_labels(made))
        creator = tf.train.ChiefSessionCreator(config=config.session_config)
        # A `MonitoredSession` leaves its scope when the input ends.
        with tf.train.MonitoredSession(creator, hooks) as session:
            while len(batches) < most and not session.should_stop():
                batches.add(session.run(batches.tensors))
    if not len(batches):
        raise ValueError(
            "An input must give at least one batch to compare, but `input_fn` "
            f"{getattr(input_fn, '__name__', input_fn)!r} ended before the first. Let it return "
            "data."
        )
    return batches


class _Begin(tf.train.SessionRunHook):
    """Begins a dataset when tables and variables, from which it may be made, have values."""

    def __init__(self, initializer: tf.Operation) -> None:
        self._initializer = initializer

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Runs the initializer of the dataset's iterator."""
        session.run(self._initializer)


def _places(structure: Any, tensors: Sequence[Any]) -> dict[int, other_sizes.Rows | None]:
    named = dict(zip(("features", "labels"), structure))
    paths = {
        graph_lib.reference(leaf): path
        for path, leaf in graph_lib.flatten_with_paths(named)
        if isinstance(leaf, tf.Tensor)
    }
    dense = [at for at, tensor in enumerate(tensors) if graph_lib.reference(tensor) in paths]
    split = [at for at in dense if tensors[at].shape.rank != 0]
    leaves = [
        other_sizes.Leaf(paths[graph_lib.reference(tensors[at])], tensors[at], 0) for at in split
    ]
    return {**dict.fromkeys(dense), **dict(zip(split, other_sizes.find(leaves)))}


def _in_reverse(array: Any, rows: other_sizes.Rows | None) -> Any:
    """Returns an array with its rows in reverse order, the entries of each in the given one."""
    if rows is None or not array.ndim:
        return array
    first = np.moveaxis(array, rows.axis, 0)
    by_row = first.reshape(len(first) // rows.times, rows.times, *first.shape[1:])
    return np.moveaxis(by_row[::-1].reshape(first.shape), 0, rows.axis)


def _features_and_labels(made: Any) -> tuple[Any, Any]:
    if not isinstance(made, (list, tuple)):
        return made, None
    # A dataset of Estimators holds features, or pairs.
    if len(made) != 2:
        raise ValueError(
            "`input_fn` must return a dataset, features, or a pair of features and labels, but "
            f"returned {len(made)} values. Put all features into one dict."
        )
    return tuple(made)


class Batches:
    """Batches in memory.

    Args:
        structure: Nested features and labels: tensors, and values that are the same in every batch.
    """

    def __init__(self, structure: Any) -> None:
        self._structure = structure
        self._leaves = tf.nest.flatten(structure, expand_composites=True)
        self._arrays: list[list[Any]] = []
        self._next = 0  # Index of the next batch.
        self.tensors = [leaf for leaf in self._leaves if isinstance(leaf, tf.Tensor)]
        """The tensors of which a batch is made."""
        # By index into `tensors`: where a dense one has its rows, if it has any. Components of
        # sparse and ragged tensors have other numbers of rows.
        self._places = _places(structure, self.tensors)

    def __len__(self) -> int:
        return len(self._arrays)

    def add(self, arrays: Iterable[Any]) -> None:
        """Adds a batch.

        Args:
            arrays: The values of `tensors`.
        """
        # Scalar strings come as `bytes`, which an array of fixed length would cut at a zero.
        objects = [object if isinstance(array, bytes) else None for array in arrays]
        self._arrays.append([np.asarray(*pair) for pair in zip(arrays, objects)])

    @property
    def rows(self) -> tuple[int | None, ...]:
        """Number of rows of each batch; None if the batch's tensors disagree."""
        found: list[int | None] = []
        for arrays in self._arrays:
            counts = {
                arrays[index].shape[rows.axis] // rows.times
                for index, rows in self._places.items()
                if rows is not None and arrays[index].ndim
            }
            found.append(counts.pop() if len(counts) == 1 else None)
        return tuple(found)

    def in_reverse(self) -> Batches | None:
        """Returns the batches with their rows in reverse order.

        None if that is not known: if tensors of a batch disagree on the number of its rows, or are
        components of sparse or ragged ones.
        """
        if len(self._places) < len(self.tensors) or None in self.rows:
            return None
        made = Batches(self._structure)
        for arrays in self._arrays:
            made.add([_in_reverse(array, self._places[at]) for at, array in enumerate(arrays)])
        return made

    def begin_again(self) -> None:
        """Makes the first batch the next one, also for an `input_fn` that has started already."""
        self._next = 0

    def input_fn(self, repeated: bool = False) -> Callable[[], Any]:
        """Returns an `input_fn` without arguments that gives these batches, in order.

        Types and static shapes are those of the tensors that the batches were read from.

        Args:
            repeated: Whether to begin again at the end, for models that take several batches in a
                step.
        """

        def rounds() -> Iterator[Any]:
            self.begin_again()
            while self._next < len(self._arrays):
                index = self._next
                self._next += 1
                if repeated:
                    self._next %= len(self._arrays)
                # A dataset needs at least one tensor; a batch may have none, so add the index.
                yield (index, *self._arrays[index])

        def input_fn() -> Any:
            dataset = tf.data.Dataset.from_generator(
                rounds,
                (tf.int64, *(tensor.dtype for tensor in self.tensors)),
                (tf.TensorShape([]), *(tensor.shape for tensor in self.tensors)),
            )
            options = tf.data.Options()  # No prefetching, or `begin_again` would come too late.
            options.experimental_optimization.apply_default_optimizations = False
            dataset = dataset.with_options(options)
            _, *tensors = tf.data.make_one_shot_iterator(dataset).get_next()
            read = iter(tensors)
            leaves = [next(read) if isinstance(one, tf.Tensor) else one for one in self._leaves]
            return tf.nest.pack_sequence_as(self._structure, leaves, expand_composites=True)

        return input_fn
