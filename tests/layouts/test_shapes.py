"""Shapes that are known before a graph runs are those that it gives when it does."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from layouts import proof
from layouts.operations import Operation
from layouts.worlds import Known
from replicate.compat import graph as graph_lib
from replicate.layouts import rule, symbol
from replicate.layouts.dims import ROWS, Dim, Monomial
from replicate.layouts.shapes_table import function_of

TYPES = {name: own for name, own in proof.types().items() if function_of(name)}
EXAMPLES = 6
# Of some operations of these, all sizes are known.
FULLY = (
    "AddV2", "ArgMax", "BatchMatMulV2", "BiasAdd", "Bitcast", "BroadcastTo", "ConcatV2",
    "Conv2DBackpropFilter", "Conv2DBackpropInput", "Cumsum", "Einsum", "ExpandDims", "Fill",
    "GatherV2", "MatMul", "MaxPoolGrad", "Mean", "OneHot", "Pack", "Pad", "RandomUniform", "Relu",
    "ReluGrad",
    "Reshape", "ReverseV2", "Select", "SelectV2", "Slice", "Softmax", "Split", "SplitV", "Squeeze",
    "SparseSoftmaxCrossEntropyWithLogits", "StridedSlice", "StridedSliceGrad", "Sum", "Tile",
    "TopKV2", "Transpose", "Unpack", "UnsortedSegmentSum",
)  # fmt: skip


def test_every_type_with_a_rule_has_a_shape() -> None:
    """Without it, the size of axis 0 is not known to be n: a loop with such a value runs once."""
    assert [name for name in rule.rules() if function_of(name) is None] == []


class Built:
    """An operation of inputs whose sizes the graph does not know.

    Args:
        operation: The operation.
        is_shared: Whether it is known that sizes are equal that are.

    Attributes:
        operation: As the graph has it.
        facts: What is known of it.
        names: What the sizes of its inputs are.
    """

    def __init__(self, operation: Operation, is_shared: bool) -> None:
        self.names: dict[str, int] = {}
        known: dict[Any, tuple[Dim, ...] | None] = {}
        tensors = []
        for index, operand in enumerate(operation.operands):
            if operand.build is not None:
                tensors.append(operand.build())
                continue
            if operand.fixed:
                tensors.append(tf.constant(operand.value))
                continue
            shape = operand.value.shape
            own = [str(size) if is_shared else f"{index}[{i}]" for i, size in enumerate(shape)]
            self.names.update(zip(own, shape))
            tensors.append(operand.placeholder([None] * len(shape)))
            known[graph_lib.reference(tensors[-1])] = tuple(symbol(name) for name in own)
        self.operation = operation.build(tensors)
        self.facts = Known(symbol(ROWS), known, {})

    def number(self, dim: Dim) -> int | None:
        """Returns what a size is, None if it is one of the result's own."""
        if not isinstance(dim, Monomial):
            return int(dim)
        own = [self.names.get(name) for name in dim.symbols]
        return None if None in own else dim.coefficient * int(np.prod(own))


@pytest.mark.parametrize("name", sorted(TYPES))
def test_shapes_are_what_a_session_gives(name: str) -> None:
    found = [one(name, index) for index in range(EXAMPLES)]
    assert any(found) or name not in FULLY or any(one(name, index) for index in range(6, 30))


def one(name: str, index: int) -> bool:
    """Checks an operation of a type; returns whether all its sizes are known."""
    draw = np.random.RandomState(crc32(f"{name} {index}".encode()))
    with tf.Graph().as_default():
        operation = Operation(name, TYPES[name][index % len(TYPES[name])](draw), draw)
        try:
            built = Built(operation, bool(draw.randint(2)))
        except ValueError:  # TensorFlow itself wants to know some size.
            return False
        finally:
            operation.close()
        return check(built, operation.draws[0].outputs)


def check(built: Built, outputs: list[np.ndarray]) -> bool:
    """Compares shapes that are known with what they are; returns whether one is known fully."""
    fully = False
    for tensor, made in zip(built.operation.outputs, outputs):
        found = built.facts.dims(tensor)
        # At times TensorFlow is wrong itself, as of what `FusedBatchNormGrad` returns for itself.
        if found is None or not tensor.shape.is_compatible_with(made.shape):
            continue
        numbers = [built.number(dim) for dim in found]
        assert len(numbers) == made.ndim
        same = [x is None or x == y for x, y in zip(numbers, made.shape)]
        assert all(same), (built.operation, found, made.shape, built.names)
        fully = fully or None not in numbers
    return fully
