"""Towers draw random numbers themselves if their shape begins with rows."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import pytest
import tensorflow.compat.v1 as tf

from replicate.layouts import ROWS, Facts, Source, infer, rules, symbol
from replicate.layouts.dims import Dim
from replicate.layouts.layout import SUM, WHOLE, Layout, Shard, Share, Strategy
from replicate.layouts.rule import reason_of, rule_of

N = symbol(ROWS)
Shape = Callable[[Any], Sequence[Any]]

assert rules  # It fills the table.


def strategy(tensor: Any, layouts: Sequence[Layout], rows: Dim, batch: Any) -> Strategy | None:
    facts = Facts(rows)
    facts.put(batch, 0, per_row=1)
    function = rule_of(tensor.op.type)
    assert function is not None
    return function(facts.op_of(tensor.op), layouts)


def uniform(shape: Shape, rows: Dim = N, size: int | None = None) -> Strategy | None:
    """Returns the strategy for numbers of a shape, which is made of the number of rows."""
    with tf.Graph().as_default():
        batch = tf.placeholder(tf.float32, [size, 4])
        drawn = tf.raw_ops.RandomUniform(shape=shape(tf.shape(batch)[0]), dtype=tf.float32)
        return strategy(drawn, [WHOLE], rows, batch)


DRAWN = Strategy((Share(0),), (Shard(0),))


@pytest.mark.parametrize(
    ("shape", "drawn"),
    [
        (lambda n: [n, 3], DRAWN),
        (lambda n: [n * 5, 3], DRAWN),
        (lambda n: [n], DRAWN),
        (lambda n: [3, n], None),
        (lambda n: [n, n], None),
        (lambda n: [8, 3], None),
        (lambda n: [n + 1, 3], None),
    ],
)
def test_towers_draw_rows_where_a_shape_begins_with_them_and_holds_no_others(shape, drawn):
    assert uniform(shape) == drawn


@pytest.mark.parametrize(
    ("first", "drawn"), [(8, DRAWN), (16, None), (4, None), (1, None), (0, None)]
)
def test_towers_draw_as_many_as_there_are_rows_where_that_is_known(first, drawn):
    assert uniform(lambda n: [first, 8], rows=8, size=8) == drawn


def test_limits_are_whole():
    with tf.Graph().as_default():
        batch = tf.placeholder(tf.float32, [None])
        made = tf.raw_ops.RandomUniformInt(shape=tf.shape(batch), minval=0, maxval=9)
        found = strategy(made, [WHOLE] * 3, N, batch)
    assert found == Strategy((Share(0), WHOLE, WHOLE), (Shard(0),))


def numbers_of(parameters: Any, shape: Any) -> Any:
    return tf.raw_ops.RandomGamma(shape=shape, alpha=parameters)


def test_numbers_follow_the_rows_of_their_parameters():
    with tf.Graph().as_default():
        batch = tf.placeholder(tf.float32, [None, 4])
        made = numbers_of(batch, [5, 6])
        found = strategy(made, [WHOLE, Shard(0)], N, batch)
        of_columns = strategy(made, [WHOLE, Shard(1)], N, batch)
    assert found == Strategy((WHOLE, Shard(0)), (Shard(2),))
    assert of_columns == Strategy((WHOLE, Shard(1)), (Shard(3),))


def test_parameters_that_are_not_rows_are_whole():
    with tf.Graph().as_default():
        batch = tf.placeholder(tf.float32, [None, 4])
        alpha = tf.placeholder(tf.float32, [2])
        of_rows = strategy(numbers_of(alpha, tf.shape(batch)), [WHOLE, SUM], N, batch)
        of_others = strategy(numbers_of(alpha, [5]), [WHOLE, SUM], N, batch)
    assert of_rows == Strategy((Share(0), WHOLE), (Shard(0),))
    assert of_others is None


def test_classes_are_drawn_for_rows_of_logits():
    with tf.Graph().as_default():
        batch = tf.placeholder(tf.float32, [None, 4])
        made = tf.raw_ops.Multinomial(logits=batch, num_samples=2)
        assert strategy(made, [Shard(0), WHOLE], N, batch) == Strategy(
            (Shard(0), WHOLE), (Shard(0),)
        )
        assert strategy(made, [Shard(1), WHOLE], N, batch) is None


def test_dropout_is_drawn_in_towers_and_an_initial_value_is_not():
    with tf.Graph().as_default() as graph:
        batch = tf.placeholder(tf.float32, [None, 4])
        dropped = tf.nn.dropout(batch, rate=0.5)
        weights = tf.random_normal([4, 3])
        layouts = infer(graph.get_operations(), [Source(batch, 0)], N)
        assert layouts.layout_of(dropped) == Shard(0)
        assert layouts.layout_of(weights) == WHOLE


def test_an_order_of_all_rows_and_stateless_numbers_stay_whole():
    assert all(map(reason_of, ("RandomShuffle", "StatelessRandomUniform", "StatefulUniform")))
