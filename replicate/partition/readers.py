"""Finds the operations that read variables when they run.

A write waits for these. A reference variable gives its memory itself, so that whatever computes
with it reads it then.
"""

from __future__ import annotations

from typing import Any, Sequence

# They read a variable when they run.
_READ_NOW = frozenset(["ReadVariableOp", "ResourceGather", "ResourceGatherNd"])
# They give a reference variable's memory on: whatever takes theirs reads the variable.
_SHARE_MEMORY = frozenset(
    ["Identity", "StopGradient", "PreventGradient", "Snapshot", "Reshape", "ExpandDims", "Squeeze"]
    + ["Slice", "StridedSlice", "Split", "SplitV", "Unpack", "Pack", "Enter", "Switch", "Merge"]
    + ["Bitcast", "EnsureShape", "CheckNumerics", "Select", "SelectV2", "AddN", "Tile", "Transpose"]
)


def find(operations: Sequence[Any]) -> list[Any]:
    """Returns the operations that read variables when they run."""
    shared: set[Any] = set()
    found = []
    for operation in operations:
        takes = any(tensor.op in shared for tensor in operation.inputs)
        gives = any(tensor.dtype != tensor.dtype.base_dtype for tensor in operation.outputs)
        if gives or (takes and operation.type in _SHARE_MEMORY):
            shared.add(operation)
        if takes or operation.type in _READ_NOW:
            found.append(operation)
    return found
