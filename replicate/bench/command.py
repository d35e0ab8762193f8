"""`python -m replicate bench`: trains models on one device and on several, and prints a table.

Figures are medians over rounds. Efficiency is the throughput of N devices ÷ N times that of one, in
the same round. The standard output has the table and remarks on it; progress, and figures as they
are measured, go to the standard error.
"""

from __future__ import annotations

import argparse
import itertools
from typing import Any, Iterable, Mapping, NoReturn, Sequence

from replicate import devices as devices_lib
from replicate.arguments import named
from replicate.bench import choices, engines, harness, models, plan, rows
from replicate.bench.harness import names_of, positive
from replicate.bench.progress import Progress
from replicate.bench.session import Session

ENGINES = ("replicate", "mirrored", "central")
_ROWS = 128
_TITLES = {"mirrored": "MirroredStrategy", "central": "CentralStorageStrategy"}


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, without the list of flags."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (--help lists the flags)\n")


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = _Parser(
        prog="python -m replicate bench",
        description="Trains models on one device and on several, in separate processes, and "
        "prints a Markdown table: replicate, MirroredStrategy and CentralStorageStrategy. On two "
        "idle CPU cores, /cpu:0 and /cpu:1, it should take 4 minutes, with --quick less than 1 "
        "minute, and 3 times as long on busy cores. It prints an estimate before it begins. "
        "Ctrl-C ends it and prints the figures so far.",
    )
    made.add_argument(
        "--devices", nargs="+", help="e.g. /gpu:0 /gpu:1, or /cpu:0 /cpu:1 (default: every GPU)"
    )
    made.add_argument(
        "--counts", type=positive, nargs="+", help="how many of them to use (default: all)"
    )
    made.add_argument(
        "--quick",
        action="store_true",
        help=f"a small run: {_told(plan.QUICK)}, unless other flags say otherwise",
    )
    known = names_of(models.CASES)
    made.add_argument(
        "--models",
        type=known,
        help=f"some of {','.join(models.CASES)} (default: {_told(plan.FULL)})",
    )
    made.add_argument(
        "--engines",
        type=names_of(ENGINES),
        default=list(ENGINES),
        help=f"in addition to one device: some of {','.join(ENGINES)} (default: all)",
    )
    made.add_argument(
        "--choices",
        type=choices.parse,
        nargs="+",
        default=[choices.parse("default")],
        help=f"options of replicate: {', '.join(choices.CHOICES)}; or JSON of arguments of "
        "replicate_model_fn and TowerOptimizer",
    )
    batch = made.add_mutually_exclusive_group()
    batch.add_argument(
        "--rows", type=positive, help=f"rows of the batch per device (default: {_ROWS})"
    )
    batch.add_argument("--global_batch", type=positive, help="rows of the whole batch instead")
    made.add_argument(
        "--dtype", choices=models.DTYPES, default="float32", help="type in which layers compute"
    )
    made.add_argument("--rounds", type=positive, help="runs of each; figures are their medians")
    made.add_argument("--steps", type=positive, help="timed steps in each round")
    made.add_argument("--warmup", type=positive, help="steps before the timed ones")
    made.add_argument("--out", help="file to append JSON lines to, one for each row of the table")
    return made


def main(argv: Sequence[str]) -> int:
    """Runs the benchmark that the command line `argv` describes.

    Returns:
        Exit status: 0; 1 if an engine failed or had different losses, or the file of `--out` could
        not be written; 130 if it was interrupted.
    """
    made = parser()
    args = made.parse_args(argv)
    for name, value in (plan.QUICK if args.quick else plan.FULL).items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    try:
        devices = _devices(args.devices)
        args.choices = {name: choice for given in args.choices for name, choice in given.items()}
        for choice in args.choices.values():
            engines.check_choice(choice, devices)
        setups = {name: _setups(name, devices, args) for name in args.models}
        if args.out:
            named.check_file("--out", args.out)
    except ValueError as error:
        made.error(str(error))
    runs = [run for name in args.models for run in plan.runs(name, setups[name], args)]
    progress = Progress(runs)
    session = Session(setups, args, progress, {**harness.machine(), "steps": args.steps})
    progress.announce()
    status = _run(session, args.models, progress)
    _print(session, args)
    return status


def _run(session: Session, names: Iterable[str], progress: Progress) -> int:
    """Trains models by name; returns the exit status."""
    try:
        try:
            for name in names:
                session.train(name)
        finally:  # Figures that were measured are kept.
            progress.clear()
            session.keep()
    except (RuntimeError, OSError) as error:
        problem, _, output = str(error).partition("\n")
        if output:  # The output of the process that failed.
            progress.say(output.rstrip())
        progress.say(f"Problem: {problem}")
        return 1
    except KeyboardInterrupt:
        progress.say(f"Interrupted when {progress.done} of {progress.count} runs were done.")
        return 130
    return 0


def _print(session: Session, args: argparse.Namespace) -> None:
    """Prints the table of figures, and remarks on it."""
    made = session.records()
    if made:
        print("\n" + rows.table(made) + "\n", flush=True)
    whole = [record for record in made if record["rounds"] == args.rounds]
    for line in session.sentences + rows.advice(whole, args.choices):
        print(line + "\n", flush=True)


def _told(taken: Mapping[str, Any]) -> str:
    """Returns `plan.FULL` or `plan.QUICK` as text."""
    rounds = "1 round" if taken["rounds"] == 1 else f"{taken['rounds']} rounds"
    return (
        f"{','.join(taken['models'])}, {rounds} of {taken['steps']} steps after {taken['warmup']}"
    )


def _devices(names: Sequence[str] | None) -> list[str]:
    """Returns the canonical names of the devices to use.

    Raises:
        ValueError: If they are neither all GPUs nor all CPUs of this host, or if none are named and
            there is no GPU.
    """
    if names is None:
        found = devices_lib.default(devices_lib.local())
        if "CPU" in found[0]:
            raise ValueError(
                f"Without `--devices`, every GPU is used, but there is only {', '.join(found)}. "
                "Split it into logical devices: --devices /cpu:0 /cpu:1"
            )
        return found
    found = devices_lib.canonical_list(names)
    kinds = {name.rpartition("device:")[2].partition(":")[0] for name in found}
    if kinds not in ({"CPU"}, {"GPU"}) or any("/job:" in name for name in found):
        raise ValueError(
            f"`--devices` must be all GPUs or all CPUs of this host, but are {' '.join(names)}. "
            "Pass e.g. /gpu:0 /gpu:1"
        )
    devices_lib.check_exist(found, cpus_known=False)
    return found


def _setups(name: str, devices: Sequence[str], args: argparse.Namespace) -> list[plan.Setup]:
    """Returns the list of `plan.Setup`s to train a model, first that on one device.

    Raises:
        ValueError: If there are too few devices, or the whole batch cannot be divided among them.
    """
    counts = args.counts or [len(devices)]
    if max(counts) > len(devices) or len(set(counts)) < len(counts):
        raise ValueError(
            f"`--counts` must be distinct and at most the number of devices, {len(devices)}, but "
            f"are {' '.join(map(str, counts))}. Name more devices, or lower counts."
        )
    whole = args.global_batch
    if whole and any(whole % count for count in counts):
        raise ValueError(
            f"`--global_batch` must be a multiple of each number of devices, "
            f"{', '.join(map(str, counts))}, but is {whole}. Take e.g. {max(counts) * _ROWS}."
        )
    base = models.CASES[name]._replace(dtype=args.dtype)
    each = args.rows or _ROWS

    def setup(title: str, engine: str, count: int, choice: str | None = None) -> plan.Setup:
        case = base._replace(towers=count, global_batch=whole or each * count)
        return plan.Setup(title, engine, tuple(devices[:count]), case, choice)

    made = [setup(plan.ONE, "single", 1)]
    for count, engine in itertools.product(counts, args.engines):
        if engine == "replicate":
            for choice in args.choices:
                title = "replicate" if choice == "default" else f"replicate, {choice}"
                made.append(setup(title, engine, count, choice))
        else:
            made.append(setup(_TITLES[engine], engine, count))
    return made
