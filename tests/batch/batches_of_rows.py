"""Batches for the tests of this folder: leaves of every kind, and structures of these.

A batch is written as a structure of `Leaf`s, from which tensors are made. Their numbers come from a
seed: what matters is which rows a shard has.
"""

import collections
import dataclasses
import itertools
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from replicate.batch import sharding
from replicate.compat import graph as graph_lib

Pair = collections.namedtuple("Pair", ["first", "second"])
SPARSE = ("sparse", "varying", "wide")
TENSORS = (tf.Tensor, tf.SparseTensor, tf.RaggedTensor)


@dataclasses.dataclass(frozen=True)
class Leaf:
    """A tensor of a batch, or a Python list that is data.

    Attributes:
        kind: "dense", "list", "ragged" or sparse: "sparse" (with gaps), "varying" (as wide as the
            longest row) or "wide" (wider than that).
        row: Shape of a row, except of a ragged one.
        axis: The axis of rows.
        shape: What the graph knows: "static", "dynamic" (not the number of rows, nor sizes of a
            sparse tensor) or "unknown" (not even the rank).
        dtype: Type of a dense leaf or of a list; "str" are strings.
        seed: Seed of its numbers.
    """

    kind: str
    row: tuple = ()
    axis: int = 0
    shape: str = "static"
    dtype: str = "int64"
    seed: int = 0

    @property
    def is_static(self):
        return self.shape == "static" or self.kind == "list"

    def value(self, rows):
        """Returns the rows as a list of arrays or lists."""
        random, size = np.random.RandomState(self.seed), (rows, *self.row)
        if self.kind == "ragged":
            return [random.randint(9, size=random.randint(4)).tolist() for _ in range(rows)]
        if self.kind == "sparse":
            return list(random.randint(1, 9, size) * random.randint(0, 2, size))
        if self.kind in SPARSE:
            lengths = random.randint(0, 4 if self.kind == "varying" else 3, (rows, 1))
            return list(random.randint(1, 9, size) * (np.arange(*self.row) < lengths))
        numbers = random.randint(-50, 50, size)
        if self.dtype == "str":
            return list(numbers.astype(bytes).astype(object).reshape(size))
        return list(numbers.astype(self.dtype))

    def whole(self, rows):
        """Returns all rows as an array, in which they are on the axis."""
        kind = {"str": object}.get(self.dtype, self.dtype)
        value = np.array(self.value(rows), kind).reshape(rows, *self.row)
        return np.moveaxis(value, 0, self.axis)

    def sizes(self, rows, part=None):
        """Returns the shape of a row of a sparse tensor, or of its slice `part`."""
        if self.axis or len(self.row) > 1:
            return self.row
        entries = self.whole(rows) > 0
        longest = _longest_of(entries)
        width = longest if self.kind == "varying" else self.row[0]
        has_no_gaps = np.array_equal(entries, np.arange(3) < entries.sum(axis=1)[:, None])
        varies = has_no_gaps and longest == width and self.shape == "dynamic"
        return (_longest_of(entries[part]) if part and varies else width,)

    def tensor(self, rows):
        """Returns the tensor, or the Python list."""
        if self.kind == "ragged":
            value = self.value(rows)
            flat = np.array([*itertools.chain(*value)], np.int64)
            lengths = np.array([*map(len, value)], np.int64)
            lengths = tf.placeholder_with_default(lengths, [rows if self.is_static else None])
            return tf.RaggedTensor.from_row_lengths(flat, lengths)
        whole = self.whole(rows)
        if self.kind == "list":
            whole = whole.astype(bytes).astype(str) if self.dtype == "str" else whole
            if self.seed % 2:
                return whole.tolist()
            return list(whole) if whole.ndim == 1 else [tuple(row) for row in whole.tolist()]
        if self.kind not in SPARSE:
            known = list(whole.shape)
            known[self.axis] = rows if self.is_static else None
            return tf.placeholder_with_default(whole, None if self.shape == "unknown" else known)
        indices = np.argwhere(whole).reshape(-1, whole.ndim)
        if self.seed % 2:  # Their order does not matter, except to what goes on to use the shards.
            indices = np.random.RandomState(self.seed).permutation(indices)
        size = np.array(whole.shape, np.int64)
        if not self.axis:
            size[1:] = self.sizes(rows)
        rank = [None if self.shape == "unknown" else whole.ndim]
        size = tf.constant(size) if self.is_static else tf.placeholder_with_default(size, rank)
        return tf.SparseTensor(indices, whole[tuple(indices.T)], size)

    def check(self, got, rows, part):
        """Asserts that `got`, the value of a tensor, is the slice `part` of the rows."""
        want = self.value(rows)[part]
        if self.kind == "ragged":
            assert got.to_list() == want
            return
        if self.kind in SPARSE:
            sizes = got.dense_shape.tolist()
            del sizes[self.axis]
            assert tuple(sizes) == self.sizes(rows, part)
            # As wide as the batch, which a shard need not be.
            size = got.dense_shape if self.axis else [len(want), *self.row]
            whole = np.zeros(size, np.int64)
            whole[tuple(got.indices.T)] = got.values
        else:
            assert got.dtype == {"str": object}.get(self.dtype, self.dtype)
            whole = got
        found = np.moveaxis(whole, self.axis, 0)
        assert found.shape == (len(want), *self.row)
        for one, other in zip(found, want):
            np.testing.assert_array_equal(one, other)


def _longest_of(entries):
    """Returns one more than the last column with an entry."""
    return int(np.max(np.nonzero(entries)[1], initial=-1)) + 1


def kinds(axis=0, shape="static"):
    """Returns the table of leaves by name: of every kind that may have its rows on an axis.

    Python lists are there if they may be, since their numbers of rows are known.
    """
    cube = (2, 3)
    if axis:
        leaves = {
            "dense": Leaf("dense", cube, axis),
            "sparse": Leaf("sparse", cube, axis),
            "last": Leaf("dense", (2,), -1),
            "sparse_last": Leaf("sparse", (2,), -1),
            "first": Leaf("dense"),
        }
    else:
        leaves = {
            "dense": Leaf("dense", (2,), dtype="float64"),
            "text": Leaf("dense", dtype="str"),
            "sparse": Leaf("sparse", (3,)),
            "varying": Leaf("varying", (3,)),
            "ragged": Leaf("ragged"),
        }
        if shape == "static":
            leaves["list"] = Leaf("list", (2,), dtype="float32")
            leaves["words"] = Leaf("list", dtype="str", seed=1)
    return {name: dataclasses.replace(leaf, shape=shape) for name, leaf in leaves.items()}


def tensors_of(structure, rows):
    """Returns the structure with tensors of `rows` rows; a function gives those of each leaf."""

    def tensor(leaf):
        if not isinstance(leaf, Leaf):
            return leaf
        return leaf.tensor(rows(leaf) if callable(rows) else rows)

    return tf.nest.map_structure(tensor, structure)


def leaves_of(*structures):
    """Returns all `Leaf`s in some structures."""
    return [leaf for leaf in tf.nest.flatten(structures) if isinstance(leaf, Leaf)]


def axes_of(features, labels=None):
    """Returns the `batch_axis` of a batch, by paths."""
    leaves = graph_lib.flatten_with_paths({"features": features, "labels": labels})
    return {path: leaf.axis for path, leaf in leaves if isinstance(leaf, Leaf) and leaf.axis}


@dataclasses.dataclass(frozen=True)
class Batch:
    """A batch of `rows` rows for `towers` towers."""

    features: Any
    labels: Any
    rows: int
    towers: int
    need_row: bool

    @property
    def leaves(self):
        return leaves_of(self.features, self.labels)

    @property
    def has_several(self):
        """Whether features and labels count as several batches, by the keys that they share."""
        both = (self.features, self.labels)
        return all(isinstance(each, dict) for each in both) and {*both[0]} == {*both[1]}

    def shard(self, rows=None, **kwargs):
        """Returns the `Shards`; `rows` is as for `tensors_of`."""
        rows = self.rows if rows is None else rows
        return sharding.shard(
            tensors_of(self.features, rows),
            tensors_of(self.labels, rows),
            self.towers,
            self.need_row,
            batch_axis=axes_of(self.features, self.labels),
            **kwargs,
        )


def parsed(sentences):
    """Returns what `tf.io.parse_example` makes of lists of numbers: these, and their lengths."""
    records = []
    for words in sentences:
        feature = {
            "ids": tf.train.Feature(int64_list=tf.train.Int64List(value=words)),
            "length": tf.train.Feature(int64_list=tf.train.Int64List(value=[len(words)])),
        }
        example = tf.train.Example(features=tf.train.Features(feature=feature))
        records.append(example.SerializeToString())
    spec = {"ids": tf.io.VarLenFeature(tf.int64), "length": tf.io.FixedLenFeature([], tf.int64)}
    return tf.io.parse_example(records, spec)
