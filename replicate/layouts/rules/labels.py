"""Rules of operations whose axes have labels, as in the equation of an einsum.

Axes of one label belong together: where one of them has rows, all are cut. An output that has the
label keeps its rows there; in one that has not, the operation has summed over it, and towers have
parts of the sum. An operand without the label is the same for all towers.
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

# One label for each axis, no label twice; None labels an axis that has to be whole, as are those
# that are left out at the end.
Labels = Tuple[Optional[Hashable], ...]


class ShapeOf(NamedTuple):
    """Labels of an operand that is a vector of integers, the shape of what has these axes."""

    labels: Labels


Operand = Union[Labels, ShapeOf]


# What has rows on axis 0, and nothing else that can be cut.
ROWS: Labels = (0,)


def leading(axes: int) -> Labels:
    """Returns the labels of what has independent entries along its first axes."""
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
    """Enters the rule of types of operations whose axes always have the same labels.

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
    """Enters the rule of operations that keep all axes of some operands but the last ones.

    Args:
        types: The types.
        operands: The indices of these inputs; others are the same for all rows.
        but: How many axes are the last ones.
        linear_in: The indices of inputs in each of which the operations are linear.
    """

    @rule(*types)
    def leads(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
        found = cut_leading(op, layouts, operands, op.rank(operands[0]), but)
        return found or linear(op, layouts, linear_in)


def cut_leading(
    op: Op, layouts: Sequence[Layout], operands: Sequence[int], rank: int | None, but: int
) -> Strategy | None:
    """Returns the strategy that cuts leading axes, in some operands and in all that comes out.

    Args:
        op: The operation.
        layouts: Those of its inputs.
        operands: The indices of the inputs that have the leading axes; others are whole.
        rank: The number of axes of one of them.
        but: So many of these are its own.
    """
    if rank is None:
        return None
    labels = leading(rank - but)
    given = [labels if index in operands else () for index in range(len(layouts))]
    return cut(op, layouts, given, [labels] * len(op.outputs))


def rows_first(op: Op, layouts: Sequence[Layout], operands: Sequence[int]) -> Strategy | None:
    """Returns the strategy of an operation that works on each entry of axis 0 by itself.

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
    """Returns the strategy by which rows stay rows, None if no axis that has a label is cut.

    Args:
        op: The operation.
        layouts: Those of its inputs.
        operands: The labels of each input's axes.
        results: Those of each output's axes.
        broadcast: Labels whose axes may have one entry in an operand, for all rows.
    """
    found = _cut_axes(layouts, operands)
    if not found:
        return None
    # If operands differ, a label of the result is kept, since its parts need no sum.
    index, axis, label = next((one for one in found if one[2] in results[0]), found[0])
    dims = op.dims(index)
    size = None if dims is None else dims[axis]
    wanted: list[Demand] = []
    for place, labels in enumerate(operands):
        demand = _demand(op, place, labels, label, size, label in broadcast)
        if demand is None:
            return None
        wanted.append(demand)
    made = [Shard(axes.index(label)) if label in axes else SUM for axes in results]
    return Strategy(tuple(wanted), tuple(made))


def _cut_axes(
    layouts: Sequence[Layout], operands: Sequence[Operand]
) -> list[tuple[int, int, Hashable]]:
    """Returns which inputs have rows on an axis that has a label: input, axis, and label."""
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
    """Returns what is demanded of an operand, None if its axis does not fit the rows."""
    if isinstance(labels, ShapeOf):
        return Share(labels.labels.index(label)) if label in labels.labels else WHOLE
    if label not in labels:
        return WHOLE
    axis = labels.index(label)
    dims = op.dims(index)
    if dims is None or dims[axis] == size or isinstance(dims[axis], Monomial):
        return Shard(axis)
    if dims[axis] == 1 and is_broadcast:
        return WHOLE
    is_known = size is not None and not isinstance(size, Monomial)
    return None if is_known or over(dims[axis], op.rows) is None else Shard(axis)


def linear(
    op: Op, layouts: Sequence[Layout], operands: Sequence[int] | None = None
) -> Strategy | None:
    """Returns the strategy for parts of a sum, or of a mean, in one operand; others are whole.

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
    # Sums of small integers may overflow where those of what comes out do not.
    wraps = given.is_integer and any(given != made.dtype for made in op.outputs)
    if not isinstance(kind, Partial) or kind not in (SUM, MEAN) or wraps:
        return None
    return Strategy(tuple(layouts), (kind,) * len(op.outputs))
