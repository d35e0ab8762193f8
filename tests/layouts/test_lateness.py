"""Towers meet as early as that costs nothing."""

from __future__ import annotations

from typing import Any, Callable, Iterator

import pytest
import tensorflow.compat.v1 as tf

from replicate.layouts import WHOLE, Layouts, Source, infer
from replicate.layouts.layout import MEAN, SUM, Partial

Make = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def found_of(make: Make) -> tuple[Any, Layouts]:
    """Returns what `make` makes of rows, [6, 4], and the layouts of all that it took."""
    rows = tf.placeholder(tf.float64, [6, 4])
    made = make(rows)
    operations = tf.get_default_graph().get_operations()
    return made, infer(operations, [Source(rows, 0)], 6)


def sum_of(rows: Any) -> Any:
    return tf.reduce_sum(rows, 0)


LATE: dict[str, tuple[Make, Partial]] = {
    "scaled": (lambda rows: sum_of(rows) * 3, SUM),
    "shaped": (lambda rows: tf.reshape(sum_of(rows), [2, 2]), SUM),
    "a chain": (lambda rows: tf.transpose(tf.reshape(sum_of(rows) * 3, [2, 2])), SUM),
    "repeated": (lambda rows: tf.tile(sum_of(rows), [3]), SUM),
    "a moving mean": (
        lambda rows: (tf.ones([4], tf.float64) - tf.reduce_mean(rows, 0)) * 0.1,
        MEAN,
    ),
}


@pytest.mark.parametrize("name", LATE)
def test_the_parts_of_one_sum_are_put_together_first(name: str) -> None:
    make, kind = LATE[name]
    made, found = found_of(make)
    assert found.layout_of(made) == WHOLE and made.op not in found.strategies
    assert not found.kept_whole
    parts = [op for op in found.strategies if found.layout_of(op.outputs[0]) == kind]
    assert [op.type for op in parts] == ["Sum" if kind == SUM else "Mean"]


IN_TOWERS: dict[str, Make] = {
    "of two sums, one is put together": lambda rows: sum_of(rows) + sum_of(rows * 2),
    "a sum of fewer entries": lambda rows: tf.reduce_sum(sum_of(rows)),
    "some of its entries": lambda rows: sum_of(rows)[1:],
}


@pytest.mark.parametrize("name", IN_TOWERS)
def test_other_parts_stay_in_towers(name: str) -> None:
    made, found = found_of(IN_TOWERS[name])
    assert found.layout_of(made) == SUM and made.op in found.strategies


def test_parts_that_towers_take_stay_there() -> None:
    def make(rows: Any) -> Any:
        scaled = sum_of(rows) * 3
        return [scaled, tf.add_n([scaled, sum_of(rows * 2)])]

    (scaled, both), found = found_of(make)
    assert found.layout_of(scaled) == found.layout_of(both) == SUM
