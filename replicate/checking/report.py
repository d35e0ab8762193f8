"""Reports the results of a check: as text for people, and as a dictionary for JSON."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from replicate.bench import choices
from replicate.checking.machine import UNKNOWN
from replicate.checking.probe import ROWS, Trained
from replicate.comparing import Comparison, Deviation

_INDENT = "  "
_ON_CPUS = (
    "CPU devices share cores and memory: their times do not predict those of GPUs, and the fastest "
    "choice there is chance."
)


class Equality(NamedTuple):
    """Compares a model on one device with its towers."""

    name: str
    title: str
    comparison: Comparison | None
    """None if the model could not be trained."""
    problem: str
    """Why it could not be trained, else ""."""

    @property
    def problems(self) -> list[str]:
        """A sentence for each fault that was found."""
        if self.comparison is None:
            return [f"{self.name}: {self.problem}"]
        worst = self.comparison.worst
        if self.comparison.equal:
            return []
        return [
            f"{self.name}: {worst.what} deviates by {_number(worst.value)}, of "
            f"{worst.tolerance:g} allowed"
        ]


class Result(NamedTuple):
    """Results of training with one choice of how to sum gradients."""

    choice: str
    """A name of `replicate.bench.choices`."""
    trained: Trained | None
    """None if training failed."""
    deviation: Deviation | None
    """The largest deviation from one device, in units of its tolerance; None if either failed."""
    problem: str
    """Why training failed, else ""."""

    @property
    def problems(self) -> list[str]:
        """A sentence for each fault that was found."""
        if self.trained is None:
            return [f"{self.choice}: {self.problem}"]
        found = list(self.trained.placements.problems) if self.trained.placements else []
        if self.deviation is not None and not self.deviation.passes:
            found.append(
                f"{self.deviation.what} deviates by {_number(self.deviation.value)}, of "
                f"{self.deviation.tolerance:g} allowed"
            )
        return [f"{self.choice}: {each}" for each in found]


class Report(NamedTuple):
    """Holds all results of a check; as a string, a report to send to the authors."""

    facts: dict[str, str]
    devices: dict[str, str]
    nvidia_smi: dict[str, str]
    dtype: str
    steps: int
    tolerance: float
    equalities: tuple[Equality, ...]
    one_device: Trained | None
    one_device_problem: str
    results: tuple[Result, ...]

    @property
    def problems(self) -> list[str]:
        """A sentence for each fault that was found."""
        found = [each for one in self.equalities for each in one.problems]
        found += [each for result in self.results for each in result.problems]
        if self.one_device_problem:
            found.append(f"one device: {self.one_device_problem}")
        return found

    @property
    def fastest(self) -> Result | None:
        """The fastest choice without a problem, by the median step; None if there is none."""
        sound = [
            result for result in self.results if result.trained is not None and not result.problems
        ]
        return min(sound, key=_median, default=None)

    @property
    def as_fast(self) -> list[str]:
        """Names of other choices whose median is within the spread of the fastest one's steps."""
        best = self.fastest
        if best is None or best.trained is None:
            return []
        limit = best.trained.step_ms[2]
        others = [result for result in self.results if result is not best and not result.problems]
        return [result.choice for result in others if _median(result) <= limit]

    @property
    def on_gpus(self) -> bool:
        """Whether a device is a GPU."""
        return any("GPU" in device for device in self.devices)

    @property
    def verdict(self) -> str:
        """The result of the check, in one line."""
        where = f"{len(self.devices)} {'devices' if self.on_gpus else 'CPU devices'}"
        if not self.problems:
            return f"OK: on these {where}, all is as it should be."
        return (
            f"NOT OK: on these {where}, not all is as it should be: {self.problems[0]} "
            f"({len(self.problems)} in all)"
        )

    def as_dict(self) -> dict[str, Any]:
        """Returns it as dicts, lists, numbers and strings, for JSON; infinities become None."""
        return {
            "ok": not self.problems,
            "verdict": self.verdict,
            "problems": self.problems,
            "facts": self.facts,
            "devices": self.devices,
            "nvidia_smi": self.nvidia_smi,
            "dtype": self.dtype,
            "steps": self.steps,
            "tolerance": self.tolerance,
            "models": [
                {
                    "name": one.name,
                    "title": one.title,
                    "problem": one.problem,
                    "comparison": one.comparison and one.comparison.as_dict(),
                }
                for one in self.equalities
            ],
            "one_device": self.one_device
            and {"step_ms": self.one_device.step_ms, "peak_bytes": self.one_device.peaks},
            "ways": [_record(result) for result in self.results],
            "fastest": self.fastest and self.fastest.choice,
            "as_fast": self.as_fast,
        }

    def __str__(self) -> str:
        width = 2 + max(map(len, [*self.facts, *self.devices]))
        named = {**self.facts, **self.devices}
        lines = ["Report of `python -m replicate check-gpus`", ""]
        lines += [f"{name:<{width}}{text}" for name, text in named.items()]
        for name, text in self.nvidia_smi.items():
            lines += ["", f"{name}, as nvidia-smi says", *_indented(text)]
        lines += self._of_models() + self._of_results()
        if self.problems:
            lines += ["", "Not as it should be", *(f"{_INDENT}{each}" for each in self.problems)]
        return "\n".join([*lines, "", self.verdict])

    def _of_models(self) -> list[str]:
        lines = [
            "",
            f"One device and {len(self.devices)} towers, {self.steps} steps in {self.dtype}: the "
            f"largest deviations, of {self.tolerance:g} allowed",
            f"{_INDENT}{'model':<12}{'':<12}{'losses':>10}{'variables':>11}{'results':>10}  with",
        ]
        for one in self.equalities:
            made = one.comparison
            if made is None:
                lines.append(f"{_INDENT}{one.name:<12}{'FAILED':<12}{one.problem}")
                continue
            parts = (
                (10, [loss.deviation for loss in made.losses]),
                (11, [*made.variables, *made.checkpoint]),
                (10, [*made.metrics, *made.predictions]),
            )
            shown = "".join(f"{_largest(found):>{size}}" for size, found in parts)
            verdict = "equal" if made.equal else "DIFFERENT"
            lines.append(f"{_INDENT}{one.name:<12}{verdict:<12}{shown}  {one.title}")
        different = [one.comparison for one in self.equalities if one.comparison and one.problems]
        if different and self.dtype == "float32":
            lines.append(
                f"{_INDENT}Rounding may part float32: --dtype float64 tells it from an error."
            )
        for comparison in different:
            lines += ["", *_indented(str(comparison))]
        return lines

    def _of_results(self) -> list[str]:
        lines = [
            "",
            f"Ways to sum gradients, a dense network with {ROWS} rows on each device: "
            "milliseconds of a step",
            f"{_INDENT}{'way':<24}{'median':>8}{'10 %':>8}{'90 %':>8}{'deviation':>11}"
            "  operations in towers; variables; peak MB",
        ]
        if self.one_device is not None:
            times = _times(self.one_device.step_ms)
            lines.append(f"{_INDENT}{'one device':<24}{times}{'':>11}  {_places(self.one_device)}")
        for result in self.results:
            if result.trained is None:
                lines.append(f"{_INDENT}{result.choice:<24}FAILED  {result.problem}")
                continue
            found = "" if result.deviation is None else _number(result.deviation.value)
            lines.append(
                f"{_INDENT}{result.choice:<24}{_times(result.trained.step_ms)}{found:>11}  "
                f"{_places(result.trained)}"
            )
        best = self.fastest
        if best is not None:
            written = choices.as_code(choices.CHOICES[best.choice])
            lines += ["", f"Fastest here: {best.choice}, which is {written}."]
            if self.as_fast:
                lines.append(f"As fast, within the spread of its steps: {', '.join(self.as_fast)}.")
        return lines if self.on_gpus else [*lines, _ON_CPUS]


def _record(result: Result) -> dict[str, Any]:
    made, record = result.trained, {"choice": result.choice, "problem": result.problem}
    if made is None:
        return record
    return {
        **record,
        "step_ms": made.step_ms,
        "peak_bytes": made.peaks,
        "placements": made.placements and made.placements._asdict(),
        "worst": result.deviation
        and {
            "what": result.deviation.what,
            "value": result.deviation.value if math.isfinite(result.deviation.value) else None,
            "passes": result.deviation.passes,
        },
    }


def _places(made: Trained) -> str:
    known = [peak for peak in made.peaks.values() if peak is not None]
    peaks = ", ".join(f"{peak / 1e6:.1f}" for peak in known) if known else UNKNOWN
    if made.placements is None:
        return peaks
    towers = " + ".join(map(str, made.placements.in_towers))
    places = [made.placements.variables.get(device, 0) for device in made.peaks]
    host = f"; on the host: {', '.join(made.placements.on_host)}" * bool(made.placements.on_host)
    return f"{towers}; {' + '.join(map(str, places))}; {peaks}{host}"


def _times(step_ms: tuple[float, float, float]) -> str:
    return "".join(f"{each:>8.3g}" for each in step_ms)


def _median(result: Result) -> float:
    return result.trained.step_ms[0] if result.trained is not None else math.inf


def _largest(found: list[Deviation]) -> str:
    return _number(max((each.value for each in found), default=0.0))


def _number(value: float) -> str:
    return f"{value:.1e}" if value else "0"


def _indented(text: str) -> list[str]:
    return [f"{_INDENT}{line}".rstrip() for line in text.splitlines()]
