"""Rules of operations whose axes have labels, as in the equation of an einsum.

Axes with the same label belong together: if one of them has rows, all are split. An output with the
label has rows there. An output without it is a sum over that axis, so towers have partials. An
operand without the label is whole.
"""

from __future__ import annotations

from typing import Hashable, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from replicate.layouts.dims import Dim, Monomial, over
from replicate.layouts.layout import (
    MEAN,
    SUM,
    WHOLE,
    Demand,
    Layout,
    Partial,
    Shard,
    Share,
    Strategy,
)
from replicate.layouts.rule import Op, rule

# One label for each axis, no label twice. None labels an axis that has to be whole. Axes at the end
# without a label have to be whole, too.
Labels = Tuple[Optional[Hashable], ...]


class ShapeOf(NamedTuple):
    """Labels of an operand that is the shape, a vector of integers, of a tensor with these axes."""

    labels: Labels


Operand = Union[Labels, ShapeOf]


# Labels of a tensor with rows on axis 0, and no other axis that can be split.
ROWS: Labels = (0,)


def leading(axes: int) -> Labels:
    """Returns the labels of a tensor with independent entries along its first `axes` axes."""
    return tuple(range(axes))


def row_labels(*indices: int) -> dict[int, Labels]:
    """Returns the labels of inputs that have rows on axis 0, by index."""
    return dict.fromkeys(indices, ROWS)


def by_labels(
    *types: str,
    inputs: Mapping[int, Operand],
    results: Sequence[Labels] | None = None,
    linear_in: Sequence[int] = (),
) -> None:
    """Registers the rule of types of operations whose axes always have the same labels.

    Args:
        types: The types.
        inputs: By index of an input, the labels of its axes; others are the same for all rows.
        results: The labels of each output's axes, by default those of the first of `inputs` that
            has axes.
        linear_in: The indices of inputs in each of which the operations are linear.
    """
    first = next(labels for labels in inputs.values() if not isinstance(labels, ShapeOf))

    @rule(*types)
    def labelled(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
        operands = [inputs.get(index, ()) for index in range(len(layouts))]
        made = [first] * len(op.outputs) if results is None else results
        return cut(op, layouts, operands, made) or linear(op, layouts, linear_in)


def by_leading_axes(
    *types: str, operands: Sequence[int] = (0,), but: int = 1, linear_in: Sequence[int] = ()
) -> None:
    """Registers the rule of operations that process leading axes independently.

    Args:
        types: The types.
        operands: The indices of inputs with leading axes; others are the same for all rows.
        but: How many of the last axes are not leading ones.
        linear_in: The indices of inputs in each of which the operations are linear.
    """

    @rule(*types)
    def leads(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
        found = cut_leading(op, layouts, operands, op.rank(operands[0]), but)
        return found or linear(op, layouts, linear_in)


def cut_leading(
    op: Op, layouts: Sequence[Layout], operands: Sequence[int], rank: int | None, but: int
) -> Strategy | None:
    """Returns the strategy that splits leading axes of some operands and of all outputs.

    Args:
        op: The operation.
        layouts: Those of its inputs.
        operands: The indices of the inputs that have the leading axes; others are whole.
        rank: The rank of one of them.
        but: How many of its last axes are not leading ones.
    """
    if rank is None:
        return None
    labels = leading(rank - but)
    given = [labels if index in operands else () for index in range(len(layouts))]
    return cut(op, layouts, given, [labels] * len(op.outputs))


def rows_first(op: Op, layouts: Sequence[Layout], operands: Sequence[int]) -> Strategy | None:
    """Returns the strategy of an operation that processes each entry of axis 0 by itself.

    Args:
        op: The operation.
        layouts: Those of its inputs.
        operands: The indices of inputs that have rows; others are the same for all rows.
    """
    labels = [ROWS if index in operands else () for index in range(len(layouts))]
    return cut(op, layouts, labels, [ROWS] * len(op.outputs))


def cut(
    op: Op,
    layouts: Sequence[Layout],
    operands: Sequence[Operand],
    results: Sequence[Labels],
    broadcast: frozenset[Hashable | None] = frozenset(),
) -> Strategy | None:
    """Returns the strategy by which rows stay rows, None if no axis with a label has rows.

    Args:
        op: The operation.
        layouts: Those of its inputs.
        operands: The labels of each input's axes.
        results: Those of each output's axes.
        broadcast: Labels whose axes may have one entry in an operand, shared by all rows.
    """
    found = _cut_axes(layouts, operands)
    if not found:
        return None
    # If operands have rows on different labels, prefer one of the result, which needs no sum.
    index, axis, label = next((one for one in found if one[2] in results[0]), found[0])
    dims = op.dims(index)
    size = None if dims is None else dims[axis]
    wanted: list[Demand] = []
    for place, labels in enumerate(operands):
        demand = _demand(op, place, labels, label, size, label in broadcast)
        if demand is None:
            return None
        wanted.append(demand)
    # An output without the label is a sum over it.
    made = [Shard(axes.index(label)) if label in axes else SUM for axes in results]
    return Strategy(tuple(wanted), tuple(made))


def _cut_axes(
    layouts: Sequence[Layout], operands: Sequence[Operand]
) -> list[tuple[int, int, Hashable]]:
    """Returns inputs that have rows on an axis with a label, each with the axis and the label."""
    return [
        (index, layout.axis, labels[layout.axis])
        for index, (layout, labels) in enumerate(zip(layouts, operands))
        if isinstance(layout, Shard)
        and not isinstance(labels, ShapeOf)
        and layout.axis < len(labels)
        and labels[layout.axis] is not None
    ]


def _demand(
    op: Op,
    index: int,
    labels: Operand,
    label: Hashable,
    size: Dim | None,
    is_broadcast: bool,
) -> Demand | None:
    """Returns the demand of an operand, None if its axis does not match the rows."""
    if isinstance(labels, ShapeOf):
        return Share(labels.labels.index(label)) if label in labels.labels else WHOLE
    if label not in labels:
        return WHOLE
    axis = labels.index(label)
    dims = op.dims(index)
    if dims is None or dims[axis] == size or isinstance(dims[axis], Monomial):
        return Shard(axis)  # Sizes of one label are equal, even if not known to be.
    if dims[axis] == 1 and is_broadcast:
        return WHOLE
    is_known = size is not None and not isinstance(size, Monomial)
    return None if is_known or over(dims[axis], op.rows) is None else Shard(axis)


def linear(
    op: Op, layouts: Sequence[Layout], operands: Sequence[int] | None = None
) -> Strategy | None:
    """Returns the strategy for one operand that is a partial sum or mean; others are whole.

    Args:
        op: An operation that is linear in each of some operands.
        layouts: Those of its inputs.
        operands: The indices of these operands, by default of all inputs.
    """
    parts = [index for index, layout in enumerate(layouts) if layout != WHOLE]
    if len(parts) != 1 or parts[0] not in (range(len(layouts)) if operands is None else operands):
        return None
    kind = layouts[parts[0]]
    given = op.inputs[parts[0]].dtype.base_dtype
    # The sum of integers of a small type may overflow, while that of the outputs does not.
    wraps = given.is_integer and any(given != made.dtype for made in op.outputs)
    if not isinstance(kind, Partial) or kind not in (SUM, MEAN) or wraps:
        return None
    return Strategy(tuple(layouts), (kind,) * len(op.outputs))
