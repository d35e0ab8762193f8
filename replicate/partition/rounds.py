"""Reduces values over towers in each round of a loop that they run together.

Such a loop has one frame for all towers, in which one operation decides whether there is another
round.
"""

from __future__ import annotations

from typing import Any, Callable, Container, Iterable, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat import partitioning
from replicate.layouts import Layouts, meets_in_round

_REDUCE: dict[str, Callable[..., Any]] = {
    "all": tf.raw_ops.LogicalAnd,
    "any": tf.raw_ops.LogicalOr,
    "max": tf.raw_ops.Maximum,
    "min": tf.raw_ops.Minimum,
}


def meets(tensor: Any, operation: Any, layouts: Layouts) -> bool:
    """Whether a tensor is reduced in each round for an operation that takes it."""
    if operation.type in graph_lib.ENTER or not graph_lib.in_while_loop(operation):
        return False
    layout, key = layouts.layout_of(tensor), graph_lib.reference(tensor)
    demands = zip(operation.inputs, layouts.strategies[operation].inputs)
    return any(
        meets_in_round(layout, demand) and graph_lib.reference(given) == key
        for given, demand in demands
    )


def shared_frames(copied: Iterable[Any], layouts: Layouts) -> frozenset[str]:
    """Returns the names of the frames of loops that towers run together.

    Args:
        copied: The operations that towers run.
        layouts: The `Layouts`.
    """
    by_loop: dict[str, set[str]] = {}
    shared: set[str] = set()
    for operation in copied:
        frames = [frame for frame, _ in graph_lib.loops_of(operation)]
        if frames:
            by_loop.setdefault(frames[0], set()).update(frames)
            if any(meets(tensor, operation, layouts) for tensor in operation.inputs):
                shared.add(frames[0])
    # Loops in such a loop share their frames as well.
    return frozenset(frame for outermost in shared for frame in by_loop[outermost])


def insert_reductions(
    copied: Sequence[Any],
    layouts: Layouts,
    together: Container[str],
    copies_of: Callable[[Any], Sequence[Any]],
    places: Sequence[str],
) -> None:
    """Lets the towers' copies take values that are reduced in each round.

    Args:
        copied: The operations that towers run.
        layouts: The `Layouts`.
        together: The frames of loops that towers run together; see `shared_frames`.
        copies_of: Function of an operation that returns the towers' copies.
        places: Device strings of the towers.
    """
    made: dict[Any, Any] = {}
    for operation in copied:
        if operation.type in graph_lib.ENTER or not graph_lib.in_while_loop(operation):
            continue
        demands = layouts.strategies[operation].inputs
        for index, (tensor, demand) in enumerate(zip(operation.inputs, demands)):
            layout, key = layouts.layout_of(tensor), graph_lib.reference(tensor)
            if meets_in_round(layout, demand):
                by_tower = [copy.outputs[tensor.value_index] for copy in copies_of(tensor.op)]
                if key not in made:
                    made[key] = _reduced(by_tower, layout, places[0])
                _take(copies_of(operation), index, made[key])
            elif tensor.op.type == "LoopCond" and _frame(operation) in together:
                # All towers continue, or end, by the condition of the first.
                _take(copies_of(operation), index, copies_of(tensor.op)[0].outputs[0])


def _frame(operation: Any) -> str:
    return str(graph_lib.loops_of(operation)[0][0])


def _take(copies: Sequence[Any], index: int, tensor: Any) -> None:
    for copy in copies:
        partitioning.take(copy, index, tensor)


def _reduced(by_tower: Sequence[Any], layout: Any, place: str) -> Any:
    """Returns the reduction of partials, without constants, which would not be in the frame."""
    total = by_tower[0]
    with tf.device(place), tf.control_dependencies(None):
        for other in by_tower[1:]:
            total = _REDUCE[layout.op](x=total, y=other)
    return total
