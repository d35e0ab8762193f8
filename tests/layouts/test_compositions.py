"""Towers run operations that users write with indices, sorts and segments, or do not.

Nothing is run here: graphs are made by the public API, and their layouts are inferred.
"""

from __future__ import annotations

from typing import Any, Iterator

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import versions
from replicate.layouts import ROWS, WHOLE, Even, Layouts, Shard, Source, infer, symbol
from replicate.layouts.layout import MAX, SUM

N = 6


class Batch:
    """The rows that a graph takes; it knows how many there are, or not."""

    def __init__(self, is_static: bool) -> None:
        self.is_static = is_static
        self._inputs: list[Any] = []

    def rows(self, *shape: int, dtype: Any = tf.float32) -> Any:
        """Returns a new tensor of the batch; each row has this shape."""
        self._inputs.append(tf.placeholder(dtype, [N if self.is_static else None, *shape]))
        return self._inputs[-1]

    def infer(self) -> Layouts:
        sources = [Source(tensor, 0) for tensor in self._inputs]
        operations = tf.get_default_graph().get_operations()
        return infer(operations, sources, N if self.is_static else symbol(ROWS))


@pytest.fixture(params=["static", "unknown"])
def batch(request: Any) -> Iterator[Batch]:
    with tf.Graph().as_default():
        yield Batch(request.param == "static")


def squared(tensor: Any) -> Any:
    return tf.reduce_sum(tf.square(tensor))


def strategies(found: Layouts, *types: str) -> dict[str, int]:
    """Returns how many operations of types towers run."""
    run = [operation.type for operation in found.strategies]
    return {name: run.count(name) for name in types}


@pytest.mark.parametrize("resource", [False, True])
def test_an_embedding_and_its_gradient(batch: Batch, resource: bool) -> None:
    table = tf.get_variable("table", [50, 4], use_resource=resource)
    looked_up = tf.nn.embedding_lookup(table, batch.rows(3, dtype=tf.int32))
    (gradient,) = tf.gradients(squared(looked_up), table)
    found = batch.infer()
    assert found.layout_of(looked_up) == Shard(0)
    assert found.layout_of(gradient.indices) == found.layout_of(gradient.values) == Shard(0)
    assert not found.kept_whole


def test_an_update_of_an_embedding(batch: Batch) -> None:
    table = tf.get_variable("table", [50, 4], use_resource=True)
    looked_up = tf.nn.embedding_lookup(table, batch.rows(dtype=tf.int32))
    tf.train.AdamOptimizer().minimize(squared(looked_up))
    found = batch.infer()
    # A sum of each tower would have as many rows as are distinct in the batch.
    assert {"Unique", "UnsortedSegmentSum"} <= set(found.kept_whole)
    assert strategies(found, "ResourceGather", "UnsortedSegmentSum")["ResourceGather"] == 1


def test_an_embedding_of_several_shards(batch: Batch) -> None:
    tables = [tf.get_variable(f"table_{i}", [20, 4], use_resource=True) for i in range(3)]
    looked_up = tf.nn.embedding_lookup(tables, batch.rows(dtype=tf.int32))
    gradients = tf.gradients(squared(looked_up), tables)
    found = batch.infer()
    if batch.is_static:  # As many numbers may be something else than those of rows.
        assert found.layout_of(looked_up) == WHOLE
        return
    assert found.layout_of(looked_up) == Shard(0)
    units = {found.layout_of(gradient.values).unit for gradient in gradients}
    # How many rows each table has depends on the data.
    assert len(units) == 3 and ROWS not in units
    assert not found.kept_whole


def test_ids_that_are_looked_up_once_each(batch: Batch) -> None:
    table = tf.get_variable("table", [50, 4], use_resource=True)
    ids, places = tf.unique(tf.reshape(batch.rows(3, dtype=tf.int32), [-1]))
    looked_up = tf.gather(tf.nn.embedding_lookup(table, ids), places)
    found = batch.infer()
    assert found.layout_of(looked_up) == WHOLE
    assert found.kept_whole == {"Unique": 1}


def test_entries_of_each_row(batch: Batch) -> None:
    given, indices = batch.rows(5, 4), batch.rows(3, dtype=tf.int32)
    taken = tf.gather(given, indices, batch_dims=1)
    (gradient,) = tf.gradients(squared(taken), given)
    found = batch.infer()
    assert found.layout_of(taken) == Shard(0)
    # Less crosses if one device adds the gradients up at their places, and splits the sums.
    assert found.layout_of(gradient) == Shard(0)
    run = strategies(found, "GatherV2", "UnsortedSegmentSum")
    assert run["GatherV2"] >= 1
    assert run["UnsortedSegmentSum"] == 0


@pytest.mark.parametrize("axis", [1, 2, -1])
def test_the_same_entries_of_all_rows(batch: Batch, axis: int) -> None:
    given = batch.rows(5, 4)
    taken = tf.gather(given, [0, 2], axis=axis)
    (gradient,) = tf.gradients(squared(taken), given)
    found = batch.infer()
    assert found.layout_of(taken) == found.layout_of(gradient) == Shard(0)
    assert not found.kept_whole


def test_rows_by_their_numbers(batch: Batch) -> None:
    given = batch.rows(4)
    taken = tf.gather(given, [1, 0])
    pairs = tf.gather(given, batch.rows(dtype=tf.int32))
    many = tf.gather(given, batch.rows(3, dtype=tf.int32))
    found = batch.infer()
    assert found.layout_of(taken) == WHOLE
    assert found.layout_of(pairs) == WHOLE  # Not every tower needs the rows of all then.
    assert found.layout_of(many) == Shard(0)  # More would cross from the device that takes them.
    assert found.kept_whole == {"GatherV2": 2}


def test_scores_of_labels_by_coordinates(batch: Batch) -> None:
    scores, labels = batch.rows(5), batch.rows(dtype=tf.int32)
    numbers = tf.range(tf.shape(scores)[0])
    taken = tf.gather_nd(scores, tf.stack([numbers, labels], 1))
    (gradient,) = tf.gradients(squared(taken), scores)
    found = batch.infer()
    assert found.layout_of(taken) == found.layout_of(gradient) == Shard(0)
    assert strategies(found, "GatherNd", "ScatterNd") == {"GatherNd": 1, "ScatterNd": 1}


@pytest.mark.parametrize(("axis", "made"), [(-1, 0), (0, 1), (1, 0)])
def test_one_hot(batch: Batch, axis: int, made: int) -> None:
    encoded = tf.one_hot(batch.rows(3, dtype=tf.int32), 5, axis=axis)
    found = batch.infer()
    assert found.layout_of(encoded) == Shard(made)
    assert not found.kept_whole


def test_the_largest_entries_of_each_row(batch: Batch) -> None:
    given, labels = batch.rows(5), batch.rows(dtype=tf.int32)
    largest, places = tf.nn.top_k(given, 2)
    (gradient,) = tf.gradients(squared(largest), given)
    are_right = tf.nn.in_top_k(given, labels, 2)
    found = batch.infer()
    made = (largest, places, are_right)
    assert [found.layout_of(tensor) for tensor in made] == [Shard(0)] * 3
    assert found.layout_of(gradient) == Shard(0)
    assert strategies(found, "TopKV2", "ScatterNd") == {"TopKV2": 1, "ScatterNd": 1}


@pytest.mark.parametrize("direction", ["ASCENDING", "DESCENDING"])
@pytest.mark.parametrize("axis", [1, -1])
def test_sorts_within_rows(batch: Batch, axis: int, direction: str) -> None:
    given = batch.rows(5, 4)
    made = [
        tf.sort(given, axis, direction),
        tf.argsort(given, axis, direction),
        tf.searchsorted(tf.sort(given, -1), given),
    ]
    found = batch.infer()
    assert [found.layout_of(tensor) for tensor in made] == [Shard(0)] * 3
    assert not found.kept_whole


def test_a_sort_of_rows(batch: Batch) -> None:
    made = tf.sort(batch.rows(5), 0) * 2.0
    found = batch.infer()
    assert found.layout_of(made) == Shard(0)
    assert found.kept_whole == {"TopKV2": 1}


def test_selected_images_that_are_as_high_as_there_are_rows() -> None:
    """The height may be n by chance, and convolutions cannot be split there."""
    with tf.Graph().as_default() as graph:
        images, kernel = tf.placeholder(tf.float32, [N, N, N, 2]), tf.ones([3, 3, 2, 4])
        made = tf.nn.conv2d(images[::2], kernel, 1, "SAME")
        found = infer(graph.get_operations(), [Source(images, 0)], N, towers=3)
    assert found.layout_of(made) == Shard(0, Even(N // 2))


def test_rows_that_a_mask_lets_pass(batch: Batch) -> None:
    given = batch.rows(5)
    kept = tf.boolean_mask(given, given[:, 0] > 0)
    (gradient,) = tf.gradients(squared(kept), given)
    found = batch.infer()
    assert found.layout_of(kept) == Shard(0, "boolean_mask/Where:0[0]")
    assert found.layout_of(gradient) == Shard(0)
    assert not found.kept_whole


@pytest.mark.parametrize("kind", ["sum", "mean", "max", "prod", "sqrt_n"])
def test_unsorted_segments_and_their_gradients(batch: Batch, kind: str) -> None:
    given, ids = batch.rows(5), batch.rows(dtype=tf.int32)
    made = getattr(tf.math, f"unsorted_segment_{kind}")(given, ids, 3)
    (gradient,) = tf.gradients(squared(made), given)
    found = batch.infer()
    assert found.layout_of(gradient) == Shard(0)
    assert not any("Segment" in name or "Gather" in name for name in found.kept_whole)
    if kind in ("sum", "max"):
        assert found.layout_of(made) == (SUM if kind == "sum" else MAX)


def test_sorted_segments(batch: Batch) -> None:
    given, ids = batch.rows(5), batch.rows(dtype=tf.int32)
    of_rows = tf.math.segment_sum(given, ids)
    within_rows = tf.math.segment_mean(tf.transpose(given), [0, 0, 1, 1, 1])
    found = batch.infer()
    assert found.layout_of(of_rows) == WHOLE
    assert found.layout_of(within_rows) == Shard(1)
    assert found.kept_whole == {"SegmentSum": 1}


def test_counts(batch: Batch) -> None:
    counted = tf.math.bincount(batch.rows(dtype=tf.int32), minlength=5, maxlength=5)
    histogram = tf.histogram_fixed_width(batch.rows(3), [0.0, 1.0], 4)
    found = batch.infer()
    assert found.layout_of(histogram) == SUM
    if not versions.IS_1:  # Where it is another operation, and that a function's.
        assert found.layout_of(counted) == SUM


def test_entries_that_are_scattered(batch: Batch) -> None:
    indices, updates = batch.rows(1, dtype=tf.int32), batch.rows(4)
    added = tf.scatter_nd(indices, updates, [5, 4])
    replaced = tf.tensor_scatter_nd_update(tf.zeros([7, 4]), indices, updates)
    found = batch.infer()
    assert found.layout_of(added) == SUM  # It has fewer entries than the updates of all rows.
    assert found.layout_of(replaced) == WHOLE
    assert found.kept_whole == {"TensorScatterUpdate": 1}


def test_sampled_classes(batch: Batch) -> None:
    given, labels = batch.rows(4), batch.rows(1, dtype=tf.int64)
    weights = tf.get_variable("weights", [50, 4], use_resource=True)
    biases = tf.get_variable("biases", [50], use_resource=True)
    losses = tf.nn.sampled_softmax_loss(weights, biases, labels, given, 5, 50)
    (gradient,) = tf.gradients(tf.reduce_mean(losses), weights)
    found = batch.infer()
    # Classes that are drawn for all rows avoid the labels of all.
    assert found.kept_whole["LogUniformCandidateSampler"] == 1
    assert found.layout_of(losses) == Shard(0)
    assert found.layout_of(gradient.values) == WHOLE


def test_a_table_of_as_many_entries_as_there_are_rows(batch: Batch) -> None:
    table = tf.constant(np.eye(N, 4, dtype=np.float32))
    taken = tf.gather(table, batch.rows(dtype=tf.int32))
    found = batch.infer()
    (strategy,) = (s for op, s in found.strategies.items() if op.type == "GatherV2")
    assert strategy.inputs == (WHOLE, Shard(0), WHOLE)
    assert found.layout_of(taken) == Shard(0)
