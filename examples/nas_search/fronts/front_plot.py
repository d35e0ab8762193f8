"""Draws accuracy over cost: networks found beside random ones, and the fronts of both as steps."""

from __future__ import annotations

import re
from typing import Any, Sequence

import numpy as np

from examples.nas_search.fronts.front_statistics import SAME_TIME, Comparison
from examples.nas_search.fronts.hypervolume import Point
from examples.nas_search.fronts.trained import FOUND, RANDOM, Trained
from examples.runs import figures

# On white and on black all have a contrast of 3 at least; shapes and dashes tell them apart, too.
_MARKS = {FOUND: ("D", figures.VERMILION, 8), RANDOM: ("o", figures.BLUE, 5)}
_LINES = {
    FOUND: ("-", figures.VERMILION),
    RANDOM: ("-", figures.BLUE),
    SAME_TIME: ("--", figures.GREEN),
}
_MAX_TICKS = 8
# Lines and words have the colour of the text, which a file of its own must choose.
_COLORS = (
    "<style>svg { color: #1a1a1a; background: #ffffff } "
    "@media (prefers-color-scheme: dark) { svg { color: #e6e6e6; background: #15181b } }</style>"
)


def draw(networks: Sequence[Trained], comparison: Comparison, unit: str) -> Any:
    """Draws the networks, and how accurate the best one up to each cost is.

    Args:
        networks: All of them.
        comparison: That of `front_statistics.compare`.
        unit: Unit of the costs.

    Returns:
        A `matplotlib` figure. Where networks have several trainings, bars are one standard
        deviation of them to each side.
    """
    figure = figures.new(9, 5)
    axes = figure.subplots()
    axes.set_xscale("log", base=2)
    for kind, (dashes, color) in _LINES.items():
        costs, accuracies = _corners(comparison.steps[kind], comparison.reference)
        label = _label(kind, comparison)
        axes.step(costs, accuracies, dashes, where="post", color=color, label=label)
    for kind, (marker, color, size) in _MARKS.items():
        _draw_networks(axes, [each for each in networks if each.kind == kind], marker, color, size)
    targets = sorted({each.target for each in networks})
    for target in targets:
        axes.axvline(target, color=figures.ink(), alpha=0.3, linewidth=0.8, linestyle=":")
    shown = figures.thinned(targets, _MAX_TICKS)
    axes.set_xticks(shown, [f"{target:g}" for target in shown])
    axes.set_xticks([], minor=True)
    axes.set_xlabel(figures.plain(f"cost: {unit}, logarithmic; dotted: targets"))
    axes.set_ylabel("accuracy on test images (%)")
    axes.grid(axis="y", alpha=0.2)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0)
    return figure


def standalone(picture: str) -> str:
    """Returns an `<svg>` element as a file of its own, on dark or light as the reader has it."""
    return re.sub(r"(<svg\b[^>]*>)", rf"\1{_COLORS}", picture, count=1) + "\n"


def _label(kind: str, comparison: Comparison) -> str:
    return {
        FOUND: "found: best up to each cost",
        RANDOM: "random, as many: best up to each cost, mean",
        SAME_TIME: f"random, best of {comparison.affordable} by validation: likewise",
    }[kind]


def _corners(steps: Sequence[Point], reference: Point) -> tuple[list[float], list[float]]:
    """Returns costs and accuracies in % of the corners of steps, up to the reference point."""
    ends = [step for step in steps if step.cost < reference.cost]
    if not ends:
        return [], []
    line = [Point(ends[0].cost, reference.accuracy), *ends]
    line.append(Point(reference.cost, ends[-1].accuracy))
    return [each.cost for each in line], [100 * each.accuracy for each in line]


def _draw_networks(
    axes: Any, networks: Sequence[Trained], marker: str, color: str, size: int
) -> None:
    deviations = [100 * np.std([each.test for each in network.trainings]) for network in networks]
    has_bars = any(len(network.trainings) > 1 for network in networks)
    axes.errorbar(
        [network.cost for network in networks],
        [100 * network.test for network in networks],
        deviations if has_bars else None,
        fmt=marker,
        color=color,
        markersize=size,
        markerfacecolor=color if marker == "D" else "none",
        elinewidth=1,
        capsize=2,
        label=f"a network: {networks[0].kind}",
    )
