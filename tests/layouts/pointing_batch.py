"""Random batches with sparse rows, and the shards that towers have of them.

A batch of several steps is fed: each step has its own rows, in towers by its own counts, unless the
graph knows n. Rows have 0 to 4 entries, so some towers have none, and some steps have none at all.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from layouts import parts
from replicate.batch import splitting
from replicate.layouts import Source, sources_of_sparse
from replicate.partition import Rows

LETTERS = "abc"


class Step(NamedTuple):
    """How a batch is split in a step: rows that count in each tower, the first held, and how many.

    A tower beyond the batch holds its last row once more.
    """

    counts: tuple[int, ...]
    starts: tuple[int, ...]
    held: tuple[int, ...]

    @property
    def total(self) -> int:
        """How many rows there are."""
        return sum(self.counts)


def _step(counts: Sequence[int]) -> Step:
    total = sum(counts)
    least = min(total, 1)  # Of a batch without rows, all towers have none.
    starts = [min(int(first), total - least) for first in np.cumsum([0, *counts[:-1]])]
    return Step(tuple(counts), tuple(starts), tuple(max(count, least) for count in counts))


class _Fed(NamedTuple):
    """Tensors that are fed, and the function that draws their values for so many rows."""

    tensors: Sequence[Any]
    values: Callable[[int], Sequence[Any]]


class Batch:
    """A batch of the default graph; what it is asked for are its leaves.

    Args:
        draw: Source of random numbers.
        towers: How many towers there are.
        is_static: Whether the graph knows n.
    """

    def __init__(self, draw: np.random.RandomState, towers: int, is_static: bool) -> None:
        self.draw = draw
        self.towers = towers
        self.is_static = is_static
        few = draw.randint(1, towers)
        small = _step([1] * few + [0] * (towers - few))
        self.may_be_none = not is_static and draw.rand() < 0.3
        if is_static:
            self.steps = [small if draw.rand() < 0.2 else self._large()] * 2
        else:
            last = _step([0] * towers) if self.may_be_none else self._large()
            self.steps = [self._large(), small, last]
        self._fed: list[_Fed] = []
        self._leaves: list[tuple[Any, int, list[Source]]] = []

    def need_rows(self) -> None:
        """Has a row in each step."""
        if self.may_be_none:
            self.steps = self.steps[:2]

    def _large(self) -> Step:
        return _step(parts.uneven(self.draw, self.towers + self.draw.randint(1, 4), self.towers))

    def one_of(self, *choices: Any) -> Any:
        """Returns one of several things."""
        return choices[self.draw.randint(len(choices))]

    def rows(self, *shape: int, dtype: Any = tf.float64, each: int = 1) -> Any:
        """Returns a new leaf, with so many entries of a shape for each row."""
        size = self.steps[0].total * each if self.is_static else None
        made = tf.placeholder(dtype, [size, *shape])
        self._fed.append(
            _Fed([made], lambda total: [self._entries((total * each, *shape), made.dtype)])
        )
        self._leaves.append((made, each, [Source(made, 0, each)]))
        return made

    def text(self) -> Any:
        """Returns a new leaf of rows of words, some without any."""
        return self.rows(dtype=tf.string)

    def records(self, make: Callable[[np.random.RandomState], bytes], each: int = 1) -> Any:
        """Returns a new leaf of strings, so many records of each row."""
        size = self.steps[0].total * each if self.is_static else None
        made = tf.placeholder(tf.string, [size])

        def values(total: int) -> Sequence[Any]:
            return [np.array([make(self.draw) for _ in range(total * each)], object)]

        self._fed.append(_Fed([made], values))
        self._leaves.append((made, each, [Source(made, 0, each)]))
        return made

    def sparse(
        self, *shape: int, dtype: Any = tf.float64, each: int = 1, in_order: bool = True
    ) -> tf.SparseTensor:
        """Returns a new sparse leaf.

        Args:
            shape: That of its rows.
            dtype: That of its values.
            each: How many of its rows there are for each of the batch.
            in_order: Whether the entries of a row are in order; rows are in any case.
        """
        rank = 1 + len(shape)
        tensors = [
            tf.placeholder(tf.int64, [None, rank]),
            tf.placeholder(dtype, [None]),
            tf.placeholder(tf.int64, [rank]),
        ]
        made = tf.SparseTensor(*tensors)

        def values(total: int) -> Sequence[Any]:
            indices = self._indices(total * each, shape, in_order)
            entries = self._entries((len(indices),), made.dtype)
            return indices, entries, np.array([total * each, *shape])

        self._fed.append(_Fed(tensors, values))
        self._leaves.append((made, each, sources_of_sparse(made, each)))
        return made

    def lists(self, dtype: Any = tf.float64) -> tf.SparseTensor:
        """Returns a new sparse leaf of lists of varying length, which is as wide as the longest.

        A tower's shard is as wide as its own longest.
        """
        tensors = [
            tf.placeholder(tf.int64, [None, 2]),
            tf.placeholder(dtype, [None]),
            tf.placeholder(tf.int64, [2]),
        ]
        made = tf.SparseTensor(*tensors)

        def values(total: int) -> Sequence[Any]:
            lengths = self.draw.randint(0, 5, total)
            places = [(row, place) for row in range(total) for place in range(lengths[row])]
            indices = np.array(places, np.int64).reshape(len(places), 2)
            longest = max(lengths, default=0)
            return indices, self._entries((len(indices),), made.dtype), np.array([total, longest])

        self._fed.append(_Fed(tensors, values))
        self._leaves.append((made, 1, sources_of_sparse(made, 1)))
        return made

    def _indices(self, rows: int, shape: Sequence[int], in_order: bool) -> np.ndarray:
        places, size = [], int(np.prod(shape))
        most = 0 if self.draw.rand() < 0.1 else min(4, size)
        for row in range(rows):
            own = self.draw.permutation(size)[: self.draw.randint(most + 1)]
            own = np.sort(own) if in_order else own
            places += [(row, *np.unravel_index(place, shape)) for place in own]
        return np.array(places, np.int64).reshape(len(places), 1 + len(shape))

    def _entries(self, shape: Sequence[int], dtype: Any) -> np.ndarray:
        if dtype == tf.bool:
            return np.asarray(self.draw.rand(*shape) < 0.4)
        if dtype == tf.string:
            words = [
                " ".join(self.draw.choice(list(LETTERS), self.draw.randint(4)))
                for _ in range(int(np.prod(shape)))
            ]
            return np.array(words, object).reshape(shape)
        if dtype.is_integer:
            return np.asarray(self.draw.randint(0, 5, shape), dtype.as_numpy_dtype)
        return np.asarray(self.draw.randn(*shape))

    # Arguments for partitioning the graph.

    @property
    def sources(self) -> list[Source]:
        """The tensors of all leaves."""
        return [source for _, _, sources in self._leaves for source in sources]

    def split(self) -> tuple[Rows, list[list[Any]]]:
        """Returns the rows of the towers, and for each source its shards."""
        if self.is_static:
            step = self.steps[0]
            rows = Rows(step.counts, step.total, step.starts, step.held)
        else:
            fed = [tf.placeholder(tf.int32, [self.towers]) for _ in Step._fields]
            self._shares = fed
            counts, starts, held = (tf.unstack(tensor) for tensor in fed)
            rows = Rows(counts, tf.add_n(counts), starts, held, self.may_be_none)
        spans = splitting.Spans(list(rows.starts), list(rows.held), overlap=True)
        shards = []
        for leaf, each, _ in self._leaves:
            own = splitting.splitter(leaf)(leaf, spans.times(each), 0)
            if isinstance(leaf, tf.SparseTensor):
                shards.append([one.indices for one in own])
                shards.append([one.values for one in own])
                shards.append([one.dense_shape for one in own])
            else:
                shards.append(own)
        return rows, shards

    def feeds(self) -> list[dict[Any, Any]]:
        """Returns what is fed in each step; the same each time."""
        made = []
        for step in self.steps:
            feed = {} if self.is_static else dict(zip(self._shares, step))
            for fed in self._fed:
                feed.update(zip(fed.tensors, fed.values(step.total)))
            made.append(feed)
        return made
