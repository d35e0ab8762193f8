"""Draws memory and time of a RevNet's gradients over its depth, a line for each way to them."""

import numpy as np

from examples.runs import figures

_LINES = {
    "stored": (figures.VERMILION, "o", "-"),
    "recompute_grad": (figures.ORANGE, "s", "-"),
    "recomputed": (figures.BLUE, "D", "-"),
    "by hand": (figures.SKY, "v", "--"),
}


def save(records, path):
    """Saves the plot of records, as `gradient_costs.measure` returns them, as a PNG file."""
    figures.png(lambda: draw(records), path)


def draw(records):
    """Returns the plot as a `matplotlib` figure."""
    figure = figures.new(9, 3.8)
    panels = figure.subplots(1, 2)
    for way in dict.fromkeys(record["way"] for record in records):
        mine = sorted((r for r in records if r["way"] == way), key=lambda r: r["layers"])
        color, marker, style = _LINES[way]
        values = [r["activations_mb"] for r in mine], [r["step_ms"]["median"] for r in mine]
        for axes, heights in zip(panels, values):
            axes.plot(
                [r["layers"] for r in mine],
                np.asarray(heights),
                style,
                marker=marker,
                markersize=4,
                color=color,
                label=way,
            )
    titles = "activations at the peak (MB)", "step (ms, median)"
    for axes, title in zip(panels, titles):
        axes.set(title=title, xlabel="layers")
        axes.set_xticks(sorted({record["layers"] for record in records}))
        highest = max(line.get_ydata().max() for line in axes.lines)
        axes.set_ylim(0, 1.08 * highest)
        axes.grid(alpha=0.2)
    # Outside of the panels, because lines may cover any corner of them.
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center")
    first = records[0]
    figure.suptitle(f"Gradients of {first['batch_size']} images, engine {first['engine']}")
    return figure
