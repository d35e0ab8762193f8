"""Defines which elementwise operations turn partials into partials.

An operation does if it can be exchanged with the reduction of the partials. This must hold even if
a tower's maximum or minimum is infinite, as if a mask has removed all scores of its rows. Factors
are assumed to be finite: an infinite factor times a partial of 0 is NaN.
"""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence

import numpy as np

from replicate.compat import graph as graph_lib
from replicate.layouts.layout import (
    ALL,
    ANY,
    MAX,
    MEAN,
    MIN,
    PER_TOWER,
    PROD,
    SUM,
    WHOLE,
    Layout,
    Partial,
    Strategy,
)
from replicate.layouts.rule import Op

Kept = Callable[[Op, Sequence[Layout]], Optional[Layout]]

_functions: dict[str, Kept] = {}

# Non-decreasing from -inf to inf. Softsign, and Erf of bfloat16, give NaN for infinite values;
# Sign gives 0 for NaN.
RISING = (
    "Exp", "Expm1", "Tanh", "Sigmoid", "Relu", "Relu6", "Elu", "Selu", "Softplus", "Atan", "Asinh",
    "Sinh", "Floor", "Ceil", "Round", "Rint",
)  # fmt: skip
# By type: the operand that is a gradient. The output is proportional to it.
OF_GRADIENTS = {
    **dict.fromkeys(["ReluGrad", "Relu6Grad", "LeakyReluGrad", "EluGrad", "SeluGrad"], 0),
    **dict.fromkeys(["SoftplusGrad", "SoftsignGrad", "FakeQuantWithMinMaxArgsGradient"], 0),
    **dict.fromkeys(["TanhGrad", "SigmoidGrad", "RsqrtGrad"], 1),
    **dict.fromkeys(["ReciprocalGrad", "InvGrad"], 1),
}
# Reductions of equal values that give the same value.
IDEMPOTENT = (MEAN, MAX, MIN, ALL, ANY)


def keep(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Returns the strategy for operands without rows; the operation has one output."""
    # Gradients use `ZerosLike` of reserved outputs that are not used elsewhere.
    if PER_TOWER in layouts:
        is_kept = set(layouts) <= {PER_TOWER, WHOLE}
        return Strategy(tuple(layouts), (PER_TOWER,)) if is_kept else None
    function = _functions.get(op.type)
    kind = None if function is None else function(op, layouts)
    return None if kind is None else Strategy(tuple(layouts), (kind,))


def _keeps(*types: str) -> Callable[[Kept], Kept]:
    def enter(function: Kept) -> Kept:
        _functions.update(dict.fromkeys(types, function))
        return function

    return enter


@_keeps("Identity", "StopGradient", "PreventGradient", "Snapshot", "DebugGradientIdentity")
@_keeps("EnsureShape")
def _passed(op: Op, layouts: Sequence[Layout]) -> Layout | None:
    """Passes on the input; unlike `CheckNumerics`, which may find a partial infinite."""
    return layouts[0]


@_keeps("Add", "AddV2", "Sub", "AddN", "AccumulateNV2", "BiasAdd", "BiasAddV1")
@_keeps("Complex", "Conj", "Real", "Imag")
def _linear(op: Op, layouts: Sequence[Layout]) -> Layout | None:
    """Adds partial sums, or partial means; a whole value is the mean of equal partials."""
    kinds = set(layouts)
    if kinds == {SUM}:
        return SUM
    return MEAN if MEAN in kinds and kinds <= {MEAN, WHOLE} else None


@_keeps("Neg")
def _negative(op: Op, layouts: Sequence[Layout]) -> Layout | None:
    """Swaps maxima and minima of floating-point numbers; the least integer has no negative."""
    if op.inputs[0].dtype.is_floating and layouts[0] in (MAX, MIN):
        return MIN if layouts[0] == MAX else MAX
    return _linear(op, layouts)


@_keeps("LogicalNot")
def _not(op: Op, layouts: Sequence[Layout]) -> Layout | None:
    if layouts[0] not in (ALL, ANY):
        return None
    return ANY if layouts[0] == ALL else ALL


@_keeps("Mul", "MulNoNan", "RealDiv", "Div", "DivNoNan")
def _scaled(op: Op, layouts: Sequence[Layout]) -> Layout | None:
    """Multiplies or divides partials by a whole value; quotients of integers are rounded."""
    x, y = layouts
    if op.type == "Mul":
        if x == y == PROD:
            return PROD
        if x == WHOLE and y in (SUM, MEAN):
            return y
    elif op.type in ("RealDiv", "Div") and not _divides_exactly(op.inputs[1]):
        return None  # `DivNoNan` by 0 is 0 for each partial, and so for their sum.
    return x if x in (SUM, MEAN) and y == WHOLE else None


def _divides_exactly(divisor: Any) -> bool:
    """Whether a divisor is a constant other than 0: partials divided by 0 are NaN or infinite."""
    if divisor.dtype.is_integer or divisor.op.type != "Const":
        return False
    return bool(np.all(graph_lib.constant(divisor) != 0))


@_keeps(*OF_GRADIENTS)
def _of_gradient(op: Op, layouts: Sequence[Layout]) -> Layout | None:
    kind, other = layouts[OF_GRADIENTS[op.type]], layouts[1 - OF_GRADIENTS[op.type]]
    return kind if kind in (SUM, MEAN) and other == WHOLE else None


@_keeps(*RISING)
def _rising(op: Op, layouts: Sequence[Layout]) -> Layout | None:
    return layouts[0] if layouts[0] in (MAX, MIN) else None


@_keeps("Maximum", "Minimum", "LogicalOr", "LogicalAnd", "ClipByValue")
def _chosen(op: Op, layouts: Sequence[Layout]) -> Layout | None:
    """Takes a maximum or minimum of partials and whole values, which rises with each of them."""
    parts = [layout for layout in layouts if layout != WHOLE]
    kind = parts[0]
    if kind not in (MAX, MIN, ALL, ANY):
        return None
    if len(parts) == 1:
        return kind  # A whole operand can be applied before or after any of these reductions.
    same = {"Maximum": MAX, "LogicalOr": ANY, "Minimum": MIN, "LogicalAnd": ALL}.get(op.type)
    return kind if all(part == same for part in parts) else None


@_keeps("Select", "SelectV2")
def _selected(op: Op, layouts: Sequence[Layout]) -> Layout | None:
    """Selects among partials of one kind, by a whole condition."""
    condition, *branches = layouts
    kinds = {layout for layout in branches if layout != WHOLE}
    if condition != WHOLE or len(kinds) != 1:
        return None
    (kind,) = kinds
    if not isinstance(kind, Partial):
        return None
    return kind if WHOLE not in branches or kind in IDEMPOTENT else None


@_keeps("ZerosLike", "OnesLike")
def _like(op: Op, layouts: Sequence[Layout]) -> Layout | None:
    """Fills each partial: any reduction of zeros is zero, but ones do not add up to one."""
    kind = layouts[0]
    if not isinstance(kind, Partial) or (op.type == "OnesLike" and kind == SUM):
        return None
    return kind


@_keeps("Cast")
def _cast(op: Op, layouts: Sequence[Layout]) -> Layout | None:
    """Converts partials to a wider floating-point type, in which sums are rounded less."""
    before, after = op.inputs[0].dtype.base_dtype, op.outputs[0].dtype.base_dtype
    is_float = before.is_floating and after.is_floating
    if not (is_float or (before.is_complex and after.is_complex)) or before.size >= after.size:
        return None
    return layouts[0] if isinstance(layouts[0], Partial) else None
