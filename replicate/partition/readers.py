"""Finds the operations that read variables and tables when they run.

A write has to wait for these. A reference variable returns its memory, so an operation that takes
it reads the variable only when it runs.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

from replicate.compat import graph as graph_lib
from replicate.compat import op_types
from replicate.graphs import state
from replicate.partition.effects import READ_NOW

# Operations that read tables which others may change.
_READ_TABLES = frozenset(
    ["LookupTableFind", "LookupTableFindV2", "LookupTableSize", "LookupTableSizeV2"]
    + ["LookupTableExport", "LookupTableExportV2"]
)

# Operations whose outputs are always new tensors. Others may return the memory of an input in some
# cases: a sum along no axis, a slice of everything, a stack of one tensor.
_MAKE_NEW = frozenset(
    ["Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "SquaredDifference", "Maximum", "Minimum"]
    + ["Square", "Sqrt", "Rsqrt", "Exp", "Log", "Abs", "Neg", "Tanh", "Sigmoid", "Softmax", "Pow"]
    + ["Relu", "Softplus", "Sign", "L2Loss", "MatMul", "BatchMatMul", "BatchMatMulV2", "Einsum"]
    + ["BiasAdd", "Conv1D", "Conv2D", "Conv3D", "DepthwiseConv2dNative", "Gather", "GatherV2"]
    + ["GatherNd", "Conv2DBackpropInput", "Conv2DBackpropFilter", "Shape", "Size", "Rank"]
    + ["FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"]
)


def find(operations: Sequence[Any]) -> list[Any]:
    """Returns the operations that read variables, or tables that change, when they run."""
    shared: set[Any] = set()
    found = []
    for operation in operations:
        takes = any(tensor.op in shared for tensor in operation.inputs)
        if op_types.gives_reference(operation) or (takes and operation.type not in _MAKE_NEW):
            shared.add(operation)
        if takes or operation.type in READ_NOW or _reads_table(operation):
            found.append(operation)
    return found


def _reads_table(operation: Any) -> bool:
    if operation.type not in _READ_TABLES:
        return False
    return state.source(operation.inputs[0]).type.startswith(("Mutable", "AnonymousMutable"))


class Readers:
    """The operations of a graph that read. A set of them is an integer with one bit for each.

    Nothing outside can wait for a read in a branch or loop. So operations that leave one have bits
    as well: they stand for the reads in there that lead to them.

    Args:
        operations: The operations of the graph.
        leaving: Those that leave a branch or loop; see `effects.leaving`.
    """

    def __init__(self, operations: Sequence[Any], leaving: Sequence[Any]) -> None:
        reading = find(operations)
        self._bits = {one: 1 << index for index, one in enumerate(reading)}
        inside = [one for one in reading if graph_lib.is_in_control_flow(one)]
        self._inside = sum(self._bits[one] for one in inside)
        leaving = leaving if inside else ()
        self._leaving = {one: 1 << len(reading) + index for index, one in enumerate(leaving)}

    def has(self, operation: Any) -> bool:
        """Whether an operation reads when it runs."""
        return operation in self._bits

    def with_own(self, operation: Any, before: int) -> int:
        """Returns the readers before an operation, with itself if it is one."""
        if before & self._inside:
            before |= self._leaving.get(operation, 0)
        return before | self._bits.get(operation, 0)

    def of_written(self, reading: int, write: Any, before: Callable[[Any], int]) -> list[Any]:
        """Returns those readers that read what an operation writes.

        Args:
            reading: The readers.
            write: The operation.
            before: Function of an operation that returns the readers that lead to it.
        """
        written = variables_of(write)

        def among(bits: int) -> list[Any]:
            these = [one for one, bit in self._bits.items() if bit & bits]
            return [one for one in these if written & variables_of(one)]

        left = [one for one, bit in self._leaving.items() if bit & reading]
        return among(reading) + [one for one in left if among(before(one) & self._inside)]


def variables_of(operation: Any) -> set[Any]:
    """Returns the operations that hold the variables and tables that an operation takes."""
    return {one for one in map(state.source, operation.inputs) if state.makes_state(one)}
