"""Tells which operations make or change state that outlives a step, or draw random numbers.

State is what a handle names, a tensor of type `resource` or a reference: variables, tables, queues,
iterators. What lives within a step alone, as the arrays and stacks of loops do, is no state here.
"""

import re

import tensorflow.compat.v1 as tf

from replicate.compat import op_types

# Operations through which a handle passes.
_PASSES = frozenset(
    ["Enter", "RefEnter", "Exit", "RefExit", "Switch", "RefSwitch", "Merge", "RefMerge"]
    + ["NextIteration", "RefNextIteration", "Identity", "RefIdentity", "IdentityN"]
)
# Operations that change a variable; those of references give that back. `ScatterNd` takes values.
_ASSIGNS = re.compile(
    "(Resource)?(Assign|Scatter(?!Nd$|NdNonAliasing)|Apply|SparseApply|StridedSliceAssign)"
)
# Operations that write summaries, which are tower 0's.
_SUMMARIES = re.compile("Write.*Summary|.*SummaryWriter|ImportEvent")
# They name what lives within a step.
_OF_STEP = frozenset(["Stack", "TemporaryVariable"])


def source(handle):
    """Returns the operation that made a handle, before it was passed on or assigned."""
    op = handle.op
    while op.inputs and (op.type in _PASSES or _ASSIGNS.match(op.type)):
        handle = op.inputs[handle.value_index if op.type == "IdentityN" else 0]
        op = handle.op
    return op


def makes_state(op):
    """Whether an operation gives a handle to state without taking one."""
    if op.inputs or not op.outputs or op.type in _OF_STEP:
        return False
    dtype = op.outputs[0].dtype
    return dtype == tf.resource or dtype != dtype.base_dtype


def assigns(op):
    """Whether an operation changes a variable, and nothing else."""
    return _ASSIGNS.match(op.type) is not None


def writes_summaries(op):
    """Whether an operation writes summaries."""
    return _SUMMARIES.match(op.type) is not None


def draws(op):
    """Whether an operation draws random numbers, or calls functions that may."""
    return op_types.is_random(op) or (op_types.calls_functions(op) and op_types.is_stateful(op))
