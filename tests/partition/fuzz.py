"""Compares random programs in towers with one device: from `tests`,.

    python -m partition.fuzz --seed 0 --graphs 100 [--towers 3] [--minutes 5] [--each]

A program is what a seed makes it. One that fails is made smaller, and printed.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import os
import pathlib
import pkgutil
import sys
import time
from importlib import util
from typing import Counter, Iterable, Iterator, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
if util.find_spec("tf_keras"):  # Without it, TensorFlow 2.15 has no `tf.layers` then.
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

if __name__ == "__main__":
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[2]))

import tensorflow.compat.v1 as tf  # It reads the environment.

from partition import fuzz_generate, fuzz_run, fuzz_shrink
from partition.fuzz_program import Program, describe
from replicate.layouts import rules


class Failure(NamedTuple):
    """A program that fails.

    Attributes:
        seed: Its seed.
        program: The program.
        message: How it fails.
    """

    seed: int
    program: Program
    message: str


class Search(NamedTuple):
    """The outcomes of many programs.

    Attributes:
        failures: Those that fail.
        kinds: How many came to what end.
        in_towers: How many of their operations ran in towers.
        of_rows: How many operations something of the batch enters.
        whole: By type: how many operations ran once that take what towers have.
    """

    failures: list[Failure]
    kinds: Counter[str]
    in_towers: int
    of_rows: int
    whole: Counter[str]


def load_rules() -> None:
    """Enters all rules that there are, also those that the table does not name yet."""
    for module in pkgutil.iter_modules(rules.__path__):
        try:
            importlib.import_module(f"{rules.__name__}.{module.name}")
        except Exception as error:  # Some are being written.
            print(f"{module.name}: {error}", file=sys.stderr)


def outcomes(
    seeds: Iterable[int], towers: int | None = None
) -> Iterator[tuple[int, Program, fuzz_run.Outcome]]:
    """Yields what comes of the programs of some seeds."""
    for seed in seeds:
        program = fuzz_generate.generate(seed, towers)
        yield seed, program, fuzz_run.check(program)


def search(seeds: Iterable[int], towers: int | None = None, most: int = 1) -> Search:
    """Runs programs until some fail.

    Args:
        seeds: Their seeds.
        towers: How many towers each has, None for any number.
        most: How many may fail before it ends.
    """
    failures: list[Failure] = []
    kinds: Counter[str] = collections.Counter()
    whole: Counter[str] = collections.Counter()
    in_towers = of_rows = 0
    for seed, program, outcome in outcomes(seeds, towers):
        kinds[outcome.kind] += 1
        if outcome.coverage is not None:
            in_towers += outcome.coverage.in_towers
            of_rows += outcome.coverage.of_rows
            whole.update(outcome.coverage.whole)
        if outcome.kind == fuzz_run.FAILED:
            failures.append(Failure(seed, program, outcome.message))
            if len(failures) >= most:
                break
    return Search(failures, kinds, in_towers, of_rows, whole)


def report(failure: Failure, seconds: float = 120.0) -> str:
    """Returns a failing program, as small as it gets in some time, as text."""
    small = fuzz_shrink.shrink(failure.program, failure.message, seconds)
    message = fuzz_run.check(small).message or failure.message
    return f"seed {failure.seed}\n{describe(small)}\n--> {message}"


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--graphs", type=int, default=100, help="how many programs")
    parser.add_argument("--towers", type=int, default=None, help="how many towers")
    parser.add_argument("--minutes", type=float, default=1e9, help="when to end")
    parser.add_argument("--failures", type=int, default=5, help="after how many to end")
    parser.add_argument("--shrink", type=float, default=120.0, help="seconds for each failure")
    parser.add_argument("--each", action="store_true", help="print each program")
    given = parser.parse_args(arguments)
    tf.logging.set_verbosity(tf.logging.ERROR)
    load_rules()
    end = time.monotonic() + 60 * given.minutes

    def seeds() -> Iterator[int]:
        for seed in range(given.seed, given.seed + given.graphs):
            if time.monotonic() > end:
                return
            if given.each:
                print(f"--- seed {seed}\n{describe(fuzz_generate.generate(seed, given.towers))}")
            yield seed

    started = time.monotonic()
    found = search(seeds(), given.towers, given.failures)
    seconds = time.monotonic() - started
    for failure in found.failures:
        print(report(failure, given.shrink), flush=True)
        print()
    print(f"{dict(found.kinds)} in {seconds:.0f} s")
    share = 100 * found.in_towers / max(found.of_rows, 1)
    print(
        f"{share:.0f} % of {found.of_rows} operations that rows enter ran in towers; what stopped most:"
    )
    print(", ".join(f"{kind} {count}" for kind, count in found.whole.most_common(30)))
    return int(bool(found.failures))


if __name__ == "__main__":
    sys.exit(main())
