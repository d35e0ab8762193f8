"""Draws how a search went."""

from typing import Dict, NamedTuple, Optional

import numpy as np

from examples.runs import figures

_WINDOWS = 20  # The line through a panel's points is the mean over a 20th of them.
_MAX_POINTS = 400
_DASHES = (":", "-.")  # of the lines that mark steps, in their order


class Series(NamedTuple):
    """The curves of one panel."""

    label: str
    values: Dict[int, float]  # by step
    target: Optional[float] = None  # what the search aims at
    is_sampled: bool = True  # whether it is a mean over few networks or images, and so scatters


def draw_search(panels, title="", starts=None):
    """Draws series over the steps of a search, one panel below another.

    Args:
        panels: List of `Series`; those without values are left out.
        title: Stands above the panels.
        starts: Dict from words to the step at which what they say starts; 0 is not marked. None:
            nothing is.

    Returns:
        A `matplotlib` figure.

    Raises:
        ValueError: If there is nothing to draw.
    """
    drawn = [panel for panel in panels if panel.values]
    if not drawn:
        raise ValueError(
            f"A plot needs at least one series with values, but of "
            f"{', '.join(panel.label for panel in panels) or 'no series'} there are none. Let the "
            "search run until it has written summaries."
        )
    figure = figures.new(9, 0.8 + 1.9 * len(drawn))
    all_axes = figure.subplots(len(drawn), sharex=True, squeeze=False)[:, 0]
    for axes, series in zip(all_axes, drawn):
        _draw_series(axes, series)
        for dashes, (words, step) in zip(_DASHES, (starts or {}).items()):
            if not step:
                continue
            line = {"color": figures.ink(), "alpha": 0.5, "linestyle": dashes}
            axes.axvline(step, **line)
            if axes is all_axes[0]:
                axes.plot([], [], **line, label=words)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="best")
    all_axes[-1].set_xlabel("step")
    all_axes[-1].xaxis.set_major_formatter("{x:,.0f}")
    figure.align_ylabels()
    if title:
        figure.suptitle(figures.plain(title))
    return figure


def line_of(series):
    """Returns steps and values of the line that shows a series, of one that scatters the mean."""
    steps = np.array(sorted(series.values))
    values = np.array([series.values[step] for step in steps])
    width = max(1, len(steps) // _WINDOWS) if series.is_sampled else 1
    return tuple(_thinned(_running_mean(steps, width), _running_mean(values, width)))


def _draw_series(axes, series):
    """Draws points and, where they scatter, their running mean."""
    steps = np.array(sorted(series.values))
    values = np.array([series.values[step] for step in steps])
    if series.is_sampled:
        shown = _thinned(steps, values)
        axes.plot(*shown, ".", color=figures.BLUE, alpha=0.35, markersize=4, markeredgewidth=0)
        axes.plot(*line_of(series), color=figures.BLUE)
    else:
        marker = "." if len(steps) == 1 else None
        axes.plot(*line_of(series), color=figures.BLUE, marker=marker)
        axes.set_ylim(bottom=0)
    if series.target is not None:
        label = f"target {series.target:.4g}"
        axes.axhline(series.target, color=figures.VERMILION, linestyle="--", label=label)
    axes.set_ylabel(figures.plain(series.label))
    axes.grid(alpha=0.2)


def _thinned(steps, values):
    return zip(*figures.thinned(list(zip(steps, values)), _MAX_POINTS))


def _running_mean(values, width):
    """Returns the means over `width` neighbours, [n - width + 1]."""
    return np.convolve(values, np.ones(width) / width, mode="valid")
