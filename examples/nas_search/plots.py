"""Draws how a search went, without a display."""

import numpy as np
from matplotlib.figure import Figure

_WINDOWS = 20  # The line through a panel's points is the mean over a 20th of them.


def plot_search(history, path, title, targets=None, controller_start=0):
    """Draws reward, accuracy, cost and entropy over the steps of a search; saves the image.

    Args:
        history: Dict of what to draw: for each of 'reward', 'accuracy', 'cost' and 'entropy' a
            dict {step: float}; of several costs 'cost/<label>' for each. A series that is empty or
            missing has no panel. Accuracies are in [0, 1], entropies in nats.
        path: Name of the PNG file, or a file opened for writing bytes.
        title: Stands above the panels.
        targets: Costs that the search aims at, `(value, unit)` by the name of the series, or None.
        controller_start: Step at which the controller starts to learn; 0 is not marked.

    Raises:
        ValueError: If there is nothing to draw.
    """
    drawn = [
        (name, series)
        for kind in _LABELS
        for name, series in history.items()
        if name.split("/")[0] == kind and series
    ]
    if not drawn:
        raise ValueError(
            f"A plot needs at least one of the series {', '.join(_LABELS)}, but none of them has a "
            "value. Let the search run until it has written summaries."
        )
    figure = Figure(figsize=(9, 0.8 + 2 * len(drawn)), layout="constrained")
    panels = figure.subplots(len(drawn), sharex=True, squeeze=False)[:, 0]
    for panel, (name, series) in zip(panels, drawn):
        _draw_series(panel, name, series)
        if targets and name in targets:
            value, unit = targets[name]
            panel.axhline(value, color="black", linestyle="--", label=f"target {value:.4g}")
            panel.set_ylabel(f"{name.partition('/')[-1] or 'cost'}\n({unit})")
        if controller_start:
            panel.axvline(controller_start, color="tab:gray", linestyle=":")
            if panel is panels[0]:
                panel.plot([], [], color="tab:gray", linestyle=":", label="controller starts")
        if panel.get_legend_handles_labels()[0]:
            panel.legend(loc="best", fontsize="small")
    panels[-1].set_xlabel("step")
    figure.align_ylabels()
    figure.suptitle(title)
    figure.savefig(path, dpi=120, format="png")


_LABELS = {
    "reward": "reward",
    "accuracy": "validation\naccuracy (%)",
    "cost": "cost",
    "entropy": "entropy of\ncontroller (nats)",
}


def _draw_series(panel, name, series):
    """Draws points and, where they scatter, their running mean."""
    steps = np.array(sorted(series))
    values = np.array([series[step] for step in steps]) * (100 if name == "accuracy" else 1)
    if name == "entropy":  # No sample: it follows from the logits.
        panel.plot(steps, values, color="tab:blue", marker="." if len(steps) == 1 else None)
        panel.set_ylim(bottom=0)
    else:
        panel.plot(steps, values, ".", color="tab:blue", alpha=0.35, markersize=4)
        width = max(1, len(steps) // _WINDOWS)
        panel.plot(_running_mean(steps, width), _running_mean(values, width), color="tab:blue")
    panel.set_ylabel(_LABELS.get(name, name.replace("/", "\n")))
    panel.grid(alpha=0.3)


def _running_mean(values, width):
    """Returns the means over `width` neighbours, [n - width + 1]."""
    return np.convolve(values, np.ones(width) / width, mode="valid")
