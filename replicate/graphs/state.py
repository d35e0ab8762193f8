"""Tells which operations make or change state that outlives a step, or draw random numbers.

A handle, i.e. a tensor of type `resource` or a reference, names state: a variable, table, queue or
iterator. Arrays and stacks of loops live within one step and do not count as state.
"""

from __future__ import annotations

import re
from typing import Any

import tensorflow.compat.v1 as tf

from replicate.compat import op_types

# Operations that pass a handle on.
_PASSES = frozenset(
    ["Enter", "RefEnter", "Exit", "RefExit", "Switch", "RefSwitch", "Merge", "RefMerge"]
    + ["NextIteration", "RefNextIteration", "Identity", "RefIdentity", "IdentityN"]
)
# Operations that change a variable. Those of reference variables return the reference. `ScatterNd`
# scatters values, not into a variable.
_ASSIGNS = re.compile(
    "(Resource)?(Assign|Scatter(?!Nd$|NdNonAliasing)|Apply|SparseApply|StridedSliceAssign)"
)
# Operations that write summaries; they belong to tower 0.
_SUMMARIES = re.compile("Write.*Summary|.*SummaryWriter|ImportEvent")
# Operations whose handles name state that lives within one step.
_OF_STEP = frozenset(["Stack", "TemporaryVariable"])


def source(handle: Any) -> Any:
    """Returns the operation that made a handle, before others passed it on or assigned to it."""
    op = handle.op
    while op.inputs and (op.type in _PASSES or _ASSIGNS.match(op.type)):
        handle = op.inputs[handle.value_index if op.type == "IdentityN" else 0]
        op = handle.op
    return op


def makes_state(op: Any) -> bool:
    """Whether an operation returns a handle to state and takes no inputs."""
    if op.inputs or not op.outputs or op.type in _OF_STEP:
        return False
    dtype = op.outputs[0].dtype
    return dtype == tf.resource or dtype != dtype.base_dtype


def assigns(op: Any) -> bool:
    """Whether an operation changes a variable and has no other effect."""
    return _ASSIGNS.match(op.type) is not None


def writes_summaries(op: Any) -> bool:
    """Whether an operation writes summaries."""
    return _SUMMARIES.match(op.type) is not None


def draws(op: Any) -> bool:
    """Whether an operation draws random numbers, or calls functions that may."""
    return op_types.is_random(op) or (op_types.calls_functions(op) and op_types.is_stateful(op))
