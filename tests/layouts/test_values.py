"""Integers that are known before a graph runs are what it gives when it does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from layouts.graphs_of_sizes import Graph, integer_tensors
from layouts.integer_steps import extended
from replicate.layouts import ROWS, Facts, symbol, values

SHAPES = (["n", 3], ["n", "t", 4], ["u", "t"], ["n", "t", "u", 1], [], [2, 0, 3])


def sources(graph: Graph) -> list[Any]:
    """Returns shapes, their entries, and constants."""
    shapes = [tf.shape(tensor) for tensor in graph.inputs]
    constants = [tf.constant(entries, tf.int32) for entries in ([2, 1], [0], 3, -1, [4, 0, 1])]
    unknown = tf.placeholder_with_default(tf.constant([2, 5]), [2])
    return [*shapes, shapes[1][0], shapes[1][1], shapes[3][2], unknown, *constants]


def check(graph: Graph, tensors: list[Any], known: dict[str, list[int]]) -> None:
    """Compares what is known of tensors, fully or partly, with what they are."""
    for which in graph.turns():
        for tensor, value in zip(tensors, graph.run(tensors, which)):
            if value is None:
                continue
            for whole, found in ((True, graph.facts.value(tensor)), (False, partly(graph, tensor))):
                count = known.setdefault(tensor.op.type, [0, 0])
                count[0] += whole
                if found is None:
                    continue
                count[1] += whole
                made = graph.integers(found, which)
                assert made.shape == value.shape, (tensor.op.type, found, value)
                same = [x is None or x == y for x, y in zip(made.ravel(), value.ravel().tolist())]
                assert all(same), (tensor.op, found, made, value, graph.sizes(which))


def partly(graph: Graph, tensor: Any) -> np.ndarray | None:
    """Returns the integers of a tensor that are known, as operations that take it have them."""
    taken = next((op for op in tensor.consumers() if op.type == "Identity"), None)
    if taken is None:
        taken = tf.identity(tensor).op
    return values.entries(graph.facts.op_of(taken), 0)


@pytest.mark.parametrize("is_static", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_integers_are_what_a_session_gives(is_static: bool, seed: int) -> None:
    draw = np.random.RandomState(seed)
    known: dict[str, list[int]] = {}
    for _ in range(2):
        with tf.Graph().as_default() as made:
            graph = Graph(SHAPES, is_static, draw.randint(5))
            extended(draw, sources(graph), 40)
            check(graph, integer_tensors(made), known)
            graph.close()
    if is_static:
        never = [name for name, (asked, found) in known.items() if asked > 20 and not found]
        assert set(never) <= {"PlaceholderWithDefault"}


def test_a_size_that_is_left_open_follows_from_none_that_is_unknown() -> None:
    with tf.Graph().as_default():
        given = tf.sparse_placeholder(tf.float32, [None, None])
        made = tf.sparse.reshape(given, [tf.shape(given)[0], -1])
        used = Facts(symbol(ROWS)).op_of(tf.identity(made.dense_shape).op)
        assert list(values.entries(used, 0)) == [None, None]
