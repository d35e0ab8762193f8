"""Finds what is put together for those who ask for a tensor by its name.

An operation that towers run has its original left, which computes the whole batch's value from
originals, back to whatever is put together anyway. That would be all of the model for a loss, and
another value than the towers' where each draws or normalises for itself; or where the memory of a
variable is read, which nothing keeps from being written before.
"""

from __future__ import annotations

from typing import Any, Iterator, Sequence

from replicate.compat import graph as graph_lib
from replicate.layouts import PER_TOWER, Layouts, array_of, differs, is_shard
from replicate.partition.needs import Needs
from replicate.partition.origins import Origins

_PASS_ON = frozenset(["Identity", "Merge", "Switch"])


def find(
    operations: Sequence[Any], needs: Needs, layouts: Layouts, origins: Origins
) -> Iterator[Any]:
    """Yields the tensors, which towers have.

    Args:
        operations: The operations, each after all that leads to it.
        needs: The `Needs`.
        layouts: The `Layouts`.
        origins: The `Origins`.
    """
    copied = [operation for operation in operations if operation in needs.copied]
    loops = _loops(copied, origins)
    for operation in operations:
        if operation not in layouts.strategies:
            continue
        around = graph_lib.loops_of(operation)
        if not around:
            yield from _met(operation, needs, layouts, _is_another(operation, origins))
            if loops:
                yield from _behind(operation, needs, layouts, loops)
        # Nothing outside of a loop can ask for what is in it, but for what leads out of it.
        elif operation.type == "Exit" and len(around) == 1 and around[0] in loops:
            yield from _shards(operation, needs, layouts)


def _is_another(operation: Any, origins: Origins) -> bool:
    """Whether an original would give another value than the towers' copies."""
    return differs(operation) or origins.reads(operation)


def _shards(operation: Any, needs: Needs, layouts: Layouts) -> Iterator[Any]:
    if operation in needs.copied:
        yield from (t for t in operation.outputs if is_shard(layouts.layout_of(t)))


def _met(operation: Any, needs: Needs, layouts: Layouts, is_another: bool) -> Iterator[Any]:
    if is_another and operation in needs.copied:
        yield from _shards(operation, needs, layouts)
        return
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
    """Returns the outermost loops in which originals would give other values.

    So does a loop that takes what another one has kept, as that of a gradient does.
    """
    found: set[Any] = set()
    arrays: set[Any] = set()
    before = -1
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


def _behind(operation: Any, needs: Needs, layouts: Layouts, loops: frozenset[Any]) -> Iterator[Any]:
    """Yields what is read of an array that such a loop has written."""
    for tensor in operation.inputs:
        while tensor.op.type in _PASS_ON:
            tensor = tensor.op.inputs[0]
        if tensor.op.type == "Exit" and not is_shard(layouts.layout_of(tensor)):
            around = graph_lib.loops_of(tensor.op)
            if len(around) == 1 and around[0] in loops:
                yield from _shards(operation, needs, layouts)
