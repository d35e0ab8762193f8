"""How long each test takes, and what follows: `slow`, and `heart`.

    python -m tests.durations           runs all tests but `thorough` and `nightly` ones, and writes
                                        what took more than 0.2 s into `durations.txt`

A test that is not in there is quick. Seconds are of TensorFlow 2.15 on two cores.
"""

import collections
import pathlib
import sys

import pytest

TABLE = pathlib.Path(__file__).with_name("durations.txt")
LISTED = 0.2
SLOW = 0.75
"""Tests that take longer, in seconds, are `slow`, unless they are rows of tables that must hold."""
TABLES = ("conformance", "contract", "moving")
LONG = 10
"""Of a file with a test that takes longer, in seconds, none is in the heart."""
EXAMPLES = ("benchmarks", "data", "examples", "moving", "nas_search", "revnet", "runs")
# How many cells of a table are in the heart, and of which rooms more, of half a second each.
CELLS, CORE_CELLS = 2, 8
CORE = ("contract", "graphs")


def read():
    """Returns the seconds of tests by their ids."""
    lines = TABLE.read_text(encoding="utf-8").splitlines() if TABLE.exists() else []
    return {name: float(seconds) for seconds, _, name in (line.partition(" ") for line in lines)}


def marks(names):
    """Yields the marks of tests.

    Args:
        names: Their ids, in order; of what is parametrised, the first ones are the heart.

    Returns:
        For each the list of its marks, strings.
    """
    seconds, cells = read(), collections.Counter()
    # Of their files' fixtures, which belong to the first test alone as far as pytest tells.
    long = {name.partition("::")[0] for name, taken in seconds.items() if taken > LONG}
    for name in names:
        room, function, taken = name.split("/")[1], name.partition("[")[0], seconds.get(name, 0)
        limit, most = (0.5, CORE_CELLS) if room in CORE else (LISTED, CELLS)
        if taken > SLOW:
            yield [] if room in TABLES else ["slow"]
            continue
        is_quick = taken <= limit and room not in EXAMPLES and name.partition("::")[0] not in long
        cells[function] += is_quick
        yield ["heart"] if is_quick and cells[function] <= most else []


class Measured:
    """A plugin of pytest that adds up what each test takes, its fixtures included."""

    def __init__(self):
        self.seconds = {}

    def pytest_runtest_logreport(self, report):
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0) + report.duration


def main(arguments):
    """Runs the command line; returns the status to exit with."""
    measured = Measured()
    status = pytest.main(["-n", "2", "-m", "not thorough and not nightly", *arguments], [measured])
    longer = {name: s for name, s in measured.seconds.items() if s > LISTED}
    lines = [f"{seconds:.2f} {name}\n" for name, seconds in sorted(longer.items())]
    TABLE.write_text("".join(lines), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
