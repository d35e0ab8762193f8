"""A whole tensor is split among towers, by one operation if no tower repeats a row."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from replicate.layouts import Even
from replicate.partition import splits
from replicate.partition.rows import Rows
from replicate.partition.units import Units

COUNTS = {"each has some": [3, 1, 2], "one has none": [4, 0, 2], "only one has some": [0, 0, 6]}


def kinds() -> list[str]:
    return [one.type for one in tf.get_default_graph().get_operations()]


def run(tensors: Sequence[Any]) -> list[Any]:
    with tf.Session() as session:
        return list(session.run(list(tensors)))


@pytest.mark.parametrize("each", [1, 2])
@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
def test_entries_of_a_ragged_unit_are_split_by_one_operation(counts, each, fresh_graph):
    whole = np.arange(6.0 * each * 2).reshape(2, 6 * each)
    batch = Rows([2, 1, 1], 4, [0, 2, 3], [2, 1, 1])
    units = Units(batch, lambda size: size, lambda _: [tf.constant(count) for count in counts])
    rows = units.rows_of("values")
    parts = splits.split_by_sizes(tf.constant(whole), 1, rows.held, each)
    wanted = np.split(whole, np.cumsum(counts)[:-1] * each, axis=1)
    for got, want in zip(run(parts), wanted):
        np.testing.assert_array_equal(got, want)
    assert kinds().count("SplitV") == 1 and "Slice" not in kinds()
    assert run(rows.starts) == [0, *np.cumsum(counts)[:-1]]


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 2**31 - 1])
@pytest.mark.parametrize("are_rows_known", [True, False])
@pytest.mark.parametrize("is_size_known", [True, False])
@pytest.mark.parametrize("counts", [[2, 1, 1], [1, 1, 0], [3, 0, 2], [0, 0, 0]], ids=str)
def test_towers_with_rows_have_even_shares(
    counts, is_size_known, are_rows_known, size, fresh_graph
):
    batch = Rows(
        counts if are_rows_known else [tf.constant(count) for count in counts],
        sum(counts) if are_rows_known else tf.constant(sum(counts)),
        np.cumsum([0, *counts[:-1]]).tolist(),
        counts,
    )
    units = Units(batch, lambda dim: dim if is_size_known else tf.constant(dim), lambda _: [])
    rows = units.rows_of(Even(size))
    assert rows.are_known == (is_size_known and are_rows_known)
    asked = [*rows.counts, *rows.starts, *rows.held]
    made = asked if rows.are_known else run(asked)
    got, starts, held = made[:3], made[3:6], made[6:]
    # The first tower counts in any case.
    has = [bool(count) or not tower for tower, count in enumerate(counts)]
    assert sum(got) == size
    shares = [share for share, is_there in zip(got, has) if is_there]
    assert max(shares) - min(shares) <= 1
    for tower, is_there in enumerate(has):
        if is_there:
            assert (starts[tower], held[tower]) == (sum(got[:tower]), got[tower])
        else:  # It computes the last entry again.
            assert (got[tower], held[tower], starts[tower]) == (0, min(size, 1), max(size - 1, 0))


@pytest.mark.parametrize("each", [None, 1])
@pytest.mark.parametrize("is_known", [True, False])
def test_a_tower_without_rows_gets_the_last_row_again(is_known, each, fresh_graph):
    def count(value: int) -> Any:
        return value if is_known else tf.constant(value)

    counts, starts, held = [1, 1, 0], [0, 1, 1], [1, 1, 1]
    rows = Rows([count(one) for one in counts], count(2), starts, held)
    assert not rows.are_disjoint
    parts = splits.split(tf.constant([5.0, 7.0]), 0, rows, each=each)
    assert [part.tolist() for part in run(parts)] == [[5.0], [7.0], [7.0]]


def test_a_single_entry_is_for_all_towers(fresh_graph):
    rows = Rows([2, 1, 1], 4, [0, 2, 3], [2, 1, 1])
    parts = splits.split(tf.constant([[5.0]]), 0, rows)
    assert [part.tolist() for part in run(parts)] == [[[5.0]]] * 3


@pytest.mark.parametrize("entries", [3, 5, 9])
def test_entries_that_do_not_fit_are_an_error_as_on_one_device(entries, fresh_graph):
    rows = Rows([2, 1, 1], 4, [0, 2, 3], [2, 1, 1])
    parts = splits.split(tf.zeros([entries, 2]), 0, rows)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Expected size"):
        run(parts)
