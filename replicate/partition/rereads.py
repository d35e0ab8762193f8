"""Lets towers read a reference variable again after a step has updated it.

Such a read returns the variable's memory, so on one device an operation that waits for an update
sees the new value. A tower on another device gets a copy, which is sent when the read runs, at the
beginning of the step. So operations that follow an update take a read of their own, behind it.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.graphs import state
from replicate.partition import references
from replicate.partition.origins import Origins

Writes = Dict[Any, Dict[int, List[Any]]]
"""By operation and index of an input: the updates of the variable whose memory the input is."""

_SCOPE = "replicate/rereads/"


def find(operations: Sequence[Any], copied: Sequence[Any], origins: Origins) -> Writes:
    """Returns the inputs of operations in towers that were updated before.

    Args:
        operations: The operations of the graph.
        copied: Those that towers run.
        origins: The `Origins`.
    """
    written = {
        state.source(one.inputs[0]): one
        for one in operations
        if state.assigns(one) and references.is_reference(one.inputs[0])
    }
    found: Writes = {}
    for operation in copied if written else ():
        if graph_lib.is_in_control_flow(operation):
            continue
        writes = [one for one in origins.actors(operation) if state.assigns(one)]
        for index, tensor in enumerate(operation.inputs if writes else ()):
            variable = state.source(tensor)
            own = [one for one in writes if state.source(one.inputs[0]) is variable]
            if own and variable in written and references.has_memory(tensor):
                found.setdefault(operation, {})[index] = own
    return found


def reader(writes: Writes) -> Callable[[Any, int, Any], Any]:
    """Returns a function of an operation, the index of an input and the input that is there.

    It returns the tensor to take: a read behind the updates, or the input itself.
    """
    made: dict[Any, Any] = {}

    def read(operation: Any, index: int, tensor: Any) -> Any:
        before = writes.get(operation, {}).get(index)
        if before is None:
            return tensor
        key = graph_lib.reference(tensor), tuple(before)
        if key not in made:
            scope, device = tf.name_scope(_SCOPE), tf.device(tensor.device)
            alone = graph_lib.outside_of_scopes(tensor.graph)
            with alone, scope, device, tf.control_dependencies(before):
                made[key] = tf.identity(tensor)
        return made[key]

    return read
