"""Draws several searches in one picture: how they went, and what they cost.

A search has a number, beginning with 1, and a line of its own colour and dashes.
"""

import itertools

from examples.nas_search.reports import search_plots
from examples.runs import figures

# On white and on black all have a contrast of 3 at least.
_COLORS = (figures.BLUE, figures.VERMILION, figures.GREEN)
_DASHES = ("-", "--", ":", "-.")
_MARKERS = "osD^v<>"  # of costs
_IN_A_ROW = 5  # of the legend


def draw_searches(panels, numbers):
    """Draws series of several searches over the steps, one panel below another.

    Args:
        panels: List of lists of `Series` with the same label, one for each search. A search
            without values has no line, and at least one has.
        numbers: The number of each search.

    Returns:
        A `matplotlib` figure.
    """
    figure = figures.new(9, 1.0 + 1.9 * len(panels) + 0.25 * (len(numbers) // _IN_A_ROW))
    all_axes = figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
    styles = list(itertools.product(_DASHES, _COLORS))
    for axes, panel in zip(all_axes, panels):
        for place, series in enumerate(panel):
            dashes, color = styles[place % len(styles)]
            line = search_plots.line_of(series) if series.values else ([], [])
            marker = "o" if len(line[0]) == 1 else None
            axes.plot(*line, dashes, color=color, marker=marker, label=f"search {numbers[place]}")
        targets = {series.target for series in panel} - {None}
        for target in targets:
            axes.axhline(target, color=figures.ink(), alpha=0.6, linewidth=0.8)
        axes.set_ylabel(figures.plain(panel[0].label))
        axes.grid(alpha=0.2)
    columns = min(_IN_A_ROW, len(numbers))
    all_axes[0].legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, borderaxespad=0)
    all_axes[-1].set_xlabel("step")
    all_axes[-1].xaxis.set_major_formatter("{x:,.0f}")
    figure.align_ylabels()
    return figure


def draw_costs(shares, numbers):
    """Draws what networks cost against what the searches aimed at.

    Args:
        shares: Dict from labels of costs to lists with an entry per search: the cost of its network
            in per cent of the target, None where the search has no such cost.
        numbers: The number of each search.

    Returns:
        A `matplotlib` figure.
    """
    figure = figures.new(9, 1.2 + 0.3 * len(numbers))
    axes = figure.subplots()
    axes.axvline(100, color=figures.ink(), alpha=0.6, linewidth=0.8)
    for place, (label, row) in enumerate(shares.items()):
        known = [(share, y) for y, share in enumerate(row) if share is not None]
        marker = _MARKERS[place % len(_MARKERS)]
        color = _COLORS[place % len(_COLORS)]
        axes.plot(*zip(*known), marker, color=color, markersize=7, label=figures.plain(label))
        for share, y in known:
            axes.annotate(
                f"{share:.0f}", (share, y), (8, 0), textcoords="offset points", va="center"
            )
    axes.set_yticks(range(len(numbers)), [f"search {number}" for number in numbers])
    axes.set(ylim=(len(numbers) - 0.5, -0.5), xlabel="cost, in per cent of the target")
    axes.margins(x=0.15)
    axes.grid(alpha=0.2)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(shares), borderaxespad=0)
    return figure
