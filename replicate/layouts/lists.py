"""The lists of tensors in which loops of TensorFlow 2 store their results.

Unlike arrays, lists are values that loops carry: each operation returns a new list. Lists that lead
to one another, in either direction, count as one, so all of their elements have one layout.

Optionals, in which branches store their results, count as lists with at most one element.
"""

from __future__ import annotations

import weakref
from typing import Any, Callable, Collection, Iterator, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.layouts.kinds import PASS_ON
from replicate.layouts.layout import PER_TOWER, WHOLE, Demand, Layout, Shard, Share, Strategy

_MAKE = frozenset(
    ["EmptyTensorList", "TensorListReserve", "TensorListFromTensor", "TensorListScatterV2"]
    + ["OptionalFromValue", "OptionalNone"]
)
_CHANGE_LENGTH = frozenset(
    ["TensorListConcatLists", "TensorListPopBack", "TensorListPushBack", "TensorListResize"]
    + ["TensorListScatterIntoExistingList"]
)
_FIX_LENGTH = frozenset(["TensorListFromTensor", "TensorListReserve", "ZerosLike"])
_COMBINE = frozenset(["AddN", "ZerosLike"])

# By type: the input that is written, and how many of its axes come before those of an element.
_WRITTEN = {
    "OptionalFromValue": (0, 0),
    "TensorListFromTensor": (0, 1),
    "TensorListPushBack": (1, 0),
    "TensorListScatterIntoExistingList": (1, 1),
    "TensorListScatterV2": (0, 1),
    "TensorListSetItem": (2, 0),
}
# By type: the output that is an element.
_READ = {
    "OptionalGetValue": 0,
    "TensorListGather": 0,
    "TensorListGetItem": 0,
    "TensorListPopBack": 1,
    "TensorListStack": 0,
}


class Elements:
    """The layouts of the elements of arrays and lists; `Arrays` finds them."""

    def element(self, maker: Any, axes: int = 0) -> Layout:
        """Returns the layout of a tensor that is read."""
        raise NotImplementedError

    def put(self, maker: Any, layout: Layout, axes: int = 0) -> Layout | None:
        """Returns the layout in which a tensor is written, None if it cannot be."""
        raise NotImplementedError


def is_of_list(operation: Any) -> bool:
    """Whether an operation makes or uses a list, other than passing it on."""
    if operation.type in ("OptionalFromValue", "OptionalGetValue"):
        return len(operation.inputs) == len(operation.outputs) == 1
    if operation.type in _STRATEGIES:
        return True
    return operation.type in _COMBINE and bool(operation.outputs[0].dtype == tf.variant)


def maker_of(operation: Any) -> Any:
    """Returns the operation that makes the list of another one; the first if there are several.

    Returns None if an operation uses the list that is not known here.
    """
    of_graph = _makers.setdefault(operation.graph, weakref.WeakKeyDictionary())
    if operation not in of_graph:
        together, others = _together(operation)
        known = all(is_of_list(one) or one.type in PASS_ON for one in (*together, *others))
        makers = [one for one in together if one.type in _MAKE and known]
        first = min(makers, key=graph_lib.id_of, default=None)
        maker = None if first is None else weakref.ref(first)
        # All of them have the same maker, so each connected group is searched once.
        of_graph.update(dict.fromkeys(filter(is_of_list, together), maker))
    found = of_graph[operation]
    return None if found is None else found()


def of_fixed_length(operation: Any) -> list[Any]:
    """Returns the operations that make an operation's list; none if its length changes.

    There are also none if one has a type other than `TensorListFromTensor`, `TensorListReserve` and
    `ZerosLike`.
    """
    together, _ = _together(operation, with_zeros=False)
    makers = [one for one in together if one.type in _MAKE or one.type == "ZerosLike"]
    if any(one.type in _CHANGE_LENGTH or _grows(one) for one in together):
        return []
    return makers if all(one.type in _FIX_LENGTH for one in makers) else []


def _grows(operation: Any) -> bool:
    """Whether an operation writes behind the last element of its list, if it is told to."""
    if operation.type != "TensorListSetItem":
        return False
    # Older TensorFlows resize such a list first, and have no such attribute.
    return bool(operation.node_def.attr["resize_if_index_out_of_bounds"].b)


def forget(graph: Any) -> None:
    """Forgets the lists of a graph, which has changed."""
    _makers.pop(graph, None)


# By graph, and by operation: the operation that makes its list. All references are weak, because an
# operation keeps its graph alive.
_makers: weakref.WeakKeyDictionary[Any, weakref.WeakKeyDictionary[Any, weakref.ref[Any] | None]] = (
    weakref.WeakKeyDictionary()
)


def _together(operation: Any, with_zeros: bool = True) -> tuple[list[Any], list[Any]]:
    """Returns the operations of all lists that are connected with the list of an operation.

    The second list holds the operations of lists whose elements are these lists, as nested loops
    make them.

    Args:
        operation: The operation.
        with_zeros: Whether a list of zeros is connected with the list that it is made like.
    """
    found: dict[Any, None] = {operation: None}
    around: dict[Any, None] = {}
    pending = _lists_of(operation, with_zeros)
    seen = {graph_lib.reference(tensor) for tensor in pending}
    while pending:
        tensor = pending.pop()
        more: list[Any] = []
        for one in (tensor.op, *tensor.consumers()):
            if one in found or one in around or graph_lib.is_replaced(one):
                continue
            if any(element is tensor for element in _elements(one)):
                # This list is an element: the other elements of that outer list are connected, too.
                outside = [each for part in _together(one) for each in part]
                around.update(dict.fromkeys(outside))
                more += [element for each in outside for element in _elements(each)]
            elif with_zeros or one.type != "ZerosLike" or one is tensor.op:
                found[one] = None
                more += _lists_of(one, with_zeros)
        for other in more:
            if graph_lib.reference(other) not in seen:
                seen.add(graph_lib.reference(other))
                pending.append(other)
    return list(found), list(around)


def _lists_of(operation: Any, with_zeros: bool) -> list[Any]:
    """Returns the lists that an operation takes and returns, except those that are elements."""
    given = () if operation.type == "ZerosLike" and not with_zeros else operation.inputs
    aside = _elements(operation)
    return [
        tensor
        for tensor in (*given, *operation.outputs)
        if tensor.dtype == tf.variant and not any(tensor is element for element in aside)
    ]


def _elements(operation: Any) -> list[Any]:
    """Returns the lists that an operation writes to another list, or reads from one."""
    found = []
    if operation.type in _WRITTEN:
        found.append(operation.inputs[_WRITTEN[operation.type][0]])
    elif operation.type in _READ:
        found.append(operation.outputs[_READ[operation.type]])
    return [tensor for tensor in found if tensor.dtype == tf.variant]


def written(operation: Any, around: Collection[Any] = ()) -> Iterator[tuple[Any, int]]:
    """Yields the tensors written to the list of an operation, with the axes before an element's.

    Args:
        operation: The operation.
        around: Operations whose lists are being searched already; this ends the recursion.
    """
    together, _ = _together(operation, with_zeros=False)
    if not set(around).isdisjoint(together):
        return
    for one in together:
        if one.type in _WRITTEN:
            index, axes = _WRITTEN[one.type]
            yield one.inputs[index], axes
        elif one.type == "ZerosLike":
            yield from written(one.inputs[0].op, [*around, one])


def strategy(
    elements: Elements, maker: Any, operation: Any, layouts: Sequence[Layout]
) -> Strategy | None:
    """Returns how towers run an operation on a list in towers, None if they cannot."""
    if operation.type in _COMBINE:
        return Strategy((PER_TOWER,) * len(layouts), (PER_TOWER,))
    lists = _lists_of(operation, with_zeros=True)
    demands: list[Demand] = [
        PER_TOWER if any(tensor is one for one in lists) else WHOLE for tensor in operation.inputs
    ]
    if operation.type in _WRITTEN:
        index, axes = _WRITTEN[operation.type]
        put = elements.put(maker, layouts[index], axes)
        if put is None:
            return None
        demands[index] = put
    shape = _SHAPES.get(operation.type)
    if shape is not None:
        found = _shape(operation.inputs[shape], layouts[shape], elements.element(maker))
        if found is None:
            return None
        demands[shape] = found
    outputs = _STRATEGIES[operation.type](elements, maker)
    if not all(map(_can_be, operation.outputs, outputs)):
        return None  # Elements differ in rank.
    return Strategy(tuple(demands), outputs)


def _can_be(tensor: Any, layout: Layout) -> bool:
    """Whether a tensor has the axis that a layout names."""
    rank = tensor.shape.rank
    return rank is None or not isinstance(layout, Shard) or layout.axis < rank


def _shape(tensor: Any, layout: Layout, element: Layout) -> Demand | None:
    """Returns the demand of an input that is the shape of elements, None if there is none.

    If elements have rows, the shape must be that of the tower's.
    """
    if layout == PER_TOWER:
        return PER_TOWER
    if not isinstance(element, Shard) or tensor.shape.rank == 0:  # A scalar -1: nothing is known.
        return WHOLE
    return Share(element.axis) if tensor.shape.rank == 1 else None


# By type: the input that is the shape of elements.
_SHAPES = {
    "EmptyTensorList": 0,
    "TensorListFromTensor": 1,
    "TensorListGather": 2,
    "TensorListGetItem": 2,
    "TensorListPopBack": 1,
    "TensorListReserve": 0,
    "TensorListScatterV2": 2,
    "TensorListStack": 1,
}

# Function of the `Elements` and of the maker of the list that returns the layouts of all outputs.
Outputs = Callable[[Elements, Any], "tuple[Layout, ...]"]


def gives_list(elements: Elements, maker: Any) -> tuple[Layout, ...]:
    """Returns the layout of a list, or of an array."""
    return (PER_TOWER,)


def gives_element(elements: Elements, maker: Any) -> tuple[Layout, ...]:
    """Returns the layout of an element."""
    return (elements.element(maker),)


def gives_stack(elements: Elements, maker: Any) -> tuple[Layout, ...]:
    """Returns the layout of elements along a new axis."""
    return (elements.element(maker, axes=1),)


# By type: the layouts of outputs. The shape of a list's elements differs among towers.
_STRATEGIES: dict[str, Outputs] = {
    "EmptyTensorList": gives_list,
    "OptionalFromValue": gives_list,
    "OptionalGetValue": gives_element,
    "OptionalHasValue": lambda elements, maker: (WHOLE,),
    "OptionalNone": gives_list,
    "TensorListElementShape": gives_list,
    "TensorListFromTensor": gives_list,
    "TensorListGather": gives_stack,
    "TensorListGetItem": gives_element,
    "TensorListLength": lambda elements, maker: (WHOLE,),
    "TensorListPopBack": lambda elements, maker: (PER_TOWER, elements.element(maker)),
    "TensorListPushBack": gives_list,
    "TensorListReserve": gives_list,
    "TensorListResize": gives_list,
    "TensorListScatterIntoExistingList": gives_list,
    "TensorListScatterV2": gives_list,
    "TensorListSetItem": gives_list,
    "TensorListStack": gives_stack,
}

# Types of operations that make or use a list, or may do so.
TYPES = frozenset([*_STRATEGIES, *_COMBINE])

__all__ = [
    "TYPES", "forget", "is_of_list", "maker_of", "of_fixed_length", "strategy", "written",
]  # fmt: skip
