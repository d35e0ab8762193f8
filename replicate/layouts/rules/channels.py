"""Elementwise operations whose parameters are scalars, or vectors along an axis of channels."""

from __future__ import annotations

from typing import Sequence

from replicate.layouts import shapes
from replicate.layouts.layout import SUM, WHOLE, Demand, Layout, Shard, Strategy
from replicate.layouts.rule import Op, rule
from replicate.layouts.rules import partials
from replicate.layouts.shapes_of_layers import channel

shapes.elementwise("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")


def by_channel(
    op: Op, layouts: Sequence[Layout], entries: int, along: int | None
) -> Strategy | None:
    """Returns the strategy of an operation with parameters per channel.

    Args:
        op: The operation. Its first output has the shape of its first input. Further ones are the
            gradients of parameters, summed over all axes that these do not have.
        layouts: Those of its inputs.
        entries: How many inputs, the first ones, have the same shape. The others are parameters.
        along: The axis of channels, None if parameters are scalars.
    """
    axis = next((x.axis for x in layouts[:entries] if isinstance(x, Shard)), None)
    if axis is None:
        axis = along  # Then a parameter has rows.
    ranks = [op.rank(index) for index in range(len(layouts))]
    if axis is None or any(rank is None for rank in ranks):
        return None
    parameters: list[Demand] = [
        Shard(0) if rank == 1 and axis == along else WHOLE for rank in ranks[entries:]
    ]
    # The gradient of a parameter sums over all rows, unless these are the channels.
    sums = [Shard(0) if demand == Shard(0) else SUM for demand in parameters]
    return Strategy(
        (*[Shard(axis)] * entries, *parameters), (Shard(axis), *sums[: len(op.outputs) - 1])
    )


@rule("BiasAdd", "BiasAddV1")
def bias_add(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows; the bias is the same for all of them, unless rows are on the axis of channels."""
    rank = op.rank(0)
    if not any(isinstance(layout, Shard) for layout in layouts):
        return partials.keep(op, layouts)
    return None if rank is None else by_channel(op, layouts, 1, channel(op, rank))


@rule("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsGradient")
@rule("FakeQuantWithMinMaxVarsPerChannel", "FakeQuantWithMinMaxVarsPerChannelGradient")
def fake_quant(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows; channels are on the last axis."""
    rank = op.rank(0)
    if rank is None or not any(isinstance(layout, Shard) for layout in layouts):
        return None
    entries = 2 if op.type.endswith("Gradient") else 1
    return by_channel(op, layouts, entries, rank - 1 if "PerChannel" in op.type else None)


@rule("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4")
@rule("QuantizeAndDequantizeV4Grad")
def quantize(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows if the range is given; else it is computed from the whole tensor."""
    if not any(isinstance(layout, Shard) for layout in layouts):
        return None
    is_gradient = op.type.endswith("Grad")
    if not is_gradient and not op.attr("range_given"):
        return None
    axis = op.attr("axis", -1)
    return by_channel(op, layouts, 2 if is_gradient else 1, axis if axis >= 0 else None)
