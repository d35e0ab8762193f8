"""What `replicate.compare` returns: how far towers are from one device, and what can explain it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Sequence

from replicate.comparing.deviations import TOLERANCES, Deviation
from replicate.comparing.explanations import Explanation

_MOST = 20  # Lines that the text has of anything.
_WIDTH = 100

_LARGE = 1e-2  # Beyond that, few steps are no matter of rounding.
_ROUNDING = (
    "but rounding may: it grows from step to step, and is large in what is near 0, as a bias in "
    "front of batch norm is, whose gradient is 0. Compute in float64 where the model can: what "
    "deviates there by more than 1e-9 is no rounding"
)

CANNOT_TELL = (
    "other rows than these: what happens to be equal in these batches need not be in others",
    "later steps, and how far deviations grow in them: Adam and its like divide by the size of a "
    "gradient, so that rounding becomes an update where a gradient is next to 0",
    "which explanation is to blame, if there are several: they are what *can* part the runs",
    "local variables, tables, summaries and what hooks do, but for what it makes of variables",
    "whether one device by itself repeats its numbers: many a GPU kernel adds in any order",
)


class StepLoss(NamedTuple):
    """The loss of a step."""

    step: int
    """From 1 on."""
    one_device: float
    towers: float
    deviation: Deviation


class Comparison(NamedTuple):
    """How towers and one device trained the same model on the same batches; as a string, a report.

    A deviation is the largest difference of two entries of an array, relative to the largest entry
    that it has on one device in any step. `.equal` says whether all are within their tolerances.
    """

    devices: tuple[str, ...]
    """Device strings of the towers."""
    rows: tuple[int | None, ...]
    """Rows of each batch, None where its tensors do not agree on it."""
    losses: tuple[StepLoss, ...]
    variables: tuple[Deviation, ...]
    """Of each global variable and slot, the largest deviation over all steps and at the start."""
    parted: Deviation | None
    """At the first step after which a variable was beyond its tolerance, that which was farthest
    beyond it; None if none was."""
    checkpoint: tuple[Deviation, ...]
    """Of each entry of the last checkpoint."""
    metrics: tuple[Deviation, ...]
    """Of what `Estimator.evaluate` returned, the loss included."""
    predictions: tuple[Deviation, ...]
    """Of what `Estimator.predict` returned, over all batches."""
    explanations: tuple[Explanation, ...]
    """What in the towers' graph can part them, equal or not."""
    warnings: tuple[str, ...]
    """What the library's log warned of while the towers' graph was built."""
    not_compared: tuple[str, ...]
    """What was left out, and why."""
    tolerance: float
    """That of the loss: what was given, or what goes by the types that rows are computed in. Arrays
    of a coarser type, such as metrics, have that of theirs."""

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
        """The `Deviation` that is farthest beyond its tolerance, or nearest to it."""
        return max(self.all, key=lambda deviation: deviation.excess)

    @property
    def cannot_tell(self) -> tuple[str, ...]:
        """What no comparison of this kind can tell, as phrases."""
        return CANNOT_TELL

    def as_dict(self) -> dict[str, Any]:
        """Returns all of it as dicts, lists, numbers and strings, for JSON; infinities are None."""
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
            # Where all losses agree, a variable that does not is next to nothing.
            losses_pass = all(loss.deviation.passes for loss in self.losses)
            is_small = self.worst.value < (float("inf") if losses_pass else _LARGE)
            if self.tolerance > TOLERANCES["float64"] and is_small:
                lines += _wrapped(_ROUNDING, "  ")
        for title, texts in (
            ("the log warned", self.warnings),
            ("not compared", self.not_compared),
            ("what this cannot tell", self.cannot_tell),
        ):
            if texts:
                lines += ["", title]
                lines += [line for text in texts for line in _wrapped(text, "  ")]
        return "\n".join(lines)

    def _of_the_checkpoint(self) -> list[str]:
        """Returns lines of what the checkpoint has besides the variables that lines are of."""
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
            found.append("a loss is not finite, which shows nothing but that")
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
    """Returns lines of those that are farthest beyond their tolerances, or nearest to it."""
    lines = []
    for one in sorted(deviations, key=lambda one: -one.excess)[:_MOST]:
        step = "" if one.step is None else one.step
        note = f" ({one.note})" if one.note else ""
        lines.append(f"{_number(one.value):>12}{step:>10}  {one.what}{note}")
    return lines + _more(len(deviations), "with smaller ones")


def _more(count: int, what: str) -> list[str]:
    return [f"{'':>12}and {count - _MOST} more {what}"] if count > _MOST else []


def _some(rows: Sequence[int | None]) -> str:
    shown = ", ".join("?" if count is None else str(count) for count in rows[:_MOST])
    return shown + (", ..." if len(rows) > _MOST else "")


def _wrapped(text: str, indent: str) -> list[str]:
    """Returns lines of a text, which go on further to the right."""
    lines, line = [], indent
    for word in text.split():
        if len(line) + 1 + len(word) > _WIDTH and line.strip():
            lines.append(line)
            line = indent + "   "
        line += word if line == indent or not line.strip() else f" {word}"
    return [*lines, line]
