"""Draws how the controller made up its mind: the probabilities of every choice over time.

A panel shows one choice. The areas of its alternatives, of heights that add up to 1, lie one above
another in the order of the space; that of the alternative taken has a colour of its own. At the
left they are named, where the panel has room for it.
"""

import collections

import numpy as np
from matplotlib import colors
from matplotlib.figure import Figure

from examples.runs import figures

TAKEN = figures.ORANGE
_OTHERS = colors.LinearSegmentedColormap.from_list("others", ["#cfe3f1", "#12507b"])
_COLUMNS = 8  # of panels, at most
_MAX_POINTS = 60
_LONGEST = 12  # letters of a name
_SHORT = {
    "kernel_size": "kernel",
    "expansion_filters": "expansion",
    "use_squeeze_and_excite": "SE",
    "filters": "width",
}
_ROOM = 0.015  # share of a panel's height that a name needs, per point of its letters


def by_block(nodes):
    """Returns the choices that are open, by block.

    Args:
        nodes: The `Node`s of an `Analysis`.

    Returns:
        Dict from the beginning of paths, such as `blocks/2`, to lists of the numbers in `nodes` of
        those that have more than one alternative.
    """
    blocks = collections.OrderedDict()
    for number, node in enumerate(nodes):
        if len(node.choices) > 1:
            blocks.setdefault("/".join(node.path.split("/")[:2]), []).append(number)
    return blocks


def name_within_block(path):
    """Returns a short name of the choice at a path, without its block.

    >>> name_within_block("blocks/2/layers/1/layer/choices/0/kernel_size")
    'layer 1 kernel'
    """
    parts = path.split("/")[2:]
    start = ["layer", parts[1]] if parts[:1] == ["layers"] else parts[:1]
    rest = [part for part in parts[2:] if part not in ("choices", "layer") and not part.isdigit()]
    return " ".join(_SHORT.get(word, word) for word in [*start, *rest])


def alternatives(node):
    """Returns the names of a choice's alternatives, without the words that all of them have."""
    words = [text.replace(",", "").split() for text in node.choices]
    common = set.intersection(*map(set, words))
    short = [" ".join(word for word in each if word not in common) for each in words]
    return short if all(short) else list(node.choices)


def color(node, index):
    """Returns the colour of an alternative: one for that taken, darker and darker for others."""
    if index == node.index:
        return TAKEN
    return colors.to_hex(_OTHERS(index / max(1, len(node.choices) - 1)))


def draw_all(analysis):
    """Draws all open choices of a search, those of a block side by side.

    Args:
        analysis: An `Analysis`.

    Returns:
        A `matplotlib` figure.
    """
    blocks = by_block(analysis.nodes)
    columns = min(_COLUMNS, max(map(len, blocks.values())))
    rows = [
        (block if not start else "", numbers[start : start + columns])
        for block, numbers in blocks.items()
        for start in range(0, len(numbers), columns)
    ]
    figure = figures.new(max(6, 2.0 * columns), 0.6 + 1.3 * len(rows))
    all_axes = figure.subplots(len(rows), columns, squeeze=False)
    for (block, numbers), row in zip(rows, all_axes):
        for axes in row:
            axes.set_axis_off()
        for axes, number in zip(row, numbers):
            axes.set_axis_on()
            node = analysis.nodes[number]
            draw_node(axes, analysis, number)
            taken = f"{alternatives(node)[node.index]}, {node.probability:.0%}"
            title = f"{name_within_block(node.path)}: {taken if node.reached else 'not reached'}"
            axes.set_title(figures.plain(title), fontsize=7.5, loc="left")
        if block:
            row[0].annotate(
                figures.plain(block.replace("/", " ").replace("blocks", "block")),
                (0, 1),
                (0, 16),
                xycoords="axes fraction",
                textcoords="offset points",
                fontsize=10,
                fontweight="bold",
            )
    title = f"{analysis.ssd}: probabilities over {max(analysis.probabilities):,} steps"
    figure.suptitle(figures.plain(title))
    return figure


def draw_one(analysis, number):
    """Draws choice `number` of `analysis.nodes` alone; returns a `matplotlib` figure."""
    figure = Figure(figsize=(2.6, 1.2))
    # The same margins for all, so that panels side by side are aligned.
    draw_node(figure.add_axes([0.34, 0.17, 0.64, 0.79]), analysis, number, font_size=8)
    return figure


def draw_node(axes, analysis, number, font_size=6):
    """Draws the panel of choice `number` of `analysis.nodes` into `axes`."""
    node = analysis.nodes[number]
    steps = figures.thinned(sorted(analysis.probabilities), _MAX_POINTS)
    rows = np.array([analysis.probabilities[step][number] for step in steps])  # [steps, choices]
    if len(steps) == 1:  # An area has a beginning and an end.
        steps, rows = [steps[0] - 1, steps[0]], np.repeat(rows, 2, axis=0)
    areas = axes.stackplot(
        steps,
        np.round(rows.T, 3),
        colors=[color(node, index) for index in range(len(node.choices))],
        edgecolor="white",
        linewidth=0.4,
        alpha=1.0 if node.reached else 0.35,
    )
    areas[node.index].set_linewidth(1.0)
    axes.set(xlim=(steps[0], steps[-1]), ylim=(0, 1), xticks=[steps[0], steps[-1]])
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.tick_params(labelsize=font_size, length=2, pad=1)
    for label, side in zip(axes.get_xticklabels(), ("left", "right")):
        label.set_horizontalalignment(side)
    tops = np.cumsum(rows[0])
    names = [
        (top - share / 2, name)
        for top, share, name in zip(tops, rows[0], alternatives(node))
        if share > _ROOM * font_size
    ]
    short = [name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…" for _, name in names]
    axes.set_yticks([place for place, _ in names], map(figures.plain, short))
