"""TensorArrays, stacks and lists, in which loops keep what they make.

In towers each tower has its own. All of an array's elements have one layout; all that uses it is in
towers, or nothing.
"""

from __future__ import annotations

from typing import Any, Iterator, Sequence

from replicate.layouts import lists
from replicate.layouts.kinds import PASS_ON
from replicate.layouts.layout import PER_TOWER, WHOLE, Demand, Layout, Partial, Shard, Strategy

_MAKE = frozenset(["TensorArrayV3", "StackV2"])
# By type: which input is written, and how many of its axes come before those of an element.
_WRITTEN = {
    "StackPushV2": (1, 0),
    "TensorArrayScatterV3": (2, 1),
    "TensorArrayWriteV3": (2, 0),
}
_PUT = {**_WRITTEN, "TensorArraySplitV3": (1, 0)}  # Elements are parts of what is split.
# The layouts of what each operation on an array gives.
_OUTPUTS: dict[str, lists.Outputs] = {
    "StackPopV2": lists.gives_element,
    "StackPushV2": lists.gives_element,
    "TensorArrayCloseV3": lambda arrays, maker: (),
    "TensorArrayConcatV3": lambda arrays, maker: (arrays.element(maker), WHOLE),
    "TensorArrayGatherV3": lists.gives_stack,
    "TensorArrayGradV3": lambda arrays, maker: (PER_TOWER, PER_TOWER),
    "TensorArrayReadV3": lists.gives_element,
    "TensorArrayScatterV3": lists.gives_list,
    "TensorArraySizeV3": lambda arrays, maker: (WHOLE,),
    "TensorArraySplitV3": lists.gives_list,
    "TensorArrayWriteV3": lists.gives_list,
}


def array_of(operation: Any) -> Any:
    """Returns what makes the array that an operation makes or uses, None if it does neither.

    An array and the array of its gradients count as one.
    """
    if operation.type in _MAKE:
        return operation
    if lists.is_of_list(operation):
        return lists.maker_of(operation)
    if operation.type not in _OUTPUTS:
        return None
    maker = operation.inputs[0].op
    while maker.type in PASS_ON or maker.type == "TensorArrayGradV3":
        maker = maker.inputs[0].op
    return maker if maker.type in _MAKE else None


def makers_in(operations: Sequence[Any]) -> list[Any]:
    """Returns what makes the arrays that operations of a loop use."""
    return list(dict.fromkeys(m for m in map(array_of, operations) if m is not None))


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
            if operation.type in PASS_ON:
                pending += operation.outputs
            elif operation.type in _WRITTEN:
                index, axes = _WRITTEN[operation.type]
                yield operation.inputs[index], axes


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
            return Strategy((WHOLE,) * len(layouts), (PER_TOWER,) * len(operation.outputs))
        if operation.type == "TensorArraySplitV3" and layouts[1] == Shard(0):
            return None  # Elements take some of the rows each.
        found = self.element(maker)
        if operation.type == "TensorArrayConcatV3" and (
            found == Shard(0) or isinstance(found, Partial)
        ):
            return None
        # The array comes first, and last what puts changes of it in order.
        ends = (0, len(layouts) - 1)
        demands: list[Demand] = [PER_TOWER if i in ends else WHOLE for i in range(len(layouts))]
        if operation.type in _PUT:
            index, axes = _PUT[operation.type]
            put = self.put(maker, layouts[index], axes)
            if put is None:
                return None
            demands[index] = put
        return Strategy(tuple(demands), _OUTPUTS[operation.type](self, maker))

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


__all__ = ["Arrays", "array_of", "makers_in", "written"]
