"""The result of `replicate.compare`: deviations of towers from one device, and explanations."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Sequence

from replicate.comparing.deviations import TOLERANCES, Deviation
from replicate.comparing.explanations import Explanation

_MOST = 20  # Limit on the lines of each table.
_WIDTH = 100

_LARGE = 1e-2  # Rounding cannot cause larger deviations within a few steps.
_ROUNDING = (
    "but rounding may: it grows from step to step, and is large relative to values near 0. Compute "
    "in float64 if the model can: a loss that deviates by more than 1e-9 there is not rounding, "
    "with two exceptions. `tf.losses` compute in float32. And where values are equal except for "
    "rounding, `top_k`, maxima and comparisons take either; leave them out to see that"
)
_NOISE = (
    "moved by rounding alone: one device deviates from itself as far, with the rows of each batch "
    "in reverse order"
)

CANNOT_TELL = (
    "other rows than these: models that are equal on these batches may differ on others",
    "later steps, and how far deviations grow in them: optimizers like Adam divide by the size of "
    "a gradient, so that rounding becomes an update where a gradient is near 0",
    "which explanation is the cause, if there are several: each one *can* make the runs differ",
    "local variables, tables, summaries and effects of hooks, except on global variables",
    "whether one device repeats its own numbers: many GPU kernels add in a varying order",
)


class StepLoss(NamedTuple):
    """The losses of a step."""

    step: int
    """Number of the step, from 1 on."""
    one_device: float
    towers: float
    deviation: Deviation


class Comparison(NamedTuple):
    """Compares towers and one device, on the same model and batches; as a string, a report.

    A deviation is the largest difference of two entries of an array, relative to the largest entry
    that the array has on one device in any step. `.equal` tells whether all deviations are within
    their tolerances.
    """

    devices: tuple[str, ...]
    """Device strings of the towers."""
    rows: tuple[int | None, ...]
    """Rows of each batch; None if the batch's tensors disagree."""
    losses: tuple[StepLoss, ...]
    """The losses of each step."""
    variables: tuple[Deviation, ...]
    """The largest deviation of each global variable and slot, over the start and all steps."""
    parted: Deviation | None
    """The variable that was farthest beyond its tolerance at the first step at which one was; None
    if none ever was."""
    checkpoint: tuple[Deviation, ...]
    """The deviation of each entry of the last checkpoint."""
    metrics: tuple[Deviation, ...]
    """The deviations of the results of `Estimator.evaluate`, including the loss."""
    predictions: tuple[Deviation, ...]
    """The deviations of the results of `Estimator.predict`, over all batches."""
    explanations: tuple[Explanation, ...]
    """Operations in the towers' graph that can make the runs differ, whether they do or not."""
    warnings: tuple[str, ...]
    """The library's warnings while the towers' graph was built."""
    not_compared: tuple[str, ...]
    """Results that were not compared, with the reason."""
    tolerance: float
    """The tolerance of the loss: the given one, or that of the types that rows are computed in.
    Arrays of a coarser type, such as metrics, have the tolerance of their type."""
    noise: tuple[str, ...] = ()
    """Names of variables that rounding alone moves: one device deviates from itself as far, if the
    rows of each batch come in reverse order. Their tolerance is ten times that deviation."""

    @property
    def all(self) -> tuple[Deviation, ...]:
        """Every `Deviation`, in the order of the report."""
        losses = tuple(loss.deviation for loss in self.losses)
        return losses + self.variables + self.checkpoint + self.metrics + self.predictions

    @property
    def equal(self) -> bool:
        """Whether all deviations are within their tolerances."""
        return all(deviation.passes for deviation in self.all)

    @property
    def worst(self) -> Deviation:
        """The `Deviation` that is farthest beyond its tolerance, or nearest to it.

        Variables that rounding alone moves are left out.
        """
        others = [deviation for deviation in self.all if deviation.what not in self.noise]
        return max(others, key=lambda deviation: deviation.excess)

    @property
    def cannot_tell(self) -> tuple[str, ...]:
        """Questions that no comparison of this kind can answer, as phrases."""
        return CANNOT_TELL

    def as_dict(self) -> dict[str, Any]:
        """Returns it as dicts, lists, numbers and strings, for JSON; infinities become None."""
        return {
            "equal": self.equal,
            "devices": list(self.devices),
            "tolerance": self.tolerance,
            "rows": list(self.rows),
            "losses": [
                {
                    "step": loss.step,
                    "one_device": _finite(loss.one_device),
                    "towers": _finite(loss.towers),
                    "deviation": _finite(loss.deviation.value),
                }
                for loss in self.losses
            ],
            "parted": self.parted and _record(self.parted),
            **{
                name: [_record(one) for one in getattr(self, name)]
                for name in ("variables", "checkpoint", "metrics", "predictions")
            },
            "explanations": [dict(one._asdict()) for one in self.explanations],
            "warnings": list(self.warnings),
            "not_compared": list(self.not_compared),
            "noise": list(self.noise),
        }

    def __str__(self) -> str:
        lines = [
            f"{len(self.losses)} steps on one device and over {len(self.devices)} towers, on "
            f"{', '.join(self.devices)}",
            f"rows of batches  {_some(self.rows)}",
            "",
            *_wrapped(self._verdict(), ""),
            "",
            f"{'step':>6}{'loss, one device':>20}{'loss, towers':>20}{'deviation':>12}",
        ]
        for loss in self.losses[:_MOST]:
            lines.append(
                f"{loss.step:>6}{loss.one_device:>20.9g}{loss.towers:>20.9g}"
                f"{_number(loss.deviation.value):>12}{_mark(loss.deviation)}"
            )
        lines += _more(len(self.losses), "steps")
        lines += ["", f"{'deviation':>12}{'parts at':>10}  of variables and slots"]
        lines += _table(self.variables)
        lines += self._of_the_checkpoint()
        for found, text in (
            (self.metrics, "of metrics"),
            (self.predictions, "of predictions; parts at: the batch"),
        ):
            if found:
                lines += ["", f"{'deviation':>12}{'parts at':>10}  {text}", *_table(found)]
        if self.explanations:
            equal = "can part them on other rows" if self.equal else "can explain it"
            lines += ["", f"what in the graph {equal}"]
            for one in self.explanations[:_MOST]:
                lines += _wrapped(f"{one.kind}: {one.operation} {one.text}", "  ")
                lines.append(f"      {one.line}")
            lines += _more(len(self.explanations), "places")
        elif not self.equal:
            lines += ["", "nothing in the graph is known to explain it"]
            # If all losses agree, a variable with a large relative deviation has a tiny value.
            losses_pass = all(loss.deviation.passes for loss in self.losses)
            is_small = self.worst.value < (float("inf") if losses_pass else _LARGE)
            if self.tolerance > TOLERANCES["float64"] and is_small:
                lines += _wrapped(_ROUNDING, "  ")
        for title, texts in (
            (_NOISE, (", ".join(self.noise),) if self.noise else ()),
            ("the log warned", self.warnings),
            ("not compared", self.not_compared),
            ("what this cannot tell", self.cannot_tell),
        ):
            if texts:
                lines += ["", title]
                lines += [line for text in texts for line in _wrapped(text, "  ")]
        return "\n".join(lines)

    def _of_the_checkpoint(self) -> list[str]:
        """Returns lines for the entries of the checkpoint that no line for a variable covers."""
        if not self.checkpoint:
            return []
        beyond = {one.what for one in self.variables if not one.passes}
        others = [one for one in self.checkpoint if not one.passes and one.what not in beyond]
        worst = max(one.value for one in self.checkpoint)
        lines = [
            f"{_number(worst):>12}{'':>10}  at most, of {len(self.checkpoint)} entries of the "
            "last checkpoint"
        ]
        return lines + (["", "of the checkpoint alone", *_table(others)] if others else [])

    def _verdict(self) -> str:
        if self.equal:
            worst = self.worst
            return f"EQUAL within {worst.tolerance:g}: at most {_number(worst.value)}, {worst.what}"
        found = []
        lost = next((loss for loss in self.losses if not loss.deviation.passes), None)
        if lost:
            found.append(f"the loss of step {lost.step} deviates by {_with_note(lost.deviation)}")
        if self.parted:
            when = f"after step {self.parted.step}" if self.parted.step else "before the first step"
            found.append(f"{when}, '{self.parted.what}' by {_with_note(self.parted)}")
        if not found:
            found.append(f"{self.worst.what} deviates by {_with_note(self.worst)}")
        numbers = [value for loss in self.losses for value in (loss.one_device, loss.towers)]
        if not all(map(math.isfinite, numbers)):
            found.append("a loss is not finite, so that other deviations mean little")
        return "DIFFERENT: " + "; ".join(found)


def _with_note(deviation: Deviation) -> str:
    note = f" ({deviation.note})" if deviation.note else ""
    return f"{_number(deviation.value)}{note}, of {deviation.tolerance:g} allowed"


def _record(deviation: Deviation) -> dict[str, Any]:
    record = dict(deviation._asdict())
    return {**record, "value": _finite(deviation.value), "passes": deviation.passes}


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _number(value: float) -> str:
    return f"{value:.1e}" if value else "0"


def _mark(deviation: Deviation) -> str:
    return "" if deviation.passes else "  *"


def _table(deviations: Sequence[Deviation]) -> list[str]:
    """Returns lines of the deviations that are the farthest beyond, or nearest to, a tolerance."""
    lines = []
    for one in sorted(deviations, key=lambda one: -one.excess)[:_MOST]:
        step = "" if one.step is None else one.step
        note = f" ({one.note})" if one.note else ""
        lines.append(f"{_number(one.value):>12}{step:>10}  {one.what}{note}")
    return lines + _more(len(deviations), "with smaller ones")


def _more(count: int, noun: str) -> list[str]:
    return [f"{'':>12}and {count - _MOST} more {noun}"] if count > _MOST else []


def _some(rows: Sequence[int | None]) -> str:
    shown = ", ".join("?" if count is None else str(count) for count in rows[:_MOST])
    return shown + (", ..." if len(rows) > _MOST else "")


def _wrapped(text: str, indent: str) -> list[str]:
    """Returns the lines of a text; all lines but the first are indented further."""
    lines, line = [], indent
    for word in text.split():
        if len(line) + 1 + len(word) > _WIDTH and line.strip():
            lines.append(line)
            line = indent + "   "
        line += word if line == indent or not line.strip() else f" {word}"
    return [*lines, line]
