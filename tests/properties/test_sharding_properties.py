"""Sharding: whatever a batch is and over however many towers, its shards are the batch again.

A batch is drawn as a structure of `Leaf`s, from which tensors are made. Their numbers come from a
seed: what matters is which rows a shard has.
"""

import collections
import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import assume
from hypothesis import strategies as st

from properties.random_examples import holds, session
from replicate.batch import sharding

CONFORMS = pytest.mark.conformance
SPARSE = ("sparse", "varying")
DTYPES = ["float16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool", "complex64"]
Pair = collections.namedtuple("Pair", ["first", "second"])


def longest_of(rows):
    """Returns one more than the last column with an entry."""
    return int(np.max(np.nonzero(rows)[1], initial=-1)) + 1


class Leaf(NamedTuple):
    """A tensor of a batch: what it is, and what is in a row."""

    kind: str  # 'dense', 'sparse', 'varying' (sparse without gaps), 'ragged' or 'text'
    dtype: str
    row: tuple  # shape of a row of a dense one
    is_static: bool  # whether the graph knows the number of rows
    seed: int

    def value(self, rows):
        """Returns the rows as a list of arrays or lists."""
        random = np.random.RandomState(self.seed)
        if self.kind == "text":
            return [b"%d" % number for number in random.randint(1000, size=rows)]
        if self.kind == "dense":
            return list(random.randint(-50, 50, size=(rows, *self.row)).astype(self.dtype))
        if self.kind == "sparse":
            return list(random.randint(1, 9, (rows, 3)) * random.randint(0, 2, (rows, 3)))
        if self.kind == "varying":
            lengths = random.randint(0, 4, (rows, 1))
            return list(random.randint(1, 9, (rows, 3)) * (np.arange(3) < lengths))
        return [random.randint(9, size=random.randint(4)).tolist() for _ in range(rows)]

    def width(self, rows, part=None):
        """Returns the width of a sparse tensor, or that of the slice `part`."""
        value = np.array(self.value(rows)).reshape(rows, 3)
        longest = longest_of(value)
        if self.kind == "sparse":
            has_no_gaps = np.array_equal(value > 0, np.arange(3) < np.sum(value > 0, 1)[:, None])
            width, varies = 3, has_no_gaps and longest == 3
        else:
            width, varies = longest, True
        return longest_of(value[part]) if part and varies and not self.is_static else width

    def tensor(self, rows):
        value = self.value(rows)
        known = rows if self.is_static else None
        if self.kind == "text":
            return tf.placeholder_with_default(np.array(value, object), [known])
        if self.kind == "dense":
            whole = np.array(value, self.dtype).reshape(rows, *self.row)
            return tf.placeholder_with_default(whole, [known, *self.row])
        if self.kind in SPARSE:
            whole = np.array(value, np.int64).reshape(rows, 3)
            shape = tf.constant([rows, self.width(rows)], tf.int64)
            shape = shape if self.is_static else tf.placeholder_with_default(shape, [2])
            return tf.SparseTensor(np.argwhere(whole).reshape(-1, 2), whole[whole != 0], shape)
        lengths = tf.placeholder_with_default(np.array([*map(len, value)], np.int64), [known])
        flat = np.array([*itertools.chain(*value)], np.int64)
        return tf.RaggedTensor.from_row_lengths(tf.constant(flat), lengths)


def leaves():
    return st.builds(
        Leaf,
        st.sampled_from(["dense", "dense", "sparse", "varying", "ragged", "text"]),
        st.sampled_from(DTYPES),
        st.lists(st.integers(0, 3), max_size=2).map(tuple),
        st.booleans(),
        st.integers(0, 99),
    )


def structures(leaf):
    """Draws nested structures, in which some leaves are no tensors."""
    whole = st.none() | st.just("a text") | st.integers(0, 9) | st.just(2.5)
    return st.recursive(
        leaf | whole,
        lambda inner: (
            st.lists(inner.filter(lambda each: not is_data(each)), max_size=3)
            | st.lists(inner, max_size=3).map(tuple)
            | st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), inner, max_size=3)
            | st.builds(Pair, inner, inner)
        ),
        max_leaves=4,
    )


def is_data(value):
    """Whether a Python list of `value` were data: numbers and strings, or tuples of these."""
    if isinstance(value, (str, int, float)):
        return True
    return type(value) is tuple and bool(value) and all(map(is_data, value))


def tensors_of(structure, rows):
    """Returns the structure with tensors of `rows` rows; a function gives those of each leaf."""
    if isinstance(structure, Leaf):
        return structure.tensor(rows(structure) if callable(rows) else rows)
    if isinstance(structure, dict):
        return {key: tensors_of(each, rows) for key, each in structure.items()}
    if isinstance(structure, Pair):
        return Pair(*(tensors_of(each, rows) for each in structure))
    if isinstance(structure, (list, tuple)):
        return type(structure)(tensors_of(each, rows) for each in structure)
    return structure


def leaves_of(structure):
    """Returns all `Leaf`s in a structure."""
    if isinstance(structure, Leaf):
        return [structure]
    if isinstance(structure, dict):
        structure = list(structure.values())
    is_deeper = isinstance(structure, (list, tuple))
    return [leaf for each in structure for leaf in leaves_of(each)] if is_deeper else []


def as_rows(value):
    """Returns the value of a tensor of any kind as a list of rows."""
    if isinstance(value, tf.SparseTensorValue):
        # As wide as the batch, which a shard need not be.
        whole = np.zeros([value.dense_shape[0], 3], np.int64)
        whole[tuple(value.indices.T)] = value.values
        return list(whole)
    return value.to_list() if isinstance(value, tf.ragged.RaggedTensorValue) else list(value)


def check_part(structure, got, rows, part):
    """Asserts that `got` is the slice `part` of a structure's batch, and built like it."""
    if isinstance(structure, Leaf):
        found, want = as_rows(got), structure.value(rows)[part]
        assert len(found) == len(want)
        for one, other in zip(found, want):
            np.testing.assert_array_equal(one, other)
        if structure.kind == "dense":
            assert got.dtype == structure.dtype
            assert got.shape[1:] == structure.row
        if structure.kind in SPARSE:
            assert got.dense_shape[1] == structure.width(rows, part)
        return
    assert type(got) is type(structure)
    if isinstance(structure, dict):
        assert list(got) == list(structure)
        got, structure = list(got.values()), list(structure.values())
    if isinstance(structure, (list, tuple)):
        assert len(got) == len(structure)
        for one, other in zip(structure, got):
            check_part(one, other, rows, part)
    else:
        assert got == structure


def run(fetches):
    """Evaluates the tensors in a structure; the other leaves stay as they are."""
    is_tensor = (tf.Tensor, tf.SparseTensor, tf.RaggedTensor)
    flat = tf.nest.flatten(fetches)
    with session(1) as on_one:
        values = iter(on_one.run([each for each in flat if isinstance(each, is_tensor)]))
    flat = [next(values) if isinstance(each, is_tensor) else each for each in flat]
    return tf.nest.pack_sequence_as(fetches, flat)


class Batch(NamedTuple):
    """A batch of `rows` rows for `towers` towers."""

    features: Any
    labels: Any
    rows: int
    towers: int
    need_row: bool

    def shard(self, rows=None):
        rows = self.rows if rows is None else rows
        return sharding.shard(
            tensors_of(self.features, rows),
            tensors_of(self.labels, rows),
            self.towers,
            self.need_row,
        )


BATCHES = st.builds(
    Batch,
    structures(leaves()),
    st.none() | structures(leaves()),
    st.integers(0, 13),
    st.integers(1, 5),
    st.booleans(),
)


def has_several_batches(batch):
    """Whether features and labels count as several batches, by the keys that they share."""
    both = (batch.features, batch.labels)
    return all(isinstance(each, dict) for each in both) and set(both[0]) == set(both[1])


@holds(BATCHES, marks=CONFORMS, share=0.5)
def test_shards_together_are_the_batch(batch):
    found = [*leaves_of(batch.features), *leaves_of(batch.labels)]
    assume(found)
    assume(batch.rows or not batch.need_row)
    with tf.Graph().as_default():
        shards = batch.shard()
        # The smallest of several batches counts, which needs the rows of all.
        if any(leaf.is_static for leaf in found) and not has_several_batches(batch):
            assert isinstance(shards.total, int)
            assert all(isinstance(count, int) for count in shards.rows)
        features, labels, counts, total = run(tuple(shards[:4]))
    assert total == batch.rows == sum(counts)
    assert list(counts) == [len(part) for part in np.array_split(range(total), batch.towers)]
    starts = np.cumsum([0, *counts])
    for tower, (start, count) in enumerate(zip(starts, counts)):
        # A shard without rows has a copy of the last one.
        part = slice(start, start + count) if count else slice(max(total - 1, 0), total)
        check_part(batch.features, features[tower], total, part)
        check_part(batch.labels, labels[tower], total, part)


def error_of(batch, rows=None):
    """Returns the class and text of the error of a rule that a batch breaks, whenever it does."""
    errors = (ValueError, tf.errors.InvalidArgumentError)
    with tf.Graph().as_default(), pytest.raises(errors) as caught:
        shards = batch.shard(rows)
        run([shards.features, shards.labels])
    return type(caught.value), str(caught.value)


@holds(BATCHES, share=0.25)
def test_a_training_batch_without_rows_is_refused(batch):
    found = [*leaves_of(batch.features), *leaves_of(batch.labels)]
    assume(not has_several_batches(batch))
    batch = batch._replace(need_row=True, rows=0)
    kind, text = error_of(batch)
    if not found:
        assert kind is ValueError and "holds a tensor of rank 1 or more" in text
        return
    is_static = any(leaf.is_static for leaf in found)
    assert kind is (ValueError if is_static else tf.errors.InvalidArgumentError)
    assert "A training batch must have a row, but this one has none" in text


@holds(BATCHES, st.data(), share=0.25)
def test_leaves_of_other_sizes_are_refused(batch, data):
    found = list({*leaves_of(batch.features), *leaves_of(batch.labels)})
    assume(len(found) > 1 and not has_several_batches(batch))
    odd = data.draw(st.sampled_from(found))
    more = data.draw(st.integers(1, 5))
    batch = batch._replace(rows=batch.rows + batch.towers)
    kind, text = error_of(batch, lambda leaf: batch.rows + more * (leaf == odd))
    static = [leaf for leaf in found if leaf.is_static]
    is_known = odd in static and len(static) > 1
    assert kind is (ValueError if is_known else tf.errors.InvalidArgumentError)
    assert "All tensors of a batch must have the same number of rows" in text
    assert "or through `params`" in text


@holds(
    st.fixed_dictionaries({"a": leaves(), "b": leaves()}),
    st.lists(leaves(), min_size=2, max_size=2),
    st.integers(1, 3),
    st.integers(1, 9),
    st.integers(1, 3),
    share=0.25,
)
def test_batches_with_the_same_keys_are_split_in_proportion(features, labels, times, rows, towers):
    assume(rows >= towers)
    repeats = dict(zip(features, [1, times]))
    labels = dict(zip(features, labels))
    with tf.Graph().as_default():
        made = [
            {key: leaf.tensor(rows * repeats[key]) for key, leaf in structure.items()}
            for structure in (features, labels)
        ]
        shards = sharding.shard(*made, towers, need_row=True)
        got_features, got_labels, counts, total = run(tuple(shards[:4]))
    assert (total, list(counts)) == (rows, [*map(len, np.array_split(range(rows), towers))])
    ends = np.cumsum(counts)
    for tower, (end, count) in enumerate(zip(ends, counts)):
        for key, repeat in repeats.items():
            part = slice((end - count) * repeat, end * repeat)
            check_part(features[key], got_features[tower][key], rows * repeat, part)
            check_part(labels[key], got_labels[tower][key], rows * repeat, part)


def nested(array):
    """Draws an array as Python lists of numbers, or of tuples or NumPy's numbers."""
    if array.ndim == 1:
        return st.sampled_from([array.tolist(), list(array)])
    return st.sampled_from([array.tolist(), [tuple(row) for row in array]])


@holds(
    st.integers(1, 9),
    st.integers(1, 4),
    st.sampled_from([(), (1,), (3,)]),
    st.sampled_from(["int32", "float32", "bool", "str"]),
    st.data(),
    share=0.25,
)
def test_python_lists_are_split_like_arrays(rows, towers, row, dtype, data):
    assume(rows >= towers)
    array = np.arange(rows * int(np.prod(row))).reshape(rows, *row).astype(dtype)
    value = data.draw(nested(array))
    is_label = data.draw(st.booleans())
    batch = [{"x": value, "scalars": (1, 2.5)}, None]
    batch = [{"scalars": (1, 2.5)}, value] if is_label else batch
    with tf.Graph().as_default():
        shards = sharding.shard(*batch, towers, need_row=True)
        features, labels = run((shards.features, shards.labels))
    for part, label, want in zip(features, labels, np.array_split(array, towers)):
        assert part["scalars"] == (1, 2.5)
        got = label if is_label else part["x"]
        want = want.astype("S").astype(object) if dtype == "str" else want
        np.testing.assert_array_equal(got, want)


@holds(st.integers(1, 5), st.integers(1, 9), st.booleans(), st.data(), share=0.25)
def test_names_keep_entries_whole(towers, rows, is_static, data):
    assume(rows >= towers)
    leaf = Leaf("dense", "float32", (), is_static, 0)
    names = ["a", "b/c", "b/d", "labels/e"]
    whole = data.draw(st.sets(st.sampled_from([*names, "b"])))
    with tf.Graph().as_default():
        made = {name: leaf.tensor(rows) for name in names}
        features = {
            "a": made["a"],
            "b": {"c": made["b/c"], "d": [made["b/d"]]},
            "x": tf.ones([rows]),
        }
        shards = sharding.shard(
            features, {"e": made["labels/e"]}, towers, need_row=True, unsplit_features=whole
        )
    for part, label in zip(shards.features, shards.labels):
        found = {"a": part["a"], "b/c": part["b"]["c"], "b/d": part["b"]["d"][0]}
        found["labels/e"] = label["e"]
        for name, got in found.items():
            is_whole = name in whole or (name.startswith("b/") and "b" in whole)
            assert (got is made[name]) == is_whole
