"""`python -m replicate bench`: trains models on one device and on several, and prints a table.

A *round* runs every way to train a model once, one after the other and each in its own process, so
that a slow spell of the machine falls on all of them. Figures are medians over rounds. Efficiency
is the throughput of N devices ÷ N times that of one, in the same round.
"""

import argparse
import itertools
import pathlib
import sys
from typing import NamedTuple, Optional, Sequence, Tuple

from replicate import devices as devices_lib
from replicate.bench import choices, engines, harness, losses, models, rows
from replicate.bench.harness import names_of, positive

ENGINES = ("replicate", "mirrored", "central")
DEFAULT_MODELS = ("cnn", "mlp", "wide")  # ResNet-50 takes a CPU minutes: when asked for.
_ONE, _ROWS = "one device", 128
_TITLES = {"mirrored": "MirroredStrategy", "central": "CentralStorageStrategy"}


class Way(NamedTuple):
    """A way to train a model, and on what."""

    name: str
    engine: str
    devices: Tuple[str, ...]
    case: models.Case
    choice: Optional[str] = None

    def __hash__(self):
        return hash(self[:3])


def parser():
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m replicate bench",
        description="Trains models on one device and on several, in processes of their own, and "
        "prints a Markdown table: replicate, MirroredStrategy and CentralStorageStrategy.",
    )
    made.add_argument(
        "--devices", nargs="+", help="e.g. /gpu:0 /gpu:1, or /cpu:0 /cpu:1 (default: every GPU)"
    )
    made.add_argument(
        "--counts", type=positive, nargs="+", help="how many of them to use (default: all)"
    )
    made.add_argument("--models", type=names_of(models.CASES), default=list(DEFAULT_MODELS))
    made.add_argument("--engines", type=names_of(ENGINES), default=list(ENGINES))
    made.add_argument(
        "--choices",
        type=choices.of,
        nargs="+",
        default=[choices.of("default")],
        help=f"of replicate: {','.join(choices.CHOICES)}; or JSON of the arguments of "
        "replicate_model_fn and TowerOptimizer",
    )
    batch = made.add_mutually_exclusive_group()
    batch.add_argument("--rows", type=positive, help=f"of each device (default {_ROWS})")
    batch.add_argument("--global_batch", type=positive, help="rows of the whole batch instead")
    made.add_argument("--dtype", choices=models.DTYPES, default="float32", help="of layers")
    made.add_argument("--rounds", type=positive, default=3)
    made.add_argument("--steps", type=positive, default=100, help="timed, of each round")
    made.add_argument("--warmup", type=positive, default=20, help="steps before them")
    made.add_argument("--out", help="file to which JSON lines are appended, one for each row")
    return made


def main(argv: Sequence[str]) -> int:
    """Runs the benchmark that the command line `argv` describes.

    Returns:
        Exit status: 0, or 1 if an engine failed or trained something else.
    """
    of_flags = parser()
    args = of_flags.parse_args(argv)
    try:
        devices = _devices(args.devices)
        args.choices = {name: choice for given in args.choices for name, choice in given.items()}
        ways = {name: _ways(name, devices, args) for name in args.models}
        if args.out and not pathlib.Path(args.out).absolute().parent.is_dir():
            raise ValueError(
                f"`--out` must be in a directory that is there, but is {args.out!r}. Make "
                f"{pathlib.Path(args.out).parent}, or name another file."
            )
    except ValueError as error:
        of_flags.error(str(error))
    made, context = [], {**harness.machine(), "rounds": args.rounds, "steps": args.steps}
    try:
        for name in args.models:
            rounds = _run(name, ways[name], args)
            for record in rows.records(name, ways[name], rounds):
                made.append({**record, **context})
                if args.out:
                    harness.append(made[-1], args.out)
            _check(name, ways[name], rounds[0], args)
    except RuntimeError as error:
        print(f"\nProblem: {error}", file=sys.stderr)
        return 1
    finally:  # What was measured is not lost.
        if made:
            print("\n" + rows.table(made) + "\n", flush=True)
            for line in rows.advice(made, args.choices):
                print(line + "\n", flush=True)
    return 0


def _devices(names):
    """Returns the canonical names of the devices to use.

    Raises:
        ValueError: If they are not all GPUs or all CPUs of this host, or there is only a CPU.
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


def _ways(name, devices, args):
    """Returns the ways to train a model, that on one device first.

    Raises:
        ValueError: If the devices are too few, or the whole batch cannot be divided among them.
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

    def way(title, engine, count, choice=None):
        case = base._replace(towers=count, global_batch=whole or each * count)
        return Way(title, engine, tuple(devices[:count]), case, choice)

    made = [way(_ONE, "single", 1)]
    for count, engine in itertools.product(counts, args.engines):
        if engine == "replicate":
            for choice in args.choices:
                title = "replicate" if choice == "default" else f"replicate, {choice}"
                made.append(way(title, engine, count, choice))
        else:
            made.append(way(_TITLES[engine], engine, count))
    return made


def _measured(way, args, steps=None):
    choice = args.choices[way.choice] if way.choice else None
    warmup, steps = (1, steps) if steps else (args.warmup, args.steps)
    return engines.run(way.case, way.engine, warmup, steps, list(way.devices), choice)


def _run(name, ways, args):
    rounds = []
    for number in range(args.rounds):
        rounds.append({})
        for way in ways:
            title = f"{way.name}, {len(way.devices)} devices" if way.engine != "single" else _ONE
            print(f"{name}: round {number + 1} of {args.rounds}, {title}", file=sys.stderr)
            rounds[-1][way] = _measured(way, args)
    return rounds


def _check(name, ways, results, args):
    """Checks that all trained the same model on the same rows, and says with what it compared."""
    alone = ways[0]
    for size in sorted({len(way.devices) for way in ways if way is not alone}):
        several = [way for way in ways if len(way.devices) == size and way is not alone]
        found = {way.name: results[way]["losses"] for way in several}
        compared = "each other"
        if name not in models.DEVICES_DIFFER or size == 1:
            # On one device, the whole batch: by itself if that is not what was timed.
            whole = alone._replace(case=several[0].case)
            fits = whole.case.global_batch == alone.case.global_batch
            result = results[alone] if fits else _measured(whole, args, losses.STEPS)
            found = {_ONE: result["losses"], **found}
            compared = f"{_ONE} with the whole batch"
        elif len(found) == 1:
            print(f"{name}, {size} devices: losses are not compared, for there is one engine only.")
            continue
        losses.check(name, found, args.dtype)
        count = min(losses.STEPS, len(results[several[0]]["losses"]))
        print(
            f"{name}, {size} devices: losses of the first {count} steps of {'; '.join(found)} are "
            f"equal to {losses.RTOL[args.dtype]:g}, compared with {compared}."
        )
