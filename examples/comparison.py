"""Compares a run on towers with one on one device: every step in numbers, a table and a picture."""

import dataclasses
from typing import Dict

import numpy as np
from matplotlib.figure import Figure

# Towers add the same numbers as one device, but in another order: what may remain is rounding, as
# training carries it from step to step. `deviation` defines the measure.
TOLERANCE = {"float32": 1e-5, "float64": 1e-9}


@dataclasses.dataclass(frozen=True)
class Run:
    """Results of a training run of S steps."""

    loss: np.ndarray  # [S], of the whole batch
    accuracy: np.ndarray  # [S], of the whole batch, in [0, 1]
    weights: Dict[str, np.ndarray]  # [S, ...] after each step, by variable name
    metrics: Dict[str, float]  # what `evaluate` gives on the test rows
    probabilities: np.ndarray  # what `predict` gives on the test rows, [rows, 10]


def deviation(value, reference):
    """Returns max |value - reference| in each step, in units of max |reference| in all steps.

    Args:
        value: Array [S, ...].
        reference: Array of the same shape.

    Returns:
        Float array [S].
    """
    differences = np.abs(value - reference).reshape(len(reference), -1)
    return differences.max(axis=1) / np.abs(reference).max()


def compare(towers, one):
    """Returns how far two runs deviate, by quantity: [S], or [1] for what is no matter of steps."""
    weights = [deviation(towers.weights[name], one.weights[name]) for name in one.weights]
    metrics = [
        deviation(np.array([towers.metrics[name]]), np.array([one.metrics[name]]))
        for name in ("loss", "accuracy")
    ]
    return {
        "loss": deviation(towers.loss, one.loss),
        "accuracy": deviation(towers.accuracy, one.accuracy),
        "weights": np.max(weights, axis=0),
        "evaluate": np.max(metrics, axis=0),
        "predict": deviation(towers.probabilities[np.newaxis], one.probabilities[np.newaxis]),
    }


def agree(config, deviations):
    """Whether all deviations are within the tolerance; one that is not a number is not."""
    with np.errstate(invalid="ignore"):  # Older NumPys warn about NaN.
        return all(np.all(value <= TOLERANCE[config.dtype]) for value in deviations.values())


def report(config, towers, one, deviations):
    """Returns the comparison as text: some of the steps, and the largest deviation of all steps."""
    name = f"{len(config.devices)} towers"
    row = "{:>6}  {:>10} {:>10}  {:>10} {:>10}  {:>10}".format
    number, percent = "{:.6f}".format, "{:.2%}".format
    lines = [
        "",
        f"{'':>6}  {'loss of the batch':^21}  {'accuracy of it':^21}  {'weights':>10}",
        row("step", name, "one device", name, "one device", "deviate by"),
    ]
    for step in np.unique(np.geomspace(1, config.steps, 12).round().astype(int)):
        at = step - 1
        losses = number(towers.loss[at]), number(one.loss[at])
        accuracies = percent(towers.accuracy[at]), percent(one.accuracy[at])
        lines.append(row(step, *losses, *accuracies, f"{deviations['weights'][at]:.1e}"))
    losses = number(towers.metrics["loss"]), number(one.metrics["loss"])
    accuracies = percent(towers.metrics["accuracy"]), percent(one.metrics["accuracy"])
    lines += [row("test", *losses, *accuracies, ""), ""]

    lines.append(f"Largest deviation of {name} from one device in {config.steps} steps:")
    lines += [f"  {quantity:<8}  {value.max():.1e}" for quantity, value in deviations.items()]
    verdict = "agree: no" if agree(config, deviations) else "DIFFER: a"
    tolerance = f"{TOLERANCE[config.dtype]:.0e} ({config.dtype})"
    lines.append(f"{name} and one device {verdict} deviation exceeds the tolerance of {tolerance}.")
    return "\n".join(lines)


def plot(config, towers, one, deviations, path):
    """Draws both loss curves and how far they and the weights deviate; saves the image."""
    name = f"{len(config.devices)} towers"
    steps = np.arange(1, config.steps + 1)
    figure = Figure(figsize=(8, 6), layout="constrained")
    top, bottom = figure.subplots(2, sharex=True, gridspec_kw={"height_ratios": (3, 2)})

    top.plot(steps, one.loss, color="tab:orange", linewidth=4, alpha=0.6, label="one device")
    top.plot(steps, towers.loss, color="tab:blue", linewidth=1, label=name)
    top.set(yscale="log", ylabel="loss of the batch", title=f"Digits on {name} and on one device")
    top.legend()

    for quantity in ("loss", "weights"):
        nonzero = np.where(deviations[quantity] > 0, deviations[quantity], np.nan)
        bottom.plot(steps, nonzero, ".", markersize=3, label=quantity)
    bottom.axhline(TOLERANCE[config.dtype], color="black", linestyle="--", label="tolerance")
    bottom.set(yscale="log", ylabel="deviation", xlabel="step")
    bottom.set_ylim(top=max(bottom.get_ylim()[1], 10 * TOLERANCE[config.dtype]))
    bottom.legend(ncol=3)
    figure.savefig(path, dpi=150)
