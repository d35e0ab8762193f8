"""How long each test takes, and its marks: `slow`, `further`, `thorough` and `smoke`.

    python -m tests.durations           runs all tests but nightly ones, and those marked thorough
                                        by hand; writes what took 0.2 s and more into
                                        `durations.txt`
    python -m tests.durations FILE...   those of these files; what others took stays

A test that is not in there is quick. Seconds are those on TensorFlow 2.15 and two cores. A fixture
that a whole file shares is listed beside its tests, and is not part of the time of its first test:
all tests that use it are slow if it is.
"""

import collections
import pathlib
import sys
import time

import pytest

TABLE = pathlib.Path(__file__).with_name("durations.txt")
LISTED = 0.2
SLOW = 0.5
"""Tests that take longer, in seconds, are `slow`; those of `TABLES`, which must hold, are not."""
SLOW_CELLS = 1
"""Slow cells of one parametrised test, after the first, are `thorough` too; not in `RULES`."""
SLOW_OF_A_FILE, SLOW_OF_AN_EXAMPLE = 3, 1
"""After so many slow tests of a file, its others are `thorough` too; fewer in `EXAMPLES`."""
LONG = 5
"""Tests that take longer, in seconds, are `slow` and `thorough`."""
FURTHER = 0.2
"""Cells of a parametrised test that take longer are `further` ones, except the first."""
FURTHER_CELLS = 1
"""Further cells of a parametrised test, after these, are `thorough` too; not in `RULES`."""
TABLES = ("conformance", "contract")
RULES = ("layouts",)  # A cell proves the rule of one operation, and no other cell does.
HELD = ("tests/benchmarks/test_coverage.py",)  # A cell holds the figures of one network.
PROPERTY = "seconds of a fixture"
EXAMPLES = ("benchmarks", "data", "examples", "moving", "nas_search", "revnet", "runs")
# How many cells of a table are smoke tests, and of which packages more, of 0.3 seconds each.
CELLS, CORE_CELLS = 2, 4
CORE = ("contract", "graphs")
# Packages whose tests share graphs, so that the first takes what all do: only CI runs them,
# except these files.
SHARED = ("partition",)
ALWAYS = ("tests/partition/test_fuzz.py",)
ALWAYS_CELLS = 3
STATIC = "-2-static]"
"""Ends the ids of the same models in another graph, of static shapes: these are `thorough` too."""


def read():
    """Returns the seconds of tests by their ids."""
    lines = TABLE.read_text(encoding="utf-8").splitlines() if TABLE.exists() else []
    return {name: float(seconds) for seconds, _, name in (line.partition(" ") for line in lines)}


# A fixture that takes longer, in seconds, is made by one process: it runs all tests of the file.
SHARED_FIXTURE = 3


def files_in_one_process():
    """Returns the files whose tests share what takes long to make."""
    made = (name.partition("::") for name, seconds in read().items() if seconds > SHARED_FIXTURE)
    return {file for file, _, name in made if not name.startswith("test_")}


def marks(items):
    """Yields the marks of tests.

    Args:
        items: Pairs of a test's id and the names of its fixtures, in order; of what is
            parametrised, the first ones are smoke tests, but not if one took longer than
            `SHARED_FIXTURE`: the others share its work.

    Returns:
        For each the list of its marks, strings.
    """
    seconds = read()
    cells, kept = collections.Counter(), collections.Counter()
    slow, further = collections.Counter(), collections.Counter()
    shared = {_function(name) for name, taken in seconds.items() if taken > SHARED_FIXTURE}
    for name, fixtures in items:
        file, _, _ = name.partition("::")
        package, function = name.split("/")[1], _function(name)
        if package in SHARED:
            kept[function] += 1
            is_kept = file in ALWAYS and kept[function] <= ALWAYS_CELLS
            static = ["thorough"] if name.endswith(STATIC) else []
            yield [] if is_kept else ["further", *static]
            continue
        taken = max([seconds.get(name, 0), *(seconds.get(f"{file}::{one}", 0) for one in fixtures)])
        limit, most = (0.3, CORE_CELLS) if package in CORE else (LISTED, CELLS)
        if package not in TABLES and taken > (FURTHER if kept[function] else SLOW):
            own = seconds.get(name, 0)  # A test that shares a fixture adds little to its time.
            for counted in (function, file):
                slow[counted] += own > SLOW
            further[function] += taken <= SLOW
            of_a_file = SLOW_OF_AN_EXAMPLE if package in EXAMPLES else SLOW_OF_A_FILE
            is_one_more = own > SLOW and (slow[function] > SLOW_CELLS or slow[file] > of_a_file)
            is_one_more |= further[function] > FURTHER_CELLS
            must_run = package in RULES or file in HELD
            is_left_out = own > LONG or (is_one_more and not must_run)
            yield [
                "slow" if taken > SLOW else "further",
                *(["thorough"] if is_left_out else []),
            ]
            continue
        kept[function] += 1
        is_quick = taken <= limit and package not in EXAMPLES and function not in shared
        cells[function] += is_quick
        chosen = ["table"] if package in TABLES else []
        yield [*chosen, "smoke"] if is_quick and cells[function] <= most else chosen


def _function(name):
    """Returns the id of a test without its parameters."""
    return name.partition("[")[0]


class Fixtures:
    """A plugin of pytest that lets a test's report carry what fixtures of its whole file took."""

    def __init__(self):
        self._made = []

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        start = time.monotonic()
        yield
        if fixturedef.scope == "module":
            name = f"{fixturedef.baseid}::{fixturedef.argname}"
            self._made.append((PROPERTY, [name, time.monotonic() - start]))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item, call):
        if call.when == "setup":
            item.user_properties.extend(self._made)
            self._made = []


class Measured:
    """A plugin of pytest that adds up what each test takes, and what shared fixtures do.

    Tests run in processes of their own, which have `Fixtures`.
    """

    def __init__(self):
        self.seconds = collections.Counter()

    def pytest_runtest_logreport(self, report):
        test, _, _ = report.nodeid.partition("@tests/")  # The group that it runs in.
        self.seconds[test] += report.duration
        if report.when != "setup":  # Later reports repeat what the first one carries.
            return
        for key, value in report.user_properties:
            if key == PROPERTY:
                self.seconds[value[0]] += value[1]
                self.seconds[test] -= value[1]


def main(arguments):
    """Runs the command line; returns the status to exit with."""
    measured = Measured()
    # Tests that are thorough because they take long are slow, too; others are not measured.
    how = ["-n", "2", "--dist", "loadgroup", "-m", "not nightly and (slow or not thorough)"]
    status = pytest.main([*how, *arguments], [measured])
    files = {name.partition("::")[0] for name in measured.seconds}
    longer = {
        name: s for name, s in read().items() if arguments and name.split("::")[0] not in files
    }
    longer.update((name, s) for name, s in measured.seconds.items() if s > LISTED)
    lines = [f"{seconds:.2f} {name}\n" for name, seconds in sorted(longer.items())]
    TABLE.write_text("".join(lines), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
