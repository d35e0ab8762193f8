"""How integers follow from the row that they belong to, by type of operation; see `own_rows`."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from replicate.layouts import dims as dims_lib
from replicate.layouts import strides
from replicate.layouts.dims import Dim, Monomial
from replicate.layouts.rule import Op


class Entries(NamedTuple):
    """How the integers of row r are made: each is `by * r + p`.

    Attributes:
        by: How much they grow from row to row. Unless it is 0, the size of axis 0 is a multiple of
            n, so that the first entries are those of the first row.
        below: What each p is less than, None if that is not known.
        step: What each p, and `below`, is a multiple of.
        is_natural: Whether no p is negative.
        number: What all integers are, None if they may differ.
    """

    by: Dim = 0
    below: Dim | None = None
    step: Dim = 1
    is_natural: bool = False
    number: Dim | None = None


UNKNOWN = Entries()

Find = Callable[[Any], Entries]
Follow = Callable[[Op, Any, Find], Optional[Entries]]

_INDICES = ("int32", "int64")
_functions: dict[str, Follow] = {}


def follow(op: Op, made: Any, find: Find) -> Entries:
    """Returns how the integers of an output are made, as far as it is known.

    Args:
        op: The operation.
        made: The output.
        find: Function of a tensor that returns how its integers are made.
    """
    function = _functions.get(op.type)
    return (None if function is None else function(op, made, find)) or UNKNOWN


def uniform(number: Dim) -> Entries:
    """Returns entries that all are a number."""
    if isinstance(number, Monomial):
        return Entries(is_natural=number.coefficient > 0, number=number)
    return Entries(below=number + 1, is_natural=number >= 0, number=number)


def have_rows(op: Op, tensor: Any) -> bool:
    """Whether the size of axis 0 is a multiple of n."""
    dims = op.dims_of(tensor)
    return dims is not None and dims != () and dims_lib.over(dims[0], op.rows) is not None


def is_at_most(size: Dim | None, other: Dim | None) -> bool:
    """Whether a size is known to be no larger than another one."""
    return size is not None and other is not None and dims_lib.is_at_most(size, other)


def casts_indices(op: Op) -> bool:
    """Whether a `Cast` is from a type of indices to another one."""
    return all(one.dtype.base_dtype.name in _INDICES for one in (*op.inputs, *op.outputs))


def _is_safe(given: Entries) -> bool:
    """Whether numbers are bounded by sizes of axes, so that indices of these do not wrap around."""
    return given.is_natural and (given.below is not None or given.number is not None)


def _below(size: Dim) -> Entries:
    return Entries(below=size, is_natural=True)


def _follows(*types: str) -> Callable[[Follow], Follow]:
    def enter(function: Follow) -> Follow:
        _functions.update(dict.fromkeys(types, function))
        return function

    return enter


@_follows("Range")
def _range(op: Op, made: Any, find: Find) -> Entries | None:
    first, limit, step = (find(tensor).number for tensor in op.inputs)
    if first != 0 or limit is None or step is None or not is_at_most(1, step):
        return None
    many = dims_lib.over(limit, step)
    each = None if many is None else dims_lib.over(many, op.rows)
    if each is None:
        return None
    by = dims_lib.times(each, step)
    return Entries(by=by, below=by, step=step, is_natural=True)


@_follows("Fill")
def _filled(op: Op, made: Any, find: Find) -> Entries | None:
    return find(op.inputs[1])


@_follows("OnesLike", "ZerosLike")
def _filled_like(op: Op, made: Any, find: Find) -> Entries | None:
    return uniform(int(op.type == "OnesLike"))


@_follows("ArgMax", "ArgMin")
def _place_of_extreme(op: Op, made: Any, find: Find) -> Entries | None:
    dims, axis = op.dims(0), op.ints(1)
    return _below(dims[axis[0]]) if dims and axis else None


@_follows("TopKV2", "Multinomial")
def _place(op: Op, made: Any, find: Find) -> Entries | None:
    dims, is_last = op.dims(0), made.value_index == len(op.outputs) - 1
    return _below(dims[-1]) if dims and is_last else None


@_follows("FloorMod")
def _remainder(op: Op, made: Any, find: Find) -> Entries | None:
    number = find(op.inputs[1]).number
    return _below(number) if number is not None and dims_lib.is_at_most(1, number) else None


@_follows("Identity", "StopGradient", "PreventGradient", "Snapshot")
def _same(op: Op, made: Any, find: Find) -> Entries | None:
    return find(op.inputs[0])


@_follows("Cast")
def _cast(op: Op, made: Any, find: Find) -> Entries | None:
    found = find(op.inputs[0])
    if found.number in (0, 1):
        return found
    # Other types may round numbers, or wrap around, as int32 does, too, unless they are bounded.
    return found if casts_indices(op) and (made.dtype == tf.int64 or _is_safe(found)) else None


@_follows("Reshape", "Squeeze", "ExpandDims")
def _reshaped(op: Op, made: Any, find: Find) -> Entries | None:
    found = find(op.inputs[0])
    return found if found.by == 0 or have_rows(op, made) else None


@_follows("Tile", "BroadcastTo", "Transpose", "StridedSlice")
def _moved(op: Op, made: Any, find: Find) -> Entries | None:
    found, given, dims = find(op.inputs[0]), op.dims(0), op.dims_of(made)
    if found.by == 0:
        return found
    if not given or not dims or not have_rows(op, made):
        return None
    return found if _keeps_rows(op, given, dims) else None


def _keeps_rows(op: Op, given: tuple[Dim, ...], dims: tuple[Dim, ...]) -> bool:
    """Whether each entry of axis 0 stays in its row."""
    if op.type == "BroadcastTo":
        return len(given) == len(dims) and given[0] == dims[0]
    if op.type == "StridedSlice":
        steps = strides.steps(op, len(given))
        if not steps or steps[0].axis != 0 or steps[0].made != 0:
            return False
        return strides.takes_of_each(op, steps[0], given[0], op.rows)
    first = (op.ints(1) or (None,))[0]
    return first == (1 if op.type == "Tile" else 0)


def _pair(op: Op, made: Any, find: Find) -> list[Entries]:
    """Returns how two operands are made that are broadcast."""
    found, dims = [], op.dims_of(made)
    for index, tensor in enumerate(op.inputs):
        one, given = find(tensor), op.dims(index)
        is_along = given and dims and len(given) == len(dims) and given[0] == dims[0]
        found.append(one if one.by == 0 or is_along else UNKNOWN)
    return found


@_follows("Mul")
def _product(op: Op, made: Any, find: Find) -> Entries | None:
    a, b = sorted(_pair(op, made, find), key=lambda one: one.number is not None)
    return None if b.number is None else _times(a, b.number, made)


@_follows("MatMul")
def _outer_product(op: Op, made: Any, find: Find) -> Entries | None:
    given, is_plain = op.dims(0), not (op.attr("transpose_a") or op.attr("transpose_b"))
    number = find(op.inputs[1]).number
    if number is None or not is_plain or not given or given[1] != 1:
        return None
    return _times(find(op.inputs[0]), number, made)


def _times(given: Entries, number: Dim, made: Any) -> Entries | None:
    if made.dtype.name not in _INDICES or not _is_safe(given) or not is_at_most(1, number):
        return None
    return Entries(
        dims_lib.times(given.by, number),
        None if given.below is None else dims_lib.times(given.below, number),
        dims_lib.times(given.step, number),
        True,
        None if given.number is None else dims_lib.times(given.number, number),
    )


@_follows("Add", "AddV2")
def _sum(op: Op, made: Any, find: Find) -> Entries | None:
    a, b = _pair(op, made, find)
    by = dims_lib.added(a.by, b.by)
    if by is None or made.dtype.name not in _INDICES or not (_is_safe(a) and _is_safe(b)):
        return None
    for one, other in ((a, b), (b, a)):
        # Numbers below a step do not reach the next multiple.
        if is_at_most(other.below, one.step):
            divides = dims_lib.over(one.step, other.step) is not None
            return Entries(by, one.below, other.step if divides else 1, True)
    if isinstance(a.below, int) and isinstance(b.below, int):
        return Entries(by, a.below + b.below - 1, is_natural=True)
    return None


@_follows("Minimum")
def _minimum(op: Op, made: Any, find: Find) -> Entries | None:
    a, b = _pair(op, made, find)
    if a.by != 0 or b.by != 0:
        return None
    # One bound suffices. If they cannot be compared, either is right.
    less = a.below if b.below is None or is_at_most(a.below, b.below) else b.below
    return Entries(below=less, is_natural=a.is_natural and b.is_natural)


@_follows("Maximum")
def _maximum(op: Op, made: Any, find: Find) -> Entries | None:
    a, b = _pair(op, made, find)
    for one, other in ((a, b), (b, a)):
        if one.is_natural and other.number == 0:
            return one
    if a.by != 0 or b.by != 0:
        return None
    more = a.below if is_at_most(b.below, a.below) else b.below
    bounds = is_at_most(a.below, more) and is_at_most(b.below, more)
    return Entries(below=more if bounds else None, is_natural=a.is_natural or b.is_natural)
