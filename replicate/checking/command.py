"""`python -m replicate check-gpus`: reports whether the GPUs of a machine work as they should."""

from __future__ import annotations

import argparse
import json
import sys
from typing import NoReturn, Sequence

from replicate import devices as devices_lib
from replicate.bench import harness
from replicate.checking import check, models

_STEPS, _TIMED = 5, 30


class _Parser(argparse.ArgumentParser):
    """A parser whose errors have one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (--help lists the flags)\n")


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = _Parser(
        prog="python -m replicate check-gpus",
        description="Trains small models on one GPU and over towers on all of them and compares "
        "the two, reads where operations and variables are, times the ways to sum gradients, and "
        "prints a report to send to the authors. Takes about 2 minutes. Exits with 0 if all is as "
        "it should be, 1 if anything is not, 2 if an argument is wrong or there are no GPUs.",
    )
    made.add_argument(
        "--devices", nargs="+", help="e.g. /gpu:0 /gpu:1, or /cpu:0 /cpu:1 (default: every GPU)"
    )
    known = harness.names_of(models.MODELS)
    made.add_argument(
        "--models",
        type=known,
        default=list(models.MODELS),
        help=f"of {','.join(models.MODELS)} (default: all)",
    )
    made.add_argument(
        "--steps", type=harness.positive, default=_STEPS, help=f"to train each ({_STEPS})"
    )
    made.add_argument(
        "--timed", type=harness.positive, default=_TIMED, help=f"steps to time each way ({_TIMED})"
    )
    made.add_argument(
        "--dtype",
        choices=models.DTYPES,
        default=models.DTYPES[0],
        help="of the models; float64 tells rounding from errors",
    )
    made.add_argument(
        "--tolerance",
        type=_tolerance,
        help=f"largest deviation that is equal (default {check.TOLERANCES['float32']:g}, in "
        f"float64 {check.TOLERANCES['float64']:g})",
    )
    made.add_argument("--json", action="store_true", help="one line of JSON, no report")
    return made


def main(argv: Sequence[str]) -> int:
    """Runs the check that the command line `argv` describes; returns the exit status."""
    of_flags = parser()
    args = of_flags.parse_args(argv)
    try:
        devices = _devices(args.devices)
    except ValueError as error:
        of_flags.error(str(error))
    try:
        made = check.run(
            devices, args.models, args.steps, args.timed, args.dtype, args.tolerance, _say
        )
    except KeyboardInterrupt:
        _say("interrupted: there is no report")
        return 130
    print(json.dumps(made.as_dict()) if args.json else made, flush=True)
    return 1 if made.problems else 0


def _say(line: str) -> None:
    print(f"check-gpus: {line}", file=sys.stderr, flush=True)


def _devices(names: Sequence[str] | None) -> list[str]:
    """Returns the canonical names of the devices to check.

    Raises:
        ValueError: If there are fewer than two, or one does not exist or is not a GPU or CPU of
            this host.
    """
    if names is None:
        found = devices_lib.default(devices_lib.local())
        if "GPU" not in found[0]:
            raise ValueError(
                "There is no GPU that TensorFlow sees here: run this where `python -m replicate` "
                "lists GPUs, or check two parts of this CPU, with --devices /cpu:0 /cpu:1"
            )
        if len(found) < 2:
            raise ValueError(
                f"One device is compared with several, but {found[0]} is the only GPU here: take "
                "the CPU for the other, with --devices /gpu:0 /cpu:0"
            )
        return found
    found = devices_lib.canonical_list(names)
    kinds = {name.rpartition("device:")[2].partition(":")[0] for name in found}
    if len(found) < 2 or not kinds <= {"CPU", "GPU"} or any("/job:" in name for name in found):
        raise ValueError(
            "`--devices` must be two or more GPUs or CPUs of this host, but are "
            f"{' '.join(names)}. Pass e.g. /gpu:0 /gpu:1"
        )
    devices_lib.check_exist(found, cpus_known=False)
    return found


def _tolerance(text: str) -> float:
    """A type for `argparse`: a number greater than 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(
            f"must be a number greater than 0, but is {text!r}. Leave it out for the default."
        )
    return value
