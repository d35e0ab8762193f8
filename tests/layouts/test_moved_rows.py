"""Where rows are after what real models do with axes, and what is made of a number of rows."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import tensorflow.compat.v1 as tf

from layouts.graphs_of_sizes import Graph
from replicate.layouts.layout import WHOLE, Demand, Shard, Share
from replicate.layouts.rule import rule_of


def rows(x: Any) -> Any:
    return tf.shape(x)[0]


def steps(x: Any) -> Any:
    return tf.shape(x)[1]


# A function that makes a tensor of x, [n, t, 4] with rows on axis 0; the demand of its operation's
# second input; the axis where rows are then.
AXES: dict[str, tuple[Callable[[Any], Any], Demand, int]] = {
    "rows and steps in one axis": (lambda x: tf.reshape(x, [-1, 4]), WHOLE, 0),
    "and that said": (lambda x: tf.reshape(x, [rows(x) * steps(x), 4]), Share(0), 0),
    "all in one axis": (lambda x: tf.reshape(x, [-1]), WHOLE, 0),
    "heads": (lambda x: tf.reshape(x, [rows(x), steps(x), 2, -1]), Share(0), 0),
    "heads of known steps": (lambda x: tf.reshape(x, [-1, steps(x), 2, 2]), WHOLE, 0),
    "an axis in front": (lambda x: tf.reshape(x, [1, -1, 4]), WHOLE, 1),
    "steps that were in one axis": (
        lambda x: tf.reshape(tf.reshape(x, [-1, 4]), [rows(x), steps(x), -1]),
        Share(0),
        0,
    ),
    "the same shape": (lambda x: tf.reshape(x, tf.shape(x)), Share(0), 0),
    "steps first": (lambda x: tf.transpose(x, [1, 0, 2]), WHOLE, 1),
    "a new axis": (lambda x: tf.expand_dims(x, 0), WHOLE, 1),
    "a new axis behind": (lambda x: tf.expand_dims(x, -1), WHOLE, 0),
    "a slice": (lambda x: tf.slice(x, [0, 0, 1], [-1, -1, 2]), WHOLE, 0),
    "a step": (lambda x: x[:, 0], WHOLE, 0),
    "a step that is computed": (lambda x: x[:, tf.placeholder(tf.int32, [])], WHOLE, 0),
    "the last axis": (lambda x: x[..., -1], WHOLE, 0),
    "a new axis in a slice": (lambda x: x[None, :, 1:], WHOLE, 1),
    "a slice up to n": (lambda x: x[: rows(x), ::-1], WHOLE, 0),
    "copies": (lambda x: tf.tile(x, [1, 3, 1]), WHOLE, 0),
    "copies for all steps": (lambda x: tf.tile(x, [1, steps(x), 1]), WHOLE, 0),
    "padding": (lambda x: tf.pad(x, [[0, 0], [1, 0], [0, 0]]), WHOLE, 0),
    "padding to a length": (lambda x: tf.pad(x, [[0, 0], [0, 9 - steps(x)], [0, 0]]), WHOLE, 0),
}


@pytest.mark.parametrize("is_static", [False, True])
@pytest.mark.parametrize("name", AXES)
def test_rows_are_kept(name: str, is_static: bool) -> None:
    make, demand, axis = AXES[name]
    with tf.Graph().as_default():
        graph = Graph([["n", "t", 4]], is_static)
        made = make(graph.inputs[0]).op
        others = (WHOLE,) * (len(made.inputs) - 1)
        strategy = rule_of(made.type)(graph.facts.op_of(made), (Shard(0), *others))
        graph.close()
    assert strategy.inputs[:2] == (Shard(0), demand)
    assert strategy.outputs == (Shard(axis),)


# A function that makes a tensor of w, [1, 4] and whole, and of n; the axis of its rows.
MADE: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "a constant": (lambda w, n: tf.fill([n, 3], 1.0), 0),
    "a constant behind": (lambda w, n: tf.fill([3, 2 * n], 1.0), 1),
    "copies": (lambda w, n: tf.tile(w, [n, 1]), 0),
    "copies in front": (lambda w, n: tf.tile(w[None], [n, 1, 2]), 0),
    "a broadcast": (lambda w, n: tf.broadcast_to(w, [n, 4]), 0),
    "a broadcast to more axes": (lambda w, n: tf.broadcast_to(w, [n, 3, 4]), 0),
}


@pytest.mark.parametrize("name", MADE)
def test_rows_are_made(name: str) -> None:
    make, axis = MADE[name]
    with tf.Graph().as_default():
        graph = Graph([["n", 5]])
        made = make(tf.ones([1, 4]), rows(graph.inputs[0])).op
        strategy = rule_of(made.type)(graph.facts.op_of(made), (WHOLE, WHOLE))
        graph.close()
    assert Share(axis) in strategy.inputs
    assert strategy.outputs == (Shard(axis),)


@pytest.mark.parametrize("shape", [["n", 3, 4], ["n", "t", 4], ["n", 0, 4]])
def test_each_tower_infers_a_size_that_has_no_rows(shape: list[Any]) -> None:
    """Also one that is 0: each tower has a row, so it finds what one device finds."""
    with tf.Graph().as_default():
        graph = Graph([shape])
        made = tf.reshape(graph.inputs[0], [rows(graph.inputs[0]), -1]).op
        strategy = rule_of("Reshape")(graph.facts.op_of(made), (Shard(0), WHOLE))
        graph.close()
    assert strategy.inputs == (Shard(0), Share(0))
    assert strategy.outputs == (Shard(0),)


def test_a_shape_of_all_pairs_has_rows_on_no_axis() -> None:
    with tf.Graph().as_default():
        graph = Graph([["n", 5]])
        n = rows(graph.inputs[0])
        made = tf.fill([n, n], 1.0).op
        assert rule_of("Fill")(graph.facts.op_of(made), (WHOLE, WHOLE)) is None
        graph.close()


def test_an_axis_of_unknown_size_is_left_out_only_by_name() -> None:
    with tf.Graph().as_default():
        graph = Graph([["n", 1, "t"]])
        for made in (tf.squeeze(graph.inputs[0]), tf.squeeze(graph.inputs[0], [0])):
            assert rule_of("Squeeze")(graph.facts.op_of(made.op), (Shard(0),)) is None
        named = tf.squeeze(graph.inputs[0], [-2]).op
        assert rule_of("Squeeze")(graph.facts.op_of(named), (Shard(2),)).outputs == (Shard(1),)
        graph.close()
