"""Integers that are computed: sums, products and quotients of sizes, elementwise or reduced."""

from __future__ import annotations

import operator
from typing import Any, Callable, Optional, Sequence

import numpy as np

from replicate.compat import graph as graph_lib
from replicate.layouts import dims as dims_lib
from replicate.layouts.dims import ROWS, Dim, Monomial
from replicate.layouts.rule import Op
from replicate.layouts.values_table import Values, array, least, numbers, values

Function = Callable[[Dim, Dim], Optional[Dim]]


def _combined(
    function: Function, x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Returns a function of each pair of entries; the arrays are broadcast."""
    x, y = np.broadcast_arrays(x, y)
    made = [None if a is None or b is None else function(a, b) for a, b in zip(x.flat, y.flat)]
    return array(made, x.shape)


def _multiplied(a: Dim, b: Dim) -> Dim | None:
    return dims_lib.times(a, b)


def _divided(a: Dim, b: Dim) -> Dim | None:
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b else None
    return dims_lib.over(a, b)


def _truncated(a: Dim, b: Dim) -> Dim | None:
    if isinstance(a, int) and isinstance(b, int):
        return _toward_zero(a, b) if b else None
    return dims_lib.over(a, b)


def _toward_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _modulo(a: Dim, b: Dim) -> Dim | None:
    if isinstance(a, int) and isinstance(b, int):
        return a % b if b else None
    return 0 if dims_lib.over(a, b) is not None else None


def _remainder(a: Dim, b: Dim) -> Dim | None:
    if isinstance(a, int) and isinstance(b, int):
        return a - b * _toward_zero(a, b) if b else None
    return _modulo(a, b)


def _ordered(a: Dim, b: Dim) -> Sequence[Dim] | None:
    """Returns two sizes, the lesser first, None if the order depends on symbols."""
    if isinstance(a, int) and isinstance(b, int):
        return (a, b) if a < b else (b, a)
    if isinstance(a, Monomial) and isinstance(b, Monomial):
        if a.symbols != b.symbols:
            return None
        return (a, b) if a.coefficient < b.coefficient else (b, a)
    number, size = (a, b) if isinstance(a, int) else (b, a)
    lowest = least(size)
    if lowest is None or not isinstance(number, int) or number > lowest:
        return None
    return number, size


def _maximum(a: Dim, b: Dim) -> Dim | None:
    found = _ordered(a, b)
    return None if found is None else found[1]


def _minimum(a: Dim, b: Dim) -> Dim | None:
    found = _ordered(a, b)
    return None if found is None else found[0]


_DIVISIONS: dict[str, Function] = {
    "FloorDiv": _divided,
    "TruncateDiv": _truncated,
    "Div": _truncated,
}
_BINARY: dict[str, Function] = {
    **_DIVISIONS,
    "Mul": _multiplied,
    "Add": dims_lib.added,
    "AddV2": dims_lib.added,
    "FloorMod": _modulo,
    "Mod": _remainder,
    "TruncateMod": _remainder,
    "Maximum": _maximum,
    "Minimum": _minimum,
}


@values("Sub")
def _subtracted(op: Op) -> Values:
    a, b = op.value(0), op.value(1)
    return None if a is None or b is None else [_combined(op.rest, a, b)]


@values(*_BINARY)
def _binary(op: Op) -> Values:
    a, b = op.value(0), op.value(1)
    if a is None:
        return None
    made = None if b is None else _combined(_BINARY[op.type], a, b)
    above_zero = _at_least_one(op) if op.type in _DIVISIONS else None
    if above_zero is None or (made is not None and None not in made.flat):
        return None if made is None else [made]
    if made is None:
        return [_combined(_divided_unless_zero, a, above_zero)]
    others = np.broadcast_to(_combined(_divided_unless_zero, a, above_zero), made.shape)
    known = [y if x is None else x for x, y in zip(made.flat, others.flat)]
    return [array(known, made.shape)]


def _at_least_one(op: Op) -> np.ndarray[Any, Any] | None:
    """Returns x if an operation divides by max(x, 1), as gradients of sums do, else None."""
    divisor = op.inputs[1].op
    if divisor.type != "Maximum":
        return None
    maximum = op.beside(divisor)
    for x, other in ((0, 1), (1, 0)):
        value, ones = maximum.value(x), maximum.value(other)
        if value is not None and ones is not None and set(ones.flat) == {1}:
            return np.broadcast_to(value, np.broadcast(value, ones).shape)
    return None


def _divided_unless_zero(a: Dim, x: Dim) -> Dim | None:
    """Returns a / max(x, 1) as a size, None if it is not known."""
    made = dims_lib.over(a, x)
    # If x is 0, so is a, and the quotient is 0. So must be the size that is returned.
    may_be_zero = set(x.symbols) - {ROWS} if isinstance(x, Monomial) else set()
    if made is None or not all(dims_lib.holds(made, name) for name in may_be_zero):
        return None
    lowest = least(x)
    return made if lowest is not None and lowest >= 0 and x != 0 else None


@values("Neg")
def _negative(op: Op) -> Values:
    value = op.value(0)
    return None if value is None else [_combined(_multiplied, value, array([-1], ()))]


@values("Square")
def _square(op: Op) -> Values:
    value = op.value(0)
    return None if value is None else [_combined(_multiplied, value, value)]


@values("AddN")
def _add_all(op: Op) -> Values:
    total = op.value(0)
    for index in range(1, len(op.inputs)):
        part = op.value(index)
        if total is None or part is None:
            return None
        total = _combined(dims_lib.added, total, part)
    return [total]


@values("Cast")
def _cast(op: Op) -> Values:
    if op.inputs[0].dtype.name != "bool":
        return [op.value(0)] if op.inputs[0].dtype.is_integer else None
    truths = _truths(op)
    if truths is None:
        return None
    return [array([int(one) for one in np.ravel(truths)], np.shape(truths))]


@values("Prod", "Sum", "Max", "Min")
def _reduce(op: Op) -> Values:
    """Reduces the axes that an operation names."""
    value, axes = op.value(0), op.ints(1)
    if value is None or axes is None:
        return None
    reduced = [axis % value.ndim for axis in axes]
    kept = [axis for axis in range(value.ndim) if axis not in reduced]
    left = [value.shape[axis] for axis in kept]
    each = int(np.prod([value.shape[axis] for axis in reduced], dtype=np.int64))
    rows = np.transpose(value, [*kept, *reduced]).reshape(int(np.prod(left, dtype=np.int64)), each)
    made = [_FOLDS[op.type](list(row)) for row in rows]
    whole = [1 if axis in reduced else size for axis, size in enumerate(value.shape)]
    return [array(made, whole if op.attr("keep_dims") else left)]


def _folded(function: Function, first: Dim | None) -> Callable[[Sequence[Any]], Dim | None]:
    """Returns a function that combines entries one after the other; of none, it returns `first`."""

    def fold(entries: Sequence[Dim | None]) -> Dim | None:
        made = first if first is not None or not entries else entries[0]
        for entry in entries if first is not None else entries[1:]:
            made = None if made is None or entry is None else function(made, entry)
        return made

    return fold


_FOLDS = {
    "Prod": _folded(_multiplied, 1),
    "Sum": dims_lib.total,
    "Max": _folded(_maximum, None),
    "Min": _folded(_minimum, None),
}

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Equal": operator.eq,
    "NotEqual": operator.ne,
    "Less": operator.lt,
    "LessEqual": operator.le,
    "Greater": operator.gt,
    "GreaterEqual": operator.ge,
}


@values("Select", "SelectV2")
def _select(op: Op) -> Values:
    """Selects entries of two arrays by a comparison of known integers."""
    truths, x, y = _truths(op), op.value(1), op.value(2)
    if truths is None or x is None or y is None:
        return None
    if op.type == "Select" and truths.shape not in ((), x.shape):
        return None
    return [np.where(truths, x, y)]


def _truths(op: Op) -> np.ndarray[Any, Any] | None:
    condition = op.inputs[0].op
    if condition.type == "Const":
        return graph_lib.constant(op.inputs[0])
    if condition.type not in _COMPARISONS:
        return None
    comparison = op.beside(condition)
    a, b = numbers(comparison.value(0)), numbers(comparison.value(1))
    return None if a is None or b is None else _COMPARISONS[condition.type](a, b)
