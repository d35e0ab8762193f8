"""What operations do to the state that outlives a step: read it, change it, or pass it on.

State is what a handle names, a tensor of type `resource` or a reference: variables, tables, queues,
iterators. What lives within a step alone, as the arrays and stacks of loops do, is no state here.
"""

import re
from typing import Dict, NamedTuple

import tensorflow.compat.v1 as tf

from replicate.compat import op_types

# Operations that take a handle and leave what it names as it is.
_READS = re.compile(
    "Identity|IdentityN|Snapshot|Shape|Size|Rank|Gather(V2|Nd)?|StridedSlice"
    "|IsVariableInitialized|VarIsInitializedOp|VariableShape|ReadVariableOp|ResourceGather(Nd)?"
    "|SaveV2|LookupTable(Find|Size|Export)(V2)?|Queue(Size|IsClosed)(V2)?"
    "|(BoostedTrees|DecisionTree|TensorForest).*Predict"
)
# Operations through which a handle passes.
_PASSES = frozenset(
    ["Enter", "RefEnter", "Exit", "RefExit", "Switch", "RefSwitch", "Merge", "RefMerge"]
    + ["NextIteration", "RefNextIteration", "Identity", "RefIdentity", "IdentityN"]
)
_OF_STEP = re.compile("TensorArray|Stack|TemporaryVariable|DestroyTemporaryVariable")
# Operations that change a variable; those of references give that back. `ScatterNd` takes values.
_ASSIGNS = re.compile(
    "(Resource)?(Assign|Scatter(?!Nd$|NdNonAliasing)|Apply|SparseApply|StridedSliceAssign)"
)
# Operations that write summaries, which are tower 0's.
_SUMMARIES = re.compile("Write.*Summary|.*SummaryWriter|ImportEvent")


class _Kind(NamedTuple):
    is_stateful: bool
    is_random: bool
    takes_references: bool  # Any other takes the value of what is a reference.
    is_of_step: bool


_kinds: Dict[str, _Kind] = {}  # By type; there are far more operations than types.


def kind(op):
    """Returns what is true of all operations of a type: stateful, random, and so on."""
    found = _kinds.get(op.type)
    if found is None:
        definition, is_of_step = op.op_def, _OF_STEP.match(op.type) is not None
        if definition is None:  # A function of TensorFlow 1, called by its name.
            return _Kind(True, False, False, is_of_step)
        passes = op.type in _PASSES
        reads = _READS.fullmatch(op.type) is not None
        found = _kinds[op.type] = _Kind(
            definition.is_stateful,
            definition.is_stateful and any(attr.name == "seed2" for attr in definition.attr),
            any(arg.is_ref for arg in definition.input_arg) or passes or reads,
            is_of_step,
        )
    return found


def is_handle(tensor):
    """Whether a tensor names state, or something that lives within a step."""
    return tensor.dtype == tf.resource or tensor.dtype != tensor.dtype.base_dtype


def handles(op):
    """Returns the inputs of an operation that it takes for handles."""
    by_reference = kind(op).takes_references
    return [t for t in op.inputs if t.dtype == tf.resource or (by_reference and is_handle(t))]


def source(handle):
    """Returns the operation that made a handle, before it was passed on or assigned."""
    op = handle.op
    while op.inputs and (op.type in _PASSES or _ASSIGNS.match(op.type)):
        handle = op.inputs[handle.value_index if op.type == "IdentityN" else 0]
        op = handle.op
    return op


def is_of_step(op):
    """Whether an operation makes or takes what lives within a step."""
    return kind(op).is_of_step


def makes_state(op):
    """Whether an operation gives a handle to state without taking one."""
    return bool(op.outputs) and is_handle(op.outputs[0]) and not op.inputs and not is_of_step(op)


def assigns(op):
    """Whether an operation changes a variable, and nothing else."""
    return _ASSIGNS.match(op.type) is not None


def writes_summaries(op):
    """Whether an operation writes summaries."""
    return _SUMMARIES.match(op.type) is not None


def draws(op):
    """Whether an operation draws random numbers, or calls functions that may."""
    found = kind(op)
    return found.is_random or (op_types.calls_functions(op) and found.is_stateful)
