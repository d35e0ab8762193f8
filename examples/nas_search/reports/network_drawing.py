"""Draws a network: its layers from the image to the classes, what they are and what they cost.

A *row* is a layer. Its box is the wider the more channels it has; the colour is that of the longer
side of its kernel.
An activation is told in the row of the layer before it, an endpoint for detection by a triangle.
"""

import math
from typing import List, NamedTuple, Optional, Tuple, Union

from matplotlib import patches

from examples.nas_search import mobile_search_space_v3 as space
from examples.nas_search import schema, search_space_utils
from examples.nas_search.costs import network_cost
from examples.nas_search.reports import architecture_text
from examples.runs import figures

_KERNEL_COLORS = {
    **{1: figures.GREY, 3: figures.SKY, 5: figures.ORANGE, 7: "#4dbd9a"},
    **{9: "#f0e442", 11: "#cc79a7"},
}
_OTHER_COLOR = "#e4d8ea"
_WIDEST, _NARROWEST = 5.6, 3.6  # boxes, in inches
_ROW = 0.3  # height of a row, in inches
_SHARE = 1.5  # length of the bar of the largest share, in inches
# Where columns are, in inches from the middle of the boxes.
_BLOCKS, _SIZES, _SHARES = -4.0, 4.1, 4.25


class Row(NamedTuple):
    """A layer of the drawing."""

    block: Optional[int]  # number of the block; None for the classifier
    text: str
    # Int, or pair (vertical, horizontal); None if it is no convolution.
    kernel_size: Optional[Union[int, Tuple[int, int]]]
    is_skipped: bool = False
    is_residual: bool = False
    is_endpoint: bool = False
    cost: Optional[network_cost.LayerCost] = None


def rows_of(model_spec, layer_costs):
    """Returns the layers of a network as `Row`s.

    Args:
        model_spec: A `ConvTowerSpec` whose choices have one alternative each.
        layer_costs: Its `LayerCost`s, from `network_cost.network_cost`.
    """
    costs = {layer.path: layer for layer in layer_costs}
    rows: List[Row] = []
    for number, block in enumerate(model_spec.blocks):
        for index, layer in enumerate(block.layers):
            layer = _chosen(layer)
            if isinstance(layer, space.ActivationSpec) and rows:
                rows[-1] = rows[-1]._replace(text=f"{rows[-1].text}, {layer.name}")
            elif isinstance(layer, space.DetectionEndpointSpec) and rows:
                rows[-1] = rows[-1]._replace(is_endpoint=True)
            else:
                rows.append(_row(number, layer, costs.get(f"blocks/{number}/layers/{index}")))
    return [*rows, Row(None, "classifier", 1, cost=costs.get("classifier"))]


def draw_network(analysis, title=""):
    """Draws the network that a search found.

    Args:
        analysis: An `Analysis`.
        title: Stands above the drawing.

    Returns:
        A `matplotlib` figure.
    """
    rows = rows_of(analysis.network, analysis.layer_costs)
    image = "×".join(map(str, analysis.settings["image_shape"]))
    left, right = _BLOCKS - 0.15, _SHARES + _SHARE + 0.65
    height = _ROW * (len(rows) + 2.2) + (0.5 if title else 0)
    figure = figures.new(right - left, height)
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set(xlim=(left, right), ylim=(-(len(rows) + 0.3), 1.9 + (1 if title else 0)))
    if title:
        axes.text(left, 2.2, figures.plain(title), fontsize=12)
    axes.text(0, 1.2, f"image {image}", ha="center", va="center")
    axes.text(_SIZES, 1.2, "output", ha="right", va="center", fontsize=10)
    axes.text(_SHARES + 0.05, 1.2, "multiply-adds", va="center", fontsize=10)
    _draw_kernels(axes, rows, left)
    axes.annotate("", (0, 0.5), (0, 0.95), arrowprops=_ARROW)

    shares = [row.cost.madds / max(1, analysis.madds) if row.cost else 0.0 for row in rows]
    lengths = _lengths(rows)
    for place, (row, share, length) in enumerate(zip(rows, shares, lengths)):
        _draw_row(axes, -place, row, length)
        if row.block is not None and (not place or rows[place - 1].block != row.block):
            width = architecture_text.text(analysis.network.blocks[row.block].filters)
            axes.text(_BLOCKS, 0.15 - place, f"block {row.block}", va="center", fontsize=10)
            axes.text(_BLOCKS, -0.27 - place, f"width {width}", va="center", fontsize=8)
            axes.plot([left, right], [0.5 - place] * 2, color=figures.ink(), alpha=0.15, lw=0.8)
        if row.cost and row.cost.madds:
            bar = _SHARE * share / max(shares)
            axes.barh(-place, bar, 0.55, left=_SHARES + 0.05, color=figures.BLUE)
            axes.text(_SHARES + bar + 0.12, -place, f"{share:.1%}", va="center", fontsize=8)
    return figure


_ARROW = {
    "arrowstyle": "-|>",
    "color": figures.ink(),
    "shrinkA": 0,
    "shrinkB": 0,
    "lw": 0.8,
    "mutation_scale": 7,
}


def _chosen(spec):
    """Returns the only alternative of a choice; other specs as they are."""
    while isinstance(spec, schema.OneOf):
        spec = spec.choices[0]
    return spec


def _row(block, layer, cost):
    inner = _chosen(layer.layer) if isinstance(layer, space.ResidualSpec) else layer
    if search_space_utils.is_zero(inner):
        return Row(block, "skipped", None, is_skipped=True)
    kernel_size = _chosen(getattr(inner, "kernel_size", None))
    if isinstance(kernel_size, list):
        kernel_size = tuple(kernel_size)
    text = architecture_text.text(inner).replace("squeeze-and-excite", "SE")
    return Row(block, text, kernel_size, is_residual=inner is not layer, cost=cost)


def _side(kernel_size):
    """Returns the longer side of a kernel, None of none."""
    return max(kernel_size) if isinstance(kernel_size, tuple) else kernel_size


def _lengths(rows):
    """Returns the lengths of the boxes in inches; they grow with the logarithm of the channels."""
    logs = [math.log(row.cost.output_shape[-1]) if row.cost else None for row in rows]
    known = [log for log in logs if log is not None] or [0.0]
    low, high = min(known), max(known)
    return [
        _NARROWEST
        if log is None
        else _NARROWEST + (_WIDEST - _NARROWEST) * (log - low) / max(1e-9, high - low)
        for log in logs
    ]


def _draw_row(axes, place, row, length):
    """Draws box, residual connection, endpoint and output size of a row."""
    face = _KERNEL_COLORS.get(_side(row.kernel_size), _OTHER_COLOR)
    box = patches.FancyBboxPatch(
        (-length / 2 + 0.1, place - 0.3),
        length - 0.2,
        0.6,
        boxstyle="round,pad=0,rounding_size=0.1",
        facecolor="none" if row.is_skipped else face,
        edgecolor=figures.ink(),
        linestyle=":" if row.is_skipped else "-",
        linewidth=0.8 if row.is_skipped else 0.4,
        mutation_aspect=_ROW,
    )
    axes.add_patch(box)
    # In a box it is read on the box's colour, whatever the page's is.
    color = figures.ink() if row.is_skipped else "black"
    axes.text(0, place, figures.plain(row.text), ha="center", va="center", color=color, fontsize=8)
    if row.is_residual:
        _draw_residual(axes, place, length / 2 - 0.1)
    if row.is_endpoint:
        axes.plot(-length / 2 - 0.05, place, ">", color=figures.VERMILION, markersize=5)
    if row.cost:
        size = "×".join(map(str, row.cost.output_shape))
        axes.text(_SIZES, place, size, ha="right", va="center", fontsize=8)


def _draw_residual(axes, place, side):
    """Draws the way around a box whose right side is at `side`: from above it to below it."""
    inner, outer = side - 0.25, side + 0.22
    top, bottom = place + 0.42, place - 0.42
    axes.plot([inner, outer, outer], [top, top, bottom], color=figures.ink(), linewidth=0.8)
    axes.annotate("", (inner, bottom), (outer, bottom), arrowprops=_ARROW)


def kernel_legend(rows):
    """Returns pairs of a text and a colour, one for each size of a kernel that has a colour."""
    sizes = {row.kernel_size for row in rows if _side(row.kernel_size) in _KERNEL_COLORS}
    texts = {architecture_text.kernel(size): _side(size) for size in sizes}
    in_order = sorted(texts.items(), key=lambda item: (item[1], item[0]))
    return [(f"{text} kernel", _KERNEL_COLORS[side]) for text, side in in_order]


def _draw_kernels(axes, rows, left):
    """Draws what colours and signs mean."""
    handles = [patches.Patch(color=color, label=text) for text, color in kernel_legend(rows)]
    if any(row.is_residual for row in rows):
        handles += axes.plot([], [], color=figures.ink(), lw=0.8, label="adds its input")
    if any(row.is_endpoint for row in rows):
        handles += axes.plot(
            [], [], ">", color=figures.VERMILION, markersize=5, label="endpoint for detection"
        )
    axes.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=len(handles),
        fontsize=8,
    )
