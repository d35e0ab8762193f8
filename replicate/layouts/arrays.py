"""TensorArrays, stacks and lists, in which loops keep what they make.

In towers each tower has its own. All of an array's elements have one layout; all that uses it is in
towers, or nothing.
"""

from __future__ import annotations

from typing import Any, Iterator, Sequence

from replicate.layouts import lists
from replicate.layouts.layout import OWN, WHOLE, Layout, Partial, Shard, Strategy

_MAKE = frozenset(["TensorArrayV3", "StackV2"])
_PASS_ON = frozenset(["Enter", "Exit", "Identity", "Merge", "NextIteration", "Switch"])
_USE = frozenset(
    ["TensorArrayConcatV3", "TensorArrayGatherV3", "TensorArrayReadV3", "TensorArraySizeV3"]
    + ["TensorArrayScatterV3", "TensorArraySplitV3", "TensorArrayWriteV3", "TensorArrayCloseV3"]
    + ["TensorArrayGradV3", "StackPushV2", "StackPopV2"]
)


def array_of(operation: Any) -> Any:
    """Returns what makes the array that an operation makes or uses, None if it does neither.

    An array and the array of its gradients count as one.
    """
    if operation.type in _MAKE:
        return operation
    if lists.is_of_list(operation):
        return lists.maker_of(operation)
    if operation.type not in _USE:
        return None
    maker = operation.inputs[0].op
    while maker.type in _PASS_ON or maker.type == "TensorArrayGradV3":
        maker = maker.inputs[0].op
    return maker if maker.type in _MAKE else None


def written(operation: Any) -> Iterator[tuple[Any, int]]:
    """Yields what is written to the array that an operation uses, its gradients' aside.

    Each is a tensor, and how many of its axes come before those of an element.
    """
    maker = array_of(operation)
    if maker is None:
        return
    if lists.is_of_list(operation):
        yield from lists.written(operation)
        return
    pending, seen = [maker.outputs[0]], set()
    while pending:
        for operation in pending.pop().consumers():
            if operation in seen:
                continue
            seen.add(operation)
            if operation.type in _PASS_ON:
                pending += operation.outputs
            elif operation.type == "StackPushV2":
                yield operation.inputs[1], 0
            elif operation.type == "TensorArrayWriteV3":
                yield operation.inputs[2], 0
            elif operation.type == "TensorArrayScatterV3":
                yield operation.inputs[2], 1


class Arrays(lists.Elements):
    """Remembers arrays from one pass over a graph to the next.

    Attributes:
        changed: Of arrays that are otherwise than the pass has taken them to be: their makers.
    """

    def __init__(self) -> None:
        self.changed: set[Any] = set()
        self._elements: dict[Any, Layout] = {}
        self._in_towers: set[Any] = set()
        self._refused: set[Any] = set()

    def are_in_towers(self, makers: Sequence[Any]) -> bool:
        """Whether towers have these arrays; if not, they will in the next pass, if they may."""
        if not self._refused.isdisjoint(makers):
            return False
        self.changed.update(maker for maker in makers if maker not in self._in_towers)
        self._in_towers.update(makers)
        return not self.changed

    def has(self, maker: Any) -> bool:
        """Whether towers have an array."""
        return maker in self._in_towers

    def refuse(self, makers: Sequence[Any]) -> None:
        """Takes note that these arrays are whole."""
        self.changed.update(self._in_towers.intersection(makers))
        self._in_towers.difference_update(makers)
        self._refused.update(makers)

    def strategy(self, operation: Any, layouts: Sequence[Layout]) -> Strategy | None:
        """Returns how towers run an operation on an array of theirs, None if they cannot."""
        maker = array_of(operation)
        if lists.is_of_list(operation):
            return lists.strategy(self, maker, operation, layouts)
        if operation.type in _MAKE:
            return Strategy((WHOLE,) * len(layouts), (OWN,) * len(operation.outputs))
        return _STRATEGIES[operation.type](self, maker, layouts)

    def element(self, maker: Any, axes: int = 0) -> Layout:
        """Returns the layout of what is read of an array, with `axes` before an element's."""
        found = self._elements.get(maker, WHOLE)
        return Shard(found.axis + axes) if isinstance(found, Shard) else found

    def put(self, maker: Any, layout: Layout, axes: int = 0) -> Layout | None:
        """Returns the layout in which what has another one is written, None if it cannot be."""
        if isinstance(layout, Shard):
            if layout.axis < axes:
                return None  # Rows are elements.
            layout = Shard(layout.axis - axes)
        if maker not in self._elements and lists.is_of_list(maker):
            self.changed.update([maker] if layout != WHOLE else ())  # It is made for such elements.
        before = self._elements.setdefault(maker, layout)
        if before == WHOLE != layout:
            self._elements[maker] = layout
            self.changed.add(maker)
        elif before != layout != WHOLE:
            return None
        return self.element(maker, axes)


def _gradient(arrays: Arrays, maker: Any, layouts: Sequence[Layout]) -> Strategy:
    return Strategy((OWN, OWN), (OWN, OWN))


def _push(arrays: Arrays, maker: Any, layouts: Sequence[Layout]) -> Strategy | None:
    put = arrays.put(maker, layouts[1])
    return None if put is None else Strategy((OWN, put), (put,))


def _pop(arrays: Arrays, maker: Any, layouts: Sequence[Layout]) -> Strategy:
    return Strategy((OWN,), (arrays.element(maker),))


def _write(arrays: Arrays, maker: Any, layouts: Sequence[Layout]) -> Strategy | None:
    put = arrays.put(maker, layouts[2])
    return None if put is None else Strategy((OWN, WHOLE, put, OWN), (OWN,))


def _read(arrays: Arrays, maker: Any, layouts: Sequence[Layout]) -> Strategy:
    return Strategy((OWN, WHOLE, OWN), (arrays.element(maker),))


def _scatter(arrays: Arrays, maker: Any, layouts: Sequence[Layout]) -> Strategy | None:
    put = arrays.put(maker, layouts[2], axes=1)
    return None if put is None else Strategy((OWN, WHOLE, put, OWN), (OWN,))


def _gather(arrays: Arrays, maker: Any, layouts: Sequence[Layout]) -> Strategy:
    return Strategy((OWN, WHOLE, OWN), (arrays.element(maker, axes=1),))


def _split(arrays: Arrays, maker: Any, layouts: Sequence[Layout]) -> Strategy | None:
    if layouts[1] == Shard(0):
        return None  # Elements take some of the rows each.
    put = arrays.put(maker, layouts[1])
    return None if put is None else Strategy((OWN, put, WHOLE, OWN), (OWN,))


def _concat(arrays: Arrays, maker: Any, layouts: Sequence[Layout]) -> Strategy | None:
    found = arrays.element(maker)
    if found == Shard(0) or isinstance(found, Partial):
        return None
    return Strategy((OWN, OWN), (found, WHOLE))


def _size(arrays: Arrays, maker: Any, layouts: Sequence[Layout]) -> Strategy:
    return Strategy((OWN, OWN), (WHOLE,))


def _close(arrays: Arrays, maker: Any, layouts: Sequence[Layout]) -> Strategy:
    return Strategy((OWN,), ())


_STRATEGIES = {
    "StackPopV2": _pop,
    "StackPushV2": _push,
    "TensorArrayCloseV3": _close,
    "TensorArrayConcatV3": _concat,
    "TensorArrayGatherV3": _gather,
    "TensorArrayGradV3": _gradient,
    "TensorArrayReadV3": _read,
    "TensorArrayScatterV3": _scatter,
    "TensorArraySizeV3": _size,
    "TensorArraySplitV3": _split,
    "TensorArrayWriteV3": _write,
}

__all__ = ["Arrays", "array_of", "written"]
