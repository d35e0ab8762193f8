"""Finds what variables need that begin with what the batch, or other variables, give.

When they are initialised, others may have no value yet: nothing else crosses devices in one pack
with what they need.
"""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow.compat.v1 as tf

from replicate.layouts import Layouts
from replicate.partition.effects import HOLDERS


def needed(operations: Sequence[Any], layouts: Layouts) -> dict[Any, int]:
    """Returns, by operation, a bit for each initializer that needs it and more than constants.

    Args:
        operations: The operations of the graph.
        layouts: Their `Layouts`.
    """
    there = set(operations)
    found: dict[Any, int] = {}
    bit = 1
    for variable in [*tf.global_variables(), *tf.local_variables()]:
        before = _ancestors(getattr(variable.initializer, "inputs", ())[1:])
        others = (one for one in before if one.type in HOLDERS or one not in there)
        if any(others) or any(one in layouts.strategies for one in before):
            found.update((one, found.get(one, 0) | bit) for one in before)
            bit <<= 1
    return found


def _ancestors(tensors: Sequence[Any]) -> set[Any]:
    seen: set[Any] = set()
    pending = [tensor.op for tensor in tensors]
    while pending:
        operation = pending.pop()
        if operation not in seen:
            seen.add(operation)
            pending += [tensor.op for tensor in operation.inputs]
    return seen
