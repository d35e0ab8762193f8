"""Counts the arithmetic of operations from shapes: additions, multiplications and functions."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from replicate.layouts.dims import ROWS, ROWS_OR_NONE, Dim, Monomial
from replicate.layouts.facts import Facts

# Operations that only move entries, or say where they are.
_MOVES = frozenset(
    ["BroadcastTo", "Cast", "Concat", "ConcatV2", "Const", "DepthToSpace", "DeepCopy", "Enter"]
    + ["Exit", "ExpandDims", "Fill", "Gather", "GatherNd", "GatherV2", "Identity", "IdentityN"]
    + ["InvertPermutation", "LoopCond", "Merge", "MirrorPad", "NextIteration", "OneHot", "Pack"]
    + ["Pad", "PadV2", "ParallelConcat", "Placeholder", "PlaceholderWithDefault", "PreventGradient"]
    + ["ReadVariableOp", "RefEnter", "RefIdentity", "RefSwitch", "Reshape", "ResourceGather"]
    + ["Reverse", "ReverseSequence", "ReverseV2", "Slice", "Snapshot", "SpaceToDepth", "Split"]
    + ["SplitV", "Squeeze", "StackPopV2", "StackPushV2", "StopGradient", "StridedSlice", "Switch"]
    + ["TensorArrayConcatV3", "TensorArrayGatherV3", "TensorArrayReadV3", "TensorArrayScatterV3"]
    + ["TensorArraySplitV3", "TensorArrayWriteV3", "Tile", "Transpose", "Unpack", "VariableV2"]
    + ["OnesLike", "ZerosLike", "TensorListGetItem", "TensorListPopBack", "TensorListPushBack"]
    + ["TensorListSetItem", "TensorListStack", "TensorListFromTensor", "DynamicStitch"]
)
_MATRICES = {"MatMul": "transpose_a", "SparseMatMul": "transpose_a"}
_MATRICES.update(dict.fromkeys(("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), "adj_x"))
# By type: the input or output that holds the filter, and the one with an entry for each place where
# the filter is applied. Negative numbers are outputs, from -1 on.
_FILTERS = {
    "Conv2D": (1, -1),
    "Conv2DBackpropFilter": (-1, 2),
    "Conv2DBackpropInput": (1, 2),
    "Conv3D": (1, -1),
    "Conv3DBackpropFilterV2": (-1, 2),
    "Conv3DBackpropInputV2": (1, 2),
    "DepthwiseConv2dNative": (1, -1),
    "DepthwiseConv2dNativeBackpropFilter": (-1, 2),
    "DepthwiseConv2dNativeBackpropInput": (1, 2),
}
# By type: the inputs that hold rows and weights.
_CELLS = {
    "BlockLSTM": (1, 4),
    "BlockLSTMV2": (1, 4),
    "GRUBlockCell": (0, 2),
    "LSTMBlockCell": (0, 3),
}
_SPARSE = frozenset(["SparseTensorDenseMatMul"])
MULTIPLIES = frozenset([*_MATRICES, *_FILTERS, *_CELLS, *_SPARSE, "Einsum"])
"""Types that multiply and add up: most of the arithmetic of networks."""


class Costs:
    """Counts the arithmetic of operations.

    Args:
        facts: The `Facts` of their graph.
        sizes: Assumed sizes by symbol; `n` is the number of rows.
        typical: The assumed size of all other symbols.
    """

    def __init__(self, facts: Facts, sizes: Mapping[str, int], typical: int = 16) -> None:
        self._facts = facts
        self._sizes = {**sizes, ROWS_OR_NONE: sizes.get(ROWS, typical)}
        self._typical = typical

    def cost_of(self, operation: Any) -> float:
        """Returns the number of additions, multiplications and functions in one run."""
        kind = operation.type
        if kind in _MOVES:
            return 0.0
        if kind in _MATRICES:
            first = self._shape(operation.inputs[0])
            inner = first[-2 if operation.get_attr(_MATRICES[kind]) else -1] if first else 1.0
            return 2 * self.entries(operation.outputs[0]) * inner
        if kind in _FILTERS:
            filters, places = (self._tensor(operation, index) for index in _FILTERS[kind])
            # Each entry is a sum over the filter except its last axes, those of output channels.
            last = 2 if kind.startswith("Depthwise") else 1
            return 2 * self.entries(places) * _product(self._shape(filters)[:-last])
        if kind in _CELLS:
            rows, weights = (operation.inputs[index] for index in _CELLS[kind])
            return 2 * _product(self._shape(rows)[:-1]) * self.entries(weights)
        if kind in _SPARSE:
            return 2 * self.entries(operation.inputs[1]) * self._shape(operation.inputs[3])[-1]
        if kind == "Einsum":
            return 2 * self._einsum(operation)
        tensors = [t for t in (*operation.inputs, *operation.outputs) if _is_number(t)]
        made = any(_is_number(tensor) for tensor in operation.outputs)
        is_update = any(tensor.dtype.name == "resource" for tensor in operation.inputs)
        return max(map(self.entries, tensors), default=0.0) if made or is_update else 0.0

    def entries(self, tensor: Any) -> float:
        """Returns how many entries a tensor has."""
        return _product(self._shape(tensor))

    def size(self, dim: Dim) -> float:
        """Returns a size as a number."""
        if not isinstance(dim, Monomial):
            return float(dim)
        return dim.coefficient * _product(
            [self._sizes.get(name, self._typical) for name in dim.symbols]
        )

    def _shape(self, tensor: Any) -> list[float]:
        dims = self._facts.dims(tensor)
        return [] if dims is None else [self.size(dim) for dim in dims]

    def _tensor(self, operation: Any, index: int) -> Any:
        return operation.inputs[index] if index >= 0 else operation.outputs[-1 - index]

    def _einsum(self, operation: Any) -> float:
        given, _, _ = operation.get_attr("equation").decode().partition("->")
        sizes: dict[Any, float] = {}
        for term, tensor in zip(given.split(","), operation.inputs):
            shape, before = self._shape(tensor), term.partition("...")[0]
            after = term.partition("...")[2]
            dots = range(len(before) + len(after) - len(shape), 0)
            for label, size in zip((*before, *dots, *after), shape):
                sizes[label] = max(size, sizes.get(label, 1.0))
        return _product(list(sizes.values()))


def _is_number(tensor: Any) -> bool:
    return bool(tensor.dtype.base_dtype.is_floating or tensor.dtype.base_dtype.is_complex)


def _product(sizes: Sequence[float]) -> float:
    made = 1.0
    for size in sizes:
        made *= size
    return made
