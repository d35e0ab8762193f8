"""Sizes and integers in graphs of gradients are known where the number of rows is not."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

import pytest
import tensorflow.compat.v1 as tf

from layouts.graphs_of_sizes import Graph
from replicate.compat import graph as graph_lib

F64 = tf.float64


def weights(*shape: int) -> Any:
    return tf.get_variable(f"w{len(tf.global_variables())}", shape, F64, tf.ones_initializer())


def rows_of(x: Any) -> Any:
    return tf.shape(x)[0]


def flattened(x: Any) -> Any:
    """As layers apply to sequences: the axes before the last one become one, and come back."""
    inner = tf.matmul(tf.reshape(x, [-1, 4]), weights(4, 6))
    return tf.reshape(inner, [-1, tf.shape(x)[1], 2, 3])


def heads(x: Any) -> Any:
    parts = tf.transpose(tf.reshape(x, [rows_of(x), -1, 2, 2]), [0, 2, 1, 3])
    scores = tf.nn.softmax(tf.matmul(parts, parts, transpose_b=True))
    return tf.reshape(tf.transpose(tf.matmul(scores, parts), [0, 2, 1, 3]), tf.shape(x))


def normalized(x: Any) -> Any:
    centered = x - tf.reduce_mean(x, axis=-1, keepdims=True)
    return centered * tf.rsqrt(tf.reduce_mean(centered**2, axis=-1, keepdims=True) + 1.0)


class Model(NamedTuple):
    """A function, the shape of what it is given, and what may be unknown of its gradients.

    Attributes:
        make: The function.
        shape: As `Graph` has it.
        unknown: Types of operations whose integers are not known: those that are no sizes, and
            differences.
    """

    make: Callable[[Any], Any]
    shape: list[Any]
    unknown: str = ""


SEQUENCES = ["n", "t", 4]
IMAGES = ["n", 4, 4, 3]
MODELS = {
    # Of TensorFlow 1, a size is divided by itself, which may be 0.
    "means": Model(lambda x: tf.reduce_mean(x, axis=1), SEQUENCES),
    "sums over two axes": Model(
        lambda x: tf.reduce_sum(x, axis=[0, -1]), SEQUENCES, "Maximum FloorDiv"
    ),
    "maxima": Model(lambda x: tf.reduce_max(x, axis=1), SEQUENCES),
    "products": Model(lambda x: tf.reduce_prod(x, axis=1), SEQUENCES),
    "normalisation": Model(normalized, SEQUENCES, "Maximum FloorDiv"),
    "biases": Model(lambda x: x * weights(4) + weights(1, 4), SEQUENCES),
    "tensordot": Model(lambda x: tf.tensordot(x, weights(4, 3), [[2], [0]]), SEQUENCES),
    "batches of products": Model(lambda x: tf.matmul(x, weights(4, 3)), SEQUENCES),
    "einsum": Model(lambda x: tf.einsum("ntd,de->nte", x, weights(4, 3)), SEQUENCES),
    "layers of sequences": Model(flattened, SEQUENCES),
    "attention": Model(heads, SEQUENCES),
    "flat rows": Model(lambda x: tf.reshape(x, [rows_of(x), -1]), IMAGES),
    "concatenation": Model(lambda x: tf.concat([x, 2 * x, x], axis=1), SEQUENCES),
    "stacks": Model(lambda x: tf.stack(tf.unstack(x, axis=2) + [x[:, :, 0]], axis=1), SEQUENCES),
    "parts": Model(lambda x: tf.slice(x, [0, 0, 1], [-1, -1, 2]), SEQUENCES),
    "steps": Model(lambda x: x[:, 1:, ::2], SEQUENCES),
    "differences of pairs": Model(lambda x: x[:, None] - x[:, :, None], SEQUENCES),
    "lookups": Model(lambda x: tf.gather(weights(7, 3), tf.cast(x, tf.int32)), ["n", "t"], "Cast"),
    "softmax": Model(lambda x: tf.nn.softmax(x, axis=1), SEQUENCES),
    "entropies": Model(
        lambda x: tf.nn.softmax_cross_entropy_with_logits_v2(labels=tf.nn.softmax(x), logits=x),
        SEQUENCES,
    ),
    "convolutions": Model(
        lambda x: tf.nn.conv2d(x, weights(2, 2, 3, 2), strides=[1, 1, 1, 1], padding="SAME"), IMAGES
    ),
    "pools": Model(lambda x: tf.nn.avg_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"), IMAGES),
    "transposed convolutions": Model(
        lambda x: tf.nn.conv2d_transpose(
            x, weights(2, 2, 2, 3), [rows_of(x), 8, 8, 2], strides=[1, 2, 2, 1]
        ),
        IMAGES,
    ),
    "tiles": Model(lambda x: tf.tile(weights(1, 4), [rows_of(x), 1]) * x, ["n", 4]),
    "dropout": Model(lambda x: tf.nn.dropout(x, rate=0.5), SEQUENCES),
    "a choice": Model(lambda x: tf.where(x > 0, x, tf.zeros_like(x)), SEQUENCES),
    "padding": Model(lambda x: tf.pad(x, [[0, 0], [1, 0], [0, 0]]), SEQUENCES),
}


@pytest.mark.parametrize("name", MODELS)
def test_sizes_are_known_and_right(name: str) -> None:
    make, shape, unknown = MODELS[name]
    with tf.Graph().as_default():
        tf.get_variable_scope().set_use_resource(True)
        graph = Graph([shape])
        loss = tf.reduce_sum(tf.square(make(graph.inputs[0])))
        grads = tf.gradients(loss, graph.inputs + tf.trainable_variables())
        values = [x.values if isinstance(x, tf.IndexedSlices) else x for x in grads]
        tensors = needed([loss, *(value for value in values if value is not None)])
        left = {t.op.type for t in tensors if t.dtype.is_integer and graph.facts.value(t) is None}
        assert left <= set(unknown.split())
        graph.initialize()
        for which in graph.turns():
            for tensor, made in zip(tensors, graph.run(tensors, which)):
                if made is not None:
                    check(graph, tensor, made, which)
        graph.close()


def needed(tensors: list[Any]) -> list[Any]:
    """Returns all tensors from which some are computed, except variables."""
    found, pending = set(), [tensor.op for tensor in tensors]
    while pending:
        operation = pending.pop()
        if operation not in found:
            found.add(operation)
            pending += [tensor.op for tensor in operation.inputs]
    return [
        tensor
        for operation in sorted(found, key=graph_lib.id_of)
        for tensor in operation.outputs
        if tensor.dtype.base_dtype == tensor.dtype != tf.resource
    ]


def check(graph: Graph, tensor: Any, made: Any, which: int) -> None:
    """Compares the known shape and integers of a tensor with the real ones."""
    if tensor.op.type == "BroadcastGradientArgs":
        check_axes(graph, tensor, made.tolist(), which)
        return
    shape, value = graph.facts.dims(tensor), graph.facts.value(tensor)
    if shape is not None:
        known, real = [graph.number(size, which) for size in shape], list(made.shape)
        if tensor.shape.rank is None:  # Its axes are those of a sum: see `check_axes`.
            known, real = [x for x in known if x != 1], [x for x in real if x != 1]
        assert known == real, tensor
    if value is not None:
        assert graph.integers(value, which).tolist() == made.tolist(), tensor


def check_axes(graph: Graph, tensor: Any, made: list[int], which: int) -> None:
    """Lets axes of one entry be summed over or not: that changes nothing but the rank."""
    shapes = graph.run(list(tensor.op.inputs), which)
    rank = max(len(shape) for shape in shapes)
    sizes = [[1] * (rank - len(shape)) + shape.tolist() for shape in shapes]
    found = graph.integers(graph.facts.value(tensor), which).tolist()
    assert all(max(own[axis] for own in sizes) == 1 for axis in set(found) ^ set(made)), tensor
