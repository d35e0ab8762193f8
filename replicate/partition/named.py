"""Finds further tensors to join, for hooks and other code that fetches tensors by name.

The original of an operation in towers stays in the graph. If it is fetched, it computes the whole
batch's value from other originals, back to tensors that are joined anyway. That has three
drawbacks. For a loss, it would compute all of the model again. If towers draw random numbers or
normalize their rows, it would give another value than theirs. And a reference variable may have
been written before it is read.
"""

from __future__ import annotations

from typing import Any, Iterator, Sequence

from replicate.compat import graph as graph_lib
from replicate.layouts import PER_TOWER, Layouts, Partial, array_of, differs, is_shard
from replicate.partition.needs import Needs
from replicate.partition.origins import Origins

_PASS_ON = frozenset(["Identity", "Merge", "Switch"])


def find(
    operations: Sequence[Any], needs: Needs, layouts: Layouts, origins: Origins
) -> Iterator[Any]:
    """Yields tensors in towers that are to be joined, too.

    Args:
        operations: The operations, in topological order.
        needs: The `Needs`.
        layouts: The `Layouts`.
        origins: The `Origins`.
    """
    copied = [operation for operation in operations if operation in needs.copied]
    # In these loops, all tensors that leave are joined: originals would give other values.
    loops = _loops(copied, origins)
    for operation in operations:
        if operation not in layouts.strategies:
            continue
        around = graph_lib.loops_of(operation)
        if not around:
            yield from _met(operation, needs, layouts, _is_another(operation, origins))
            if loops:
                yield from _behind(operation, layouts, loops)
        # Tensors in a loop cannot be fetched, only those that leave it.
        elif operation.type == "Exit" and len(around) == 1 and around[0] in loops:
            # Also those that nothing takes: the original loop would run beside the towers'.
            yield from _sharded(operation, layouts)


def _is_another(operation: Any, origins: Origins) -> bool:
    """Whether an original might give another value than the towers' copies."""
    return differs(operation) or origins.reads(operation)


def _sharded(operation: Any, layouts: Layouts) -> Iterator[Any]:
    return (tensor for tensor in operation.outputs if is_shard(layouts.layout_of(tensor)))


def _met(operation: Any, needs: Needs, layouts: Layouts, is_another: bool) -> Iterator[Any]:
    if is_another and operation in needs.copied:
        for tensor in operation.outputs:
            layout = layouts.layout_of(tensor)
            if is_shard(layout) or isinstance(layout, Partial):
                yield tensor
        return
    # Losses and metrics that are fetched are mostly not used any further, or scalars.
    is_last = operation not in needs.copied and not any(t.consumers() for t in operation.outputs)
    is_number = any(
        graph_lib.reference(tensor) in needs.met and tensor.shape.rank == 0
        for tensor in operation.outputs
    )
    if is_last or is_number:
        yield from (
            t
            for t in operation.inputs
            if t.op in needs.copied and layouts.layout_of(t) != PER_TOWER
        )


def _loops(copied: Sequence[Any], origins: Origins) -> frozenset[Any]:
    """Returns the outermost loops in which originals might give other values.

    A loop that reads from arrays which such a loop has written is one, too: that of a gradient.
    """
    found: set[Any] = set()
    arrays: set[Any] = set()
    before = -1
    # Loops and their arrays depend on each other, so this repeats until nothing is added.
    while len(found) + len(arrays) > before:
        before = len(found) + len(arrays)
        for operation in copied:
            around = graph_lib.loops_of(operation)
            if not around:
                continue
            maker = array_of(operation)
            if _is_another(operation, origins) or maker in arrays:
                found.add(around[0])
            if maker is not None and around[0] in found:
                arrays.add(maker)
    return frozenset(found)


def _behind(operation: Any, layouts: Layouts, loops: frozenset[Any]) -> Iterator[Any]:
    """Yields tensors that an operation reads from an array which such a loop has written."""
    for tensor in operation.inputs:
        while tensor.op.type in _PASS_ON:
            tensor = tensor.op.inputs[0]
        if tensor.op.type == "Exit" and not is_shard(layouts.layout_of(tensor)):
            around = graph_lib.loops_of(tensor.op)
            if len(around) == 1 and around[0] in loops:
                yield from _sharded(operation, layouts)
