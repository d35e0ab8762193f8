"""Finds operations that are needed by initializers which depend on the batch or other variables.

When such an initializer runs, other variables may have no value yet. So the tensors that it needs
are not sent in a pack with others.
"""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow.compat.v1 as tf

from replicate.graphs import ancestors
from replicate.layouts import Layouts
from replicate.partition.effects import HOLDERS


def needed(operations: Sequence[Any], layouts: Layouts) -> dict[Any, int]:
    """Returns, by operation, a bit for each such initializer that needs it.

    Args:
        operations: The operations of the graph.
        layouts: Their `Layouts`.
    """
    there = set(operations)
    found: dict[Any, int] = {}
    bit = 1
    for variable in [*tf.global_variables(), *tf.local_variables()]:
        before = ancestors(getattr(variable.initializer, "inputs", ())[1:], waits=False)
        # It needs another variable, or an operation outside of the model, such as the input's.
        others = (one for one in before if one.type in HOLDERS or one not in there)
        if any(others) or any(one in layouts.strategies for one in before):
            found.update((one, found.get(one, 0) | bit) for one in before)
            bit <<= 1
    return found
