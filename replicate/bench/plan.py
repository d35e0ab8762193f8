"""The runs of `python -m replicate bench`, their order, and estimates of their time.

A *setup* is a model with an engine and devices; a *run* trains it once, in a separate process. A
*round* runs every setup of a model once, in turn, so that a slow period of the machine affects
all of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from replicate.bench import losses, models

ONE = "one device"
FULL = {"models": ["cnn", "mlp", "wide"], "rounds": 3, "steps": 100, "warmup": 20}
"""The default run. ResNet-50 takes minutes on a CPU, so it runs only on request."""
QUICK = {"models": ["cnn", "mlp"], "rounds": 1, "steps": 20, "warmup": 5}
"""The values that `--quick` uses in place of those in `FULL`."""


class Setup(NamedTuple):
    """How a model is trained: engine, devices, batch and options."""

    name: str
    engine: str
    devices: tuple[str, ...]
    case: models.Case
    choice: str | None = None

    @property
    def title(self) -> str:
        """Its name, with the number of devices unless it is always 1."""
        return self.name if self.engine == "single" else f"{self.name}, {len(self.devices)} devices"

    def __hash__(self) -> int:
        return hash(self[:3])


class Run(NamedTuple):
    """One training run of a setup."""

    model: str
    setup: Setup
    warmup: int
    """Number of steps before the timed ones."""
    steps: int
    round: int | None
    """Number of its round, from 1 on; None if only its losses are needed."""


def runs(model: str, setups: Sequence[Setup], args: Any) -> list[Run]:
    """Returns the list of `Run`s of a model in order: rounds, then runs that only give losses.

    Args:
        model: The model's name.
        setups: List of `Setup`s, first that on one device.
        args: Object with `rounds`, `steps` and `warmup`, integers >= 1.
    """
    made = [
        Run(model, setup, args.warmup, args.steps, number)
        for number in range(1, args.rounds + 1)
        for setup in setups
    ]
    for size in sizes(setups):
        whole = on_one_device(model, setups, size)
        if whole is not None and all(run.setup != whole for run in made):
            made.append(Run(model, whole, 1, losses.STEPS, None))
    return made


def sizes(setups: Sequence[Setup]) -> list[int]:
    """Returns the numbers of devices of all `setups` but the first, in order."""
    return sorted({len(setup.devices) for setup in setups[1:]})


def on_one_device(model: str, setups: Sequence[Setup], size: int) -> Setup | None:
    """Returns the `Setup` on one device with the whole batch of `size` devices.

    None if its losses differ, since batch norm uses the rows of each device separately.
    """
    if model in models.DEVICES_DIFFER and size > 1:
        return None
    batch = next(setup.case.global_batch for setup in setups[1:] if len(setup.devices) == size)
    return setups[0]._replace(case=setups[0].case._replace(global_batch=batch))


# Estimates for two idle CPU cores, from CPU time on busy ones: seconds until a process trains,
# additional seconds for each device's copy of the model, and milliseconds of a step for each row.
_START_S = 3.5
_COPY_S = {"cnn": 0.3, "mlp": 0.2, "wide": 1.5, "resnet50": 4.0}
_ROW_MS = {"cnn": 0.17, "mlp": 0.03, "wide": 0.03, "resnet50": 10.0}


def seconds(run: Run) -> float:
    """Returns an estimate of the seconds that a `Run` takes on two CPU cores."""
    rows = (run.warmup + run.steps + 1) * run.setup.case.global_batch  # 1 more step is traced.
    copies = len(run.setup.devices) * _COPY_S[run.model]
    return _START_S + copies + rows * _ROW_MS[run.model] / 1e3
