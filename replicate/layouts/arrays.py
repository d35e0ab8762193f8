"""TensorArrays, stacks and lists, in which loops store their results.

An array that is in towers exists once per tower. All of its elements have one layout. Either all
operations that use it run in towers, or none does.
"""

from __future__ import annotations

from typing import Any, Iterator, Sequence

from replicate.layouts import lists
from replicate.layouts.kinds import PASS_ON
from replicate.layouts.layout import PER_TOWER, WHOLE, Demand, Layout, Partial, Shard, Strategy

_MAKE = frozenset(["TensorArrayV3", "StackV2"])
# By type: the input that is written, and how many of its axes come before those of an element.
_WRITTEN = {
    "StackPushV2": (1, 0),
    "TensorArrayScatterV3": (2, 1),
    "TensorArrayWriteV3": (2, 0),
}
_PUT = {**_WRITTEN, "TensorArraySplitV3": (1, 0)}  # It splits its input into the elements.
# By type of an operation on an array: the layouts of its outputs.
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


# Operations that make or use an array or a list, or may do so.
_USERS = frozenset([*_MAKE, *_OUTPUTS, *lists.TYPES])


def array_of(operation: Any) -> Any:
    """Returns the operation that makes the array which an operation makes or uses, else None.

    An array and the array of its gradients count as one.
    """
    kind = operation.type
    if kind not in _USERS:
        return None  # Most operations.
    if kind in _MAKE:
        return operation
    if lists.is_of_list(operation):
        return lists.maker_of(operation)
    return _maker_of(operation.inputs[0]) if kind in _OUTPUTS else None


def _maker_of(handle: Any) -> Any:
    """Returns the operation that makes the array of a handle, None if that is not known."""
    maker = handle.op
    # The handle may have passed into loops, and a gradient's array is made from the forward one.
    while maker.type in PASS_ON or maker.type == "TensorArrayGradV3":
        maker = maker.inputs[0].op
    if maker.type == "StackPopV2":  # The gradient of a loop takes the arrays of all its rounds.
        stack = _maker_of(maker.inputs[0])
        pushed = [] if stack is None else [tensor for tensor, _ in _written_to(stack)]
        return _maker_of(pushed[0]) if len(pushed) == 1 else None
    return maker if maker.type in _MAKE else None


def makers_in(operations: Sequence[Any]) -> list[Any]:
    """Returns the operations that make the arrays which operations of a loop use."""
    return list(dict.fromkeys(m for m in map(array_of, operations) if m is not None))


def written(operation: Any) -> Iterator[tuple[Any, int]]:
    """Yields the tensors that are written to the array that an operation uses.

    Each comes with how many of its axes come before those of an element. Writes to the array of
    the gradients are not included.
    """
    maker = array_of(operation)
    if maker is None:
        return
    if lists.is_of_list(operation):
        yield from lists.written(operation)
    else:
        yield from _written_to(maker)


def _written_to(maker: Any) -> Iterator[tuple[Any, int]]:
    """Yields the same of the array that an operation makes."""
    pending, seen = [maker.outputs[0]], set()
    while pending:
        handle = pending.pop()
        for operation in handle.consumers():
            if operation in seen:
                continue
            seen.add(operation)
            if operation.type in PASS_ON:
                pending += operation.outputs
            elif operation.type in _WRITTEN and operation.inputs[0] is handle:
                index, axes = _WRITTEN[operation.type]
                yield operation.inputs[index], axes


class Arrays(lists.Elements):
    """Remembers arrays from one pass over a graph to the next.

    Attributes:
        changed: The makers of arrays for which the pass has assumed something wrong.
    """

    def __init__(self) -> None:
        self.changed: set[Any] = set()
        self._elements: dict[Any, Layout] = {}
        self._in_towers: set[Any] = set()
        self._refused: set[Any] = set()

    def put_in_towers(self, makers: Sequence[Any]) -> bool:
        """Puts these arrays in towers from the next pass on, unless they are known to be whole.

        Returns:
            Whether they are in towers now, so that this pass may go on.
        """
        if not self._refused.isdisjoint(makers):
            return False
        self.changed.update(maker for maker in makers if maker not in self._in_towers)
        self._in_towers.update(makers)
        return not self.changed

    def has(self, maker: Any) -> bool:
        """Whether an array is in towers."""
        return maker in self._in_towers

    def is_refused(self, maker: Any) -> bool:
        """Whether an array is whole because an operation with rows that uses it runs once."""
        return maker in self._refused

    def refuse(self, makers: Sequence[Any]) -> None:
        """Records that these arrays are whole."""
        self.changed.update(self._in_towers.intersection(makers))
        self._in_towers.difference_update(makers)
        self._refused.update(makers)

    def strategy(self, operation: Any, layouts: Sequence[Layout]) -> Strategy | None:
        """Returns how towers run an operation on an array in towers, None if they cannot."""
        maker = array_of(operation)
        if lists.is_of_list(operation):
            return lists.strategy(self, maker, operation, layouts)
        if operation.type in _MAKE:
            return Strategy((WHOLE,) * len(layouts), (PER_TOWER,) * len(operation.outputs))
        if operation.type == "TensorArraySplitV3" and layouts[1] == Shard(0):
            return None  # Each element would take some of the rows.
        found = self.element(maker)
        if operation.type == "TensorArrayConcatV3" and (
            found == Shard(0) or isinstance(found, Partial)
        ):
            # Rows of all elements, joined on their axis, come in another order than one device's.
            return None
        # The first input is the array, the last one the flow that orders changes of it. In towers,
        # a flow begins as the same number in all of them.
        demands: list[Demand] = [PER_TOWER, *[WHOLE] * (len(layouts) - 1)]
        demands[-1] = PER_TOWER if len(layouts) == 1 or layouts[-1] != WHOLE else WHOLE
        if operation.type in _PUT:
            index, axes = _PUT[operation.type]
            put = self.put(maker, layouts[index], axes)
            if put is None:
                return None
            demands[index] = put
        return Strategy(tuple(demands), _OUTPUTS[operation.type](self, maker))

    def element(self, maker: Any, axes: int = 0) -> Layout:
        """Returns the layout of a tensor read from an array, with `axes` before an element's."""
        found = self._elements.get(maker, WHOLE)
        return Shard(found.axis + axes) if isinstance(found, Shard) else found

    def put(self, maker: Any, layout: Layout, axes: int = 0) -> Layout | None:
        """Returns the layout in which a tensor of `layout` is written, None if it cannot be.

        The first layout other than `Whole` becomes that of all elements. A value of another layout
        cannot be written then, unless it is whole: it is split before the write.
        """
        if isinstance(layout, Shard):
            if layout.axis < axes:
                return None  # Each element would be a row, and towers have different ones.
            layout = Shard(layout.axis - axes)
        if maker not in self._elements and lists.is_of_list(maker):
            # A list is made with the shape of its elements, which is a tower's share if these are
            # shards. So its maker, an earlier operation, has to be inferred again.
            self.changed.update([maker] if layout != WHOLE else ())
        before = self._elements.setdefault(maker, layout)
        if before == WHOLE and layout != WHOLE:
            # Earlier reads have assumed whole elements.
            self._elements[maker] = layout
            self.changed.add(maker)
        elif layout not in (before, WHOLE):
            return None
        return self.element(maker, axes)


__all__ = ["Arrays", "array_of", "makers_in", "written"]
