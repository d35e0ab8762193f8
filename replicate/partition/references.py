"""Orders reads and writes of reference variables, the default of TensorFlow 1.15.

A read of such a variable returns its memory, and sees later writes. On one device, a step hardly
ever reads too late. But towers exchange values before they are done, so an update could overtake a
read in another tower, or in the loss of all. Here, updates wait for these reads. So each step reads
the values from before it, as with resource variables.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat import op_types
from replicate.graphs import ancestors, followers, state
from replicate.partition.branch_bits import Branches
from replicate.partition.order import in_order

_SCOPE = "replicate/references/"
# Operations that hold the memory of a reference.
_HOLDERS = frozenset(["VariableV2", "Variable", "TemporaryVariable"])
# Operations that may pass the memory of a reference on, also into loops and branches.
_PASSES = op_types.SAME_MEMORY | graph_lib.ENTER | graph_lib.EXIT
_PASSES |= {"Merge", "NextIteration", "RefMerge", "RefNextIteration", "RefSwitch", "Switch"}


def read_before_written(fetches: Sequence[Any]) -> None:
    """Lets writes to references in a step wait for reads that do not themselves follow a write.

    Args:
        fetches: Operations and tensors that a step in towers fetches.
    """
    if not any(op.type in _HOLDERS for op in tf.get_default_graph().get_operations()):
        return
    known: dict[Any, list[Any]] = {}
    running = ancestors(fetches, known=known)
    writes = [op for op in running if state.assigns(op) and is_reference(op.inputs[0])]
    begun = sorted({_begins(op) for op in writes} - {None}, key=graph_lib.id_of)
    later = followers(begun, known)  # Reads after a write, which must not come before it.
    reads = [
        op
        for op in (running - later if begun else ())
        if op.type not in _PASSES and any(map(has_memory, op.inputs))
    ]
    by_device: dict[str, list[Any]] = {}
    for op in _that_run(reads, known) - later:
        by_device.setdefault(op.device, []).append(op)
    if not by_device:
        return
    with graph_lib.outside_of_scopes(begun[0].graph), tf.name_scope(_SCOPE):
        by_now = [_wait_for(ops, device) for device, ops in sorted(by_device.items())]
        read = _wait_for(by_now, begun[0].device)
    for op in begun:
        graph_lib.add_control_inputs(op, [read])


def _that_run(reads: Sequence[Any], known: Mapping[Any, Sequence[Any]]) -> set[Any]:
    """Returns operations to wait for: reads, and those that follow where a read may not run.

    Nothing outside can wait for an operation in a loop, and what waits for one in a branch does not
    run if the other branch is taken. The results of the loop or the condition always do.
    """
    operations = in_order(list(known))
    branches = Branches(operations)
    if not branches.are_there and not any(op.type in graph_lib.ENTER for op in operations):
        return set(reads)
    within: dict[Any, int] = {}
    depth: dict[Any, int] = {}  # The number of loops around. Contexts do not know all of gradients.
    for op in operations:
        within[op] = branches.within(op, op.control_inputs, lambda before: within.get(before, 0))
        depth[op] = max((depth.get(before, 0) for before in known[op]), default=0)
        depth[op] += (op.type in graph_lib.ENTER) - (op.type in graph_lib.EXIT)
    run = {op for op in operations if not within[op] and not depth[op]}
    others = followers(set(reads) - run, {op: known[op] for op in known if op not in run})
    return run.intersection(reads) | {op for op in run if not others.isdisjoint(known[op])}


def _begins(write: Any) -> Any:
    """Returns the operation that has to wait: a write, or where its branch or loop begins."""
    if graph_lib.is_outside(write):
        return write
    handle, entered = write.inputs[0], None
    while handle.op.inputs:
        entered = handle.op if handle.op.type in graph_lib.ENTER else entered
        handle = handle.op.inputs[0]
    if entered is not None and graph_lib.is_outside(entered):
        return entered
    choices = [predicate for predicate, _, _ in graph_lib.branches_around(write)]
    return choices[-1].op if choices else None


def _wait_for(ops: Iterable[Any], device: str) -> Any:
    with tf.device(device), tf.control_dependencies(sorted(ops, key=graph_lib.id_of)):
        return tf.no_op("read")


def is_reference(tensor: Any) -> bool:
    """Whether a tensor is a reference, which operations may write to."""
    return bool(tensor.dtype != tensor.dtype.base_dtype)


def has_memory(tensor: Any) -> bool:
    """Whether a tensor is the memory of a reference variable."""
    pending, seen = [tensor], set()
    while pending:
        tensor = pending.pop()
        if is_reference(tensor) and state.makes_state(state.source(tensor)):
            return True
        if tensor.op.type in _PASSES and tensor.op not in seen:
            seen.add(tensor.op)
            pending += tensor.op.inputs
    return False
