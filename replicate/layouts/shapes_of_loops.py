"""Shapes and integers of values that loops and conditions of TensorFlow 1 pass on or store."""

from __future__ import annotations

from typing import Any, Sequence

from replicate.layouts import dims as dims_lib
from replicate.layouts import lists
from replicate.layouts.arrays import array_of, written
from replicate.layouts.dims import Dim
from replicate.layouts.rule import Op
from replicate.layouts.shapes_table import Shape, like, shapes
from replicate.layouts.values_table import Values, array, values

like("Enter", "LoopCond", "NextIteration", "Switch")
like("StackPushV2", source=1)


@shapes("Exit")
def _exit(op: Op, index: int) -> Shape | None:
    return outside(op.dims(0))


@shapes("Merge")
def _merge(op: Op, index: int) -> Shape | None:
    """Returns the sizes that branches agree on; a loop's variable has its first shape."""
    if index:
        return ()
    if any(tensor.op.type == "NextIteration" for tensor in op.inputs):
        return op.dims(0)
    return _agreed([op.dims(place) for place in range(len(op.inputs))])


@shapes("StackPopV2", "TensorArrayReadV3", "OptionalGetValue", "TensorListGetItem")
def _read(op: Op, index: int) -> Shape | None:
    return _element(op)


@shapes("TensorListPopBack")
def _pop_back(op: Op, index: int) -> Shape | None:
    return _element(op) if index else ()


@shapes("TensorArrayGatherV3", "TensorListGather", "TensorListStack")
def _gather(op: Op, index: int) -> Shape | None:
    found = _element(op)
    return None if found is None else [_length(op), *(outside(found) or ())]


def _length(op: Op) -> Dim | None:
    """Returns how many elements an operation reads, None if that is not known."""
    if op.type == "TensorListStack":
        return _length_of_list(op, op.operation)
    indices = op.dims(1)
    return indices[0] if indices else None


def _length_of_list(op: Op, operation: Any) -> Dim | None:
    """Returns how many elements an operation's list has, None if that changes or is not known."""
    found = set()
    for maker in lists.of_fixed_length(operation):
        if maker.type == "ZerosLike":
            found.add(_length_of_list(op, maker.inputs[0].op))
        elif maker.type == "TensorListFromTensor":
            dims = op.dims_of(maker.inputs[0])
            found.add(dims[0] if dims else None)
        else:
            value = op.value_of(maker.inputs[1])
            found.add(None if value is None else value.item())
    return found.pop() if len(found) == 1 else None


@values("TensorArraySizeV3")
def _array_size(op: Op) -> Values:
    maker = array_of(op.operation)
    if maker is None or maker.type != "TensorArrayV3" or maker.get_attr("dynamic_size"):
        return None
    return [op.value_of(maker.inputs[0])]


@values("TensorListLength")
def _list_length(op: Op) -> Values:
    length = _length_of_list(op, op.operation)
    return None if length is None else [array([length], ())]


def outside(dims: Sequence[Dim | None] | None) -> list[Dim | None] | None:
    """Returns a shape with None for sizes that may differ from one round of a loop to the next."""
    return None if dims is None else [None if dims_lib.is_of_loop(dim) else dim for dim in dims]


def _element(op: Op) -> Shape | None:
    found: list[Any] = []
    for tensor, axes in written(op.operation):
        dims = op.dims_of(tensor)
        found.append(None if dims is None else dims[axes:])
    return _agreed(found)


def _agreed(found: Sequence[Sequence[Dim | None] | None]) -> Shape | None:
    first = found[0] if found else None
    if first is None or any(other is None or len(other) != len(first) for other in found):
        return None
    return [sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*found)]


@values("Enter")
def _enter(op: Op) -> Values:
    return [op.value(0)] if op.attr("is_constant") else None


@values("Switch")
def _switch(op: Op) -> Values:
    """Passes on integers that enter a branch; those of a loop's variables are not known here."""
    return [op.value(0)] * 2


@values("OptionalGetValue", "StackPopV2")
def _pop(op: Op) -> Values:
    pushed = [op.value_of(tensor) for tensor, _ in written(op.operation)]
    return pushed if len(pushed) == 1 else None  # Several may have pushed different integers.


@values("TensorListPopBack")
def _pop_back_values(op: Op) -> Values:
    pushed = _pop(op)
    return None if pushed is None else [None, *pushed]
