"""Operations that slice axes, put slices back, pad axes, or reverse them.

On axes other than that of rows, each tower does the same. On the axis of rows, all rows have to be
taken.
"""

from __future__ import annotations

from typing import Any, Sequence

from replicate.compat import graph as graph_lib
from replicate.layouts import dims as dims_lib
from replicate.layouts import strides, values
from replicate.layouts.layout import MEAN, PROD, SUM, WHOLE, Layout, Shard, Share, Strategy
from replicate.layouts.rule import Op, rule
from replicate.layouts.rules.moves import moved


@rule("Slice")
def slice_(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows if all are taken, by a size of -1 or of all of them."""
    given, dims = layouts[0], op.dims(0)
    if not isinstance(given, Shard):
        return moved(op, layouts)
    begin, size = values.entries(op, 1), values.entries(op, 2)
    # A slice that begins after row 0 leaves out rows of the first towers only.
    if dims is None or begin is None or size is None or begin[given.axis] != 0:
        return None
    if size[given.axis] == -1:  # All that is left, however many rows a tower has.
        return Strategy((given, WHOLE, WHOLE), (given,))
    if size[given.axis] != dims[given.axis]:
        return None
    return Strategy((given, WHOLE, Share(given.axis)), (given,))


@rule("StridedSlice")
def strided_slice(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows if all are taken; a slice that ends after the last does so in each tower."""
    given, dims = layouts[0], op.dims(0)
    if not isinstance(given, Shard):
        return moved(op, layouts)
    steps = None if dims is None else strides.steps(op, len(dims))
    if dims is None or steps is None:
        return None
    (step,) = (step for step in steps if step.axis == given.axis)
    # An axis that is not in the result is one of which a single row was taken.
    if step.made is None or not strides.takes_of_each(op, step, dims[given.axis], op.rows):
        return None
    return Strategy((given, WHOLE, WHOLE, WHOLE), (Shard(step.made),))


@rule("StridedSliceGrad")
def strided_slice_grad(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Puts rows back if all were taken; partials are put back among zeros."""
    given, shape = layouts[4], values.entries(op, 0)
    if not isinstance(given, Shard):
        return moved(op, layouts, (4,))
    steps = None if shape is None else strides.steps(op, len(shape))
    if shape is None or steps is None:
        return None
    axis = next((step.axis for step in steps if step.made == given.axis), None)
    size = None if axis is None else shape[axis]
    if axis is None or size is None or not dims_lib.over(size, op.rows):
        return None
    (step,) = (step for step in steps if step.axis == axis)
    if not strides.takes_of_each(op, step, size, op.rows):
        return None
    return Strategy((Share(axis), WHOLE, WHOLE, WHOLE, given), (Shard(axis),))


@rule("Pad", "PadV2")
def pad(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows on an axis that is not padded."""
    given, others = layouts[0], (WHOLE,) * (len(layouts) - 1)
    if isinstance(given, Shard):
        return Strategy((given, *others), (given,)) if _not_padded(op, given.axis) else None
    # Partials are padded before they are reduced: sums and products of 0 are 0, but not of others.
    constant = _constant(op.inputs[2]) if op.type == "PadV2" else 0
    if given in (SUM, PROD) and constant != 0:
        return None
    return moved(op, layouts)


def _not_padded(op: Op, axis: int) -> bool:
    paddings = values.entries(op, 1)
    return paddings is not None and list(paddings[axis]) == [0, 0]


def _constant(tensor: Any) -> Any:
    """Returns the number in a constant of the graph, None if a tensor is not constant."""
    if tensor.op.type != "Const":
        return None
    return graph_lib.constant(tensor).item()


@rule("MirrorPad", "MirrorPadGrad")
def mirror_pad(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows that are not mirrored, and partials; the gradient adds up mirrored entries."""
    given = layouts[0]
    if isinstance(given, Shard):
        return Strategy((given, WHOLE), (given,)) if _not_padded(op, given.axis) else None
    if op.type == "MirrorPadGrad" and given not in (SUM, MEAN):
        return None
    return moved(op, layouts)


@rule("ReverseV2")
def reverse(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows on an axis that is not reversed."""
    given, axes, rank = layouts[0], op.ints(1), op.rank(0)
    if not isinstance(given, Shard):
        return moved(op, layouts)
    if axes is None or rank is None:
        return None
    if given.axis in {axis % rank for axis in axes}:
        return None
    return Strategy((given, WHOLE), (given,))


@rule("ReverseSequence")
def reverse_sequence(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows on axes that are not reversed; each entry of the batch axis has a length."""
    given, lengths = layouts
    along, batch = op.attr("seq_dim"), op.attr("batch_dim")
    if isinstance(given, Shard):
        if given.axis == along:
            return None
        return Strategy((given, Shard(0) if given.axis == batch else WHOLE), (given,))
    if isinstance(lengths, Shard):
        return Strategy((Shard(batch), lengths), (Shard(batch),))
    return moved(op, layouts)
