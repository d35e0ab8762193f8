"""Indices that are proven to point at their own row need no rows of other towers; others do.

Random graphs are compared with one device; see `own_cases.py`.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from layouts import own_cases, pointing_proof
from replicate.layouts import ROWS, Own, Shard, Source, dims, infer, own_rows, symbol
from replicate.layouts.rule import Op

EXAMPLES, PER_NIGHT = 6, 200
WRONG = {
    "rows": (own_cases.WRONG_NUMBERS, own_cases.IN_ROW),
    "places": (own_cases.NUMBERS, own_cases.OUT_OF_ROW),
}


class _Heard:
    """Counts what the proof is asked, and what it finds."""

    def __init__(self, monkeypatch: Any) -> None:
        self.found: list[Any] = []
        right = own_rows.demand

        def listen(op: Op, layouts: Any, index: int, rows: Any, *rest: Any, **more: Any) -> Any:
            made = right(op, layouts, index, rows, *rest, **more)
            if all(layouts[one] == Shard(0) for one in rows):
                self.found.append(made)
            return made

        monkeypatch.setattr(own_rows, "demand", listen)


@pytest.mark.parametrize("name", own_cases.TYPES)
def test_indices_of_the_own_row_are_found(name: str, monkeypatch: Any) -> None:
    heard = _Heard(monkeypatch)
    case = own_cases.picks(own_cases.NUMBERS, own_cases.IN_ROW)
    found = pointing_proof.Proof(name, [case]).run(EXAMPLES)
    assert not found.wrong, "\n".join(found.wrong)
    assert heard.found and all(one is not None for one in heard.found)


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", own_cases.TYPES)
def test_other_indices_are_taken_as_such(name: str, wrong: str) -> None:
    found = pointing_proof.Proof(name, [own_cases.picks(*WRONG[wrong])]).run(EXAMPLES)
    assert not found.wrong, "\n".join(found.wrong)


@pytest.mark.nightly
@pytest.mark.parametrize("name", own_cases.TYPES)
def test_indices_are_right_in_many_graphs(name: str) -> None:
    numbers = own_cases.NUMBERS + own_cases.WRONG_NUMBERS
    case = own_cases.picks(numbers, own_cases.IN_ROW + own_cases.OUT_OF_ROW)
    found = pointing_proof.Proof(name, [case], seed=random.randrange(10**6)).run(PER_NIGHT)
    assert not found.wrong, "\n".join(found.wrong)


def _is_always_own(op: Op, layouts: Any, index: int, rows: Any, size: Any, **more: Any) -> Any:
    """Takes the indices of rows for granted."""
    each = None if size is None else dims.over(size, op.rows)
    is_asked = all(layouts[one] == Shard(0) for one in rows) and layouts[index] == Shard(0)
    return Own(each=each, **more) if is_asked and each is not None else None


@pytest.mark.parametrize("name", own_cases.TYPES)
def test_the_proof_finds_indices_of_other_rows(name: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(own_rows, "demand", _is_always_own)
    proof = pointing_proof.Proof(name, [own_cases.picks(*WRONG["rows"])])
    assert any(proof.run(2, 2 * index).wrong for index in range(20))


# Numbers that only seem to be places within a row: of n rows, from integers `data` of each.


def _of_a_negative_bound(n: Any, data: Any) -> Any:
    place = tf.minimum(tf.clip_by_value(data - 4, -n, n), 3)
    return tf.range(n)[:, tf.newaxis] * 4 + place


def _of_a_negative_step(n: Any, data: Any) -> Any:
    rows = tf.range(n)[:, tf.newaxis]
    return rows + rows + rows + rows + tf.reshape(tf.range(0, -2 * n, -1), [n, 2])


def _wrapping(n: Any, data: Any) -> Any:
    large = tf.minimum(tf.cast(data, tf.int64) * -(2**32 - 4), 2)
    return tf.range(n)[:, tf.newaxis] * 4 + tf.maximum(tf.cast(large, tf.int32), 0)


def _wrapping_in_8_bits(n: Any, data: Any) -> Any:
    rows = tf.tile(tf.range(n)[:, tf.newaxis], [1, 2])
    index = tf.stack([rows, data % 4], -1)
    return tf.cast(tf.cast(index, tf.uint8), tf.int32)


@pytest.mark.parametrize(
    "make", [_of_a_negative_bound, _of_a_negative_step, _wrapping, _wrapping_in_8_bits]
)
def test_places_that_may_be_elsewhere_are_not_taken_for_own_ones(make: Any) -> None:
    with tf.Graph().as_default() as graph:
        columns = 2 if make is _of_a_negative_step else 4
        given = tf.placeholder(tf.float64, [None, columns])
        data = tf.placeholder(tf.int32, [None, 2])
        index = make(tf.shape(given)[0], data)
        if index.shape.rank == 3:
            made = tf.gather_nd(given, index)
        else:
            made = tf.gather(tf.reshape(given, [-1]), index)
        found = infer(graph.get_operations(), [Source(given, 0), Source(data, 0)], symbol(ROWS))
    demands = found.strategies[made.op].inputs if made.op in found.strategies else ()
    assert not any(isinstance(demand, Own) for demand in demands)
