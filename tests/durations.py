"""How long each test takes, and what follows: `slow`, and `heart`.

    python -m tests.durations           runs all tests but `thorough` and `nightly` ones, and writes
                                        what took more than 0.2 s into `durations.txt`

A test that is not in there is quick. Seconds are of TensorFlow 2.15 on two cores.
"""

import pathlib
import sys

import pytest

TABLE = pathlib.Path(__file__).with_name("durations.txt")
LISTED = 0.2
SLOW = 0.75
"""Tests that take longer, in seconds, are `slow`, unless they are rows of tables that must hold."""
TABLES = ("conformance", "contract")
EXAMPLES = ("benchmarks", "data", "examples", "nas_search", "revnet", "runs")
# Of these, tests of half a second are in the heart, too.
CORE = ("contract", "graphs")


def read():
    """Returns the seconds of tests by their ids."""
    lines = TABLE.read_text(encoding="utf-8").splitlines() if TABLE.exists() else []
    return {name: float(seconds) for seconds, _, name in (line.partition(" ") for line in lines)}


def marks(name, seconds):
    """Returns the marks of a test of this id that takes so long, a list of strings."""
    room = name.split("/")[1]
    if seconds > SLOW:
        return [] if room in TABLES else ["slow"]
    limit = 0.5 if room in CORE else LISTED
    return ["heart"] if seconds <= limit and room not in EXAMPLES else []


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
