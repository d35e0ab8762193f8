"""Reductions over axes, cumulative operations, and counts."""

from __future__ import annotations

from typing import Sequence

from replicate.layouts.layout import (
    ALL,
    ANY,
    MAX,
    MEAN,
    MIN,
    PROD,
    SUM,
    WHOLE,
    Demand,
    Layout,
    Partial,
    Shard,
    Strategy,
)
from replicate.layouts.rule import Op, rule
from replicate.layouts.shapes_of_layers import channel

# By type: the partial that a reduction over rows gives.
OVER_ROWS: dict[str, Partial] = {
    "Sum": SUM,
    "Mean": MEAN,
    "Max": MAX,
    "Min": MIN,
    "Prod": PROD,
    "All": ALL,
    "Any": ANY,
}


@rule(*OVER_ROWS, "EuclideanNorm", "ReduceJoin", "ArgMax", "ArgMin")
def reduction(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows that are not reduced; a reduction over rows gives partials."""
    given, rank, axes = layouts[0], op.rank(0), op.ints(1)
    if isinstance(given, Partial):
        return _of_parts(op, layouts)
    if not isinstance(given, Shard) or rank is None or axes is None:
        return None
    reduced = {axis % rank for axis in axes}
    if given.axis not in reduced:
        gone = 0 if op.attr("keep_dims") else sum(axis < given.axis for axis in reduced)
        return Strategy((given, WHOLE), (Shard(given.axis - gone),))
    kind = OVER_ROWS.get(op.type)
    # The position of a maximum, a norm, or joined strings of towers cannot be reduced further.
    if kind is None or op.inputs[0].dtype.is_quantized or _rounds(op):
        return None
    return Strategy((given, WHOLE), (kind,))


def _rounds(op: Op) -> bool:
    """Whether a mean of integers is rounded, and so differs from the mean of the towers' means."""
    return op.type == "Mean" and op.inputs[0].dtype.is_integer


def _of_parts(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Returns the strategy for partials, if the order of the two reductions does not matter."""
    given = layouts[0]
    # Sums and means can be exchanged with each other, all other reductions only with their like.
    linear = given in (SUM, MEAN) and op.type in ("Sum", "Mean")
    if layouts[1] != WHOLE or _rounds(op) or not (linear or given == OVER_ROWS.get(op.type)):
        return None
    return Strategy(tuple(layouts), (given,))


@rule("L2Loss")
def half_sum_of_squares(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Adds up over rows."""
    # Not of partials: the square of a sum is not the sum of the squares.
    return Strategy((layouts[0],), (SUM,)) if isinstance(layouts[0], Shard) else None


@rule("BiasAddGrad")
def bias_add_grad(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Adds up over all axes except that of channels.

    Rows on axes after the channels' are not split: if these axes have a single entry, TensorFlow
    1.15 adds everything to the first channel.
    """
    given, rank = layouts[0], op.rank(0)
    if given in (SUM, MEAN):
        return Strategy((given,), (given,))
    if not isinstance(given, Shard) or rank is None or given.axis > channel(op, rank):
        return None
    return Strategy((given,), (Shard(0) if given.axis == channel(op, rank) else SUM,))


@rule("Cumsum", "Cumprod", "CumulativeLogsumexp")
def cumulative(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows that are not on the axis along which entries are accumulated."""
    given, rank, axis = layouts[0], op.rank(0), op.ints(1)
    # Running sums of partial sums add up to those of the whole, and products likewise.
    if layouts[1] == WHOLE and (
        (op.type == "Cumsum" and given in (SUM, MEAN)) or (op.type == "Cumprod" and given == PROD)
    ):
        return Strategy(tuple(layouts), (given,))
    if not isinstance(given, Shard) or rank is None or axis is None or axis[0] % rank == given.axis:
        return None
    return Strategy((given, WHOLE), (given,))


@rule("Bincount")
def bincount(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Counts entries, on whichever axis rows are."""
    wanted = _weighted(op, layouts)
    return None if wanted is None else Strategy((wanted[0], WHOLE, wanted[1]), (SUM,))


@rule("DenseBincount")
def dense_bincount(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Counts entries of a vector, or of each row of a matrix."""
    wanted, rank = _weighted(op, layouts), op.rank(0)
    if wanted is None or rank is None:
        return None
    counts = MAX if op.attr("binary_output") else SUM  # Whether there are any, or how many.
    within = rank == 2 and wanted[0] == Shard(0)
    return Strategy((wanted[0], WHOLE, wanted[1]), (Shard(0) if within else counts,))


def _weighted(op: Op, layouts: Sequence[Layout]) -> tuple[Demand, Demand] | None:
    """Returns the demands of the entries that are counted, and of their weights.

    Without weights, their input is an empty vector. Weights must be known to have the entries'
    shape, since kernels also accept other shapes with as many entries.
    """
    shards = [layout for layout in (layouts[0], layouts[2]) if isinstance(layout, Shard)]
    entries, weights = op.dims(0), op.dims(2)
    if not shards or entries is None or weights is None:
        return None
    if weights == (0,) and 0 not in entries:
        return shards[0], WHOLE
    return (shards[0], shards[0]) if weights == entries else None
