"""Strategies of operations on ragged units, and on indices into a tower's entries.

Rules are written for the batch's rows. But they hold for any unit that an axis counts, if all
operands that are split count the same one. So a rule is applied to the values of a sparse tensor
as if these were the rows. An operation that relates two units, such as the sum of each row's
values, has a separate rule; see `rule.pointing`.
"""

from __future__ import annotations

from typing import Any, Container, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import environment
from replicate.layouts import dims as dims_lib
from replicate.layouts.dims import ROWS, Monomial
from replicate.layouts.facts import Facts
from replicate.layouts.kinds import FILLS
from replicate.layouts.layout import (
    WHOLE,
    Blocks,
    Demand,
    Even,
    Indices,
    Layout,
    Own,
    Partial,
    Shard,
    Share,
    Strategy,
    Unit,
)
from replicate.layouts.rule import Rule, pointing_rule_of

# Reductions without a neutral value: a tower without entries has no partial of them.
_OF_SOME = ("mean", "max", "min")
# Kernels that fail for a batch without entries, or return uninitialised memory.
_NEED_ROWS: tuple[str, ...] = (
    "Conv", "Depthwise", "Dilation", "MaxPool", "AvgPool", "Fractional", "FusedBatchNorm",
    "FusedPad", "FusedResize", "Resize", "CropAndResize", "LRN", "LSTM", "GRU", "BlockLSTM",
    "Cudnn", "ExtractImagePatches", "ExtractVolumePatches", "Cholesky", "MatrixInverse", "Qr",
    "Svd", "SelfAdjoint", "Eig", "CTC", "SparseSegmentSumGrad", "SparseSegmentMeanGrad",
    "SparseSegmentSqrtNGrad", "BandedTriangularSolve", "GatherNd", "MirrorPad", "NearestNeighbors",
    "ScatterNd", "SparseMatMul", "TensorScatter", "UnravelIndex",
)  # fmt: skip


if environment.is_1(tf.__version__):  # There, these crash the process.
    _NEED_ROWS += ("Einsum", "ReverseV2")


def is_ragged(layout: Layout | Demand) -> bool:
    """Whether a layout counts another unit than rows, or indexes a tower's entries."""
    if isinstance(layout, (Own, Partial, Shard, Share)):
        return layout.unit != ROWS
    return isinstance(layout, Indices)


def unless_ragged(layout: Layout) -> Layout:
    """Returns a layout, `Whole` if it is ragged."""
    return WHOLE if is_ragged(layout) else layout


def as_rows(facts: Facts, tensor: Any, layout: Layout) -> Layout:
    """Returns a layout without another unit: blocks of rows are shared as rows, others are whole.

    A tower then has as many entries for each of its rows, but these belong to other rows.
    """
    if not is_ragged(layout):
        return layout
    dims = facts.dims(tensor)
    if dims is None or not isinstance(layout, Shard) or not isinstance(layout.unit, Blocks):
        return WHOLE
    return WHOLE if dims_lib.over(dims[layout.axis], facts.rows) is None else Shard(layout.axis)


def strategy(
    facts: Facts, operation: Any, layouts: Sequence[Layout], rule: Rule | None
) -> Strategy | None:
    """Returns the strategy of an operation by its rules, None if there is none.

    Args:
        facts: The `Facts`.
        operation: The operation.
        layouts: Those of its inputs.
        rule: The rule of its type, which is written for rows; None if it has none.
    """
    is_plain = not any(map(is_ragged, layouts))
    points = pointing_rule_of(operation.type)
    if is_plain and rule is not None:
        found = rule(facts.op_of(operation), layouts)
        if found is None and points is not None:
            found = points(facts.op_of(operation), layouts)
        has_rows = found is not None and any(demand != WHOLE for demand in found.inputs)
        # A tensor may also be filled to the size of a ragged unit.
        filled = None if has_rows else _size_of_filled(facts, operation)
        if filled is None:
            return found
        found = rule(facts.op_of(operation, filled), layouts)
        return None if found is None else _renamed(found, filled)
    # Partials that a tower may lack are reduced first.
    seen = [unless_ragged(one) if isinstance(one, Partial) else one for one in layouts]
    if seen != list(layouts) and all(one == WHOLE for one in seen):
        return None
    found = None if points is None else points(facts.op_of(operation), seen)
    if found is not None or rule is None:
        return found
    # Rules for rows may use indices as numbers: those of one device, split.
    plain = [Shard(0, one.unit) if isinstance(one, Indices) else one for one in seen]
    kinds = {one.unit for one in plain if isinstance(one, Shard)}
    if len(kinds) > 1:
        # Even entries have an order of their own, so they are joined for an operand of others, or
        # for the first of several.
        first = next(one.unit for one in plain if isinstance(one, Shard))
        kinds = {one for one in kinds if not isinstance(one, Even)} or {first}
        plain = [WHOLE if isinstance(o, Shard) and o.unit not in kinds else o for o in plain]
    if len(kinds) > 1:
        # An operand of rows, such as a filled one, is taken whole, and split into blocks like the
        # other operand. So are operands whose blocks have other sizes.
        blocks = [one for one in kinds if isinstance(one, Blocks)]
        if len(blocks) < len(kinds - {ROWS}) or len({one.many for one in blocks}) > 1:
            return None
        most = max(blocks, key=lambda one: len(one.parts))
        plain = [WHOLE if isinstance(o, Shard) and o.unit != most else o for o in plain]
        kinds = {most}
    unit = next(iter(kinds), ROWS)
    may_be_none = facts.may_be_none(unit)
    if may_be_none and operation.type.startswith(_NEED_ROWS):
        return None
    found = rule(
        facts.op_of(operation, unit), [Shard(o.axis) if isinstance(o, Shard) else o for o in plain]
    )
    if found is None or unit == ROWS:
        return found
    if may_be_none and _leaves_a_size_open(facts, operation, found):
        return None
    if isinstance(unit, Blocks) and any(isinstance(one, Own) for one in found.inputs):
        return None  # A tower's entries do not follow each other.
    return _renamed(found, unit)


def _leaves_a_size_open(facts: Facts, operation: Any, found: Strategy) -> bool:
    """Whether a `Reshape` has to resolve -1 for another axis, which it cannot without entries."""
    if operation.type != "Reshape" or not isinstance(found.inputs[1], Share):
        return False
    shape, axis = facts.value(operation.inputs[1]), found.inputs[1].axis
    return shape is None or any(size == -1 for at, size in enumerate(shape.flat) if at != axis)


def _size_of_filled(facts: Facts, operation: Any) -> str | None:
    """Returns the ragged unit on axis 0 of a tensor that is filled with a value without rows."""
    dims = facts.dims(operation.outputs[0]) if operation.type in FILLS else None
    if not dims or not isinstance(dims[0], Monomial):
        return None
    return next((name for name in dims[0].symbols if name in facts.ragged), None)


def _renamed(found: Strategy, unit: Unit) -> Strategy:
    """Returns a strategy for rows as one for another unit."""
    inputs = tuple(_as(one, unit) for one in found.inputs)
    return Strategy(inputs, tuple(_as(one, unit) for one in found.outputs), found.sizes)


def _as(layout: Any, unit: Unit) -> Any:
    if isinstance(layout, (Own, Shard, Share)) and layout.unit == ROWS:
        return layout._replace(unit=unit)
    # A tower's share of blocks is that of rows, so partials need no other weights.
    if isinstance(layout, Partial) and layout.op in _OF_SOME and not isinstance(unit, Blocks):
        return layout._replace(unit=unit)
    return layout


def are_counted(
    strategy: Strategy, operation: Any, facts: Facts, in_towers: Sequence[Container[Any]]
) -> bool:
    """Whether towers can tell how many entries of a ragged unit an operation's outputs have.

    Args:
        strategy: The strategy of the operation.
        operation: The operation.
        facts: The `Facts`.
        in_towers: Collections of the operations that towers run.
    """
    for layout in filter(is_ragged, strategy.outputs):
        measure = facts.symbols.get(getattr(layout, "unit", ROWS))
        made_by = operation if measure is None else measure.tensor.op
        if made_by is not operation and not any(made_by in some for some in in_towers):
            return False
    return True
