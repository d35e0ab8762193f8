"""Tests are marked slow, or as smoke tests, by their measured times."""

import os
import subprocess
import sys
import types

import pytest

import durations

pytest_plugins = ["pytester"]


@pytest.mark.parametrize(
    ("package", "seconds", "marks"),
    [
        ("towers", 0, ["smoke"]),
        ("towers", 0.3, []),
        ("graphs", 0.3, ["smoke"]),
        ("nas_search", 0, []),
        ("towers", 0.8, ["slow"]),
        ("nas_search", 5, ["slow"]),
        ("nas_search", 6, ["slow", "thorough"]),
        ("contract", 60, ["table"]),
        ("contract", 0, ["table", "smoke"]),
        ("partition", 0, ["further"]),
    ],
)
def test_marks(package, seconds, marks, monkeypatch):
    name = f"tests/{package}/test_x.py::test_y"
    monkeypatch.setattr(durations, "read", lambda: {name: seconds})
    assert list(durations.marks([(name, [])])) == [marks]


def test_models_of_static_shapes_are_thorough_where_others_have_unknown_ones():
    names = [f"tests/partition/test_x.py::test_y[a-{case}]" for case in ("2-static", "3-unknown")]
    assert list(durations.marks([(name, []) for name in names])) == [
        ["further", "thorough"],
        ["further"],
    ]


def test_some_programs_of_the_fuzzer_run_always():
    told = [(f"tests/partition/test_fuzz.py::test_y[{i}]", []) for i in range(5)]
    assert list(durations.marks(told)) == [[]] * 3 + [["further"]] * 2


def test_the_first_cells_of_a_table_are_smoke_tests(monkeypatch):
    monkeypatch.setattr(durations, "read", dict)
    names = [f"tests/towers/test_x.py::test_y[{i}]" for i in range(5)]
    others = [f"tests/towers/test_x.py::test_z[{i}]" for i in range(2)]
    told = [(name, []) for name in names + others]
    found = [name for (name, _), marks in zip(told, durations.marks(told)) if marks]
    assert found == names[: durations.CELLS] + others


def test_cells_beside_a_very_slow_one_are_no_smoke_tests(monkeypatch):
    names = [f"tests/towers/test_x.py::test_y[{i}]" for i in range(2)]
    taken = {names[1]: durations.SHARED_FIXTURE + 1}
    monkeypatch.setattr(durations, "read", lambda: taken)
    assert list(durations.marks([(name, []) for name in names])) == [[], ["slow"]]


def test_of_cells_that_take_a_while_the_first_is_not_slow(monkeypatch):
    names = [f"tests/towers/test_x.py::test_y[{i}]" for i in range(4)]
    taken = durations.SLOW + 1, durations.SLOW, durations.FURTHER, durations.SLOW
    monkeypatch.setattr(durations, "read", lambda: dict(zip(names, taken)))
    marks = durations.marks([(name, []) for name in names])
    assert list(marks) == [["slow"], [], ["smoke"], ["further"]]


@pytest.mark.parametrize(("package", "thorough"), [("towers", ["thorough"]), ("layouts", [])])
def test_of_slow_cells_the_first_runs_in_ci(package, thorough, monkeypatch):
    """A cell of `layouts` is the proof of a rule, for which no other stands."""
    names = [f"tests/{package}/test_x.py::test_y[{i}]" for i in range(4)]
    monkeypatch.setattr(durations, "read", lambda: dict.fromkeys(names, durations.SLOW + 1))
    marks = list(durations.marks([(name, []) for name in names]))
    assert marks == [["slow"]] + [["slow", *thorough]] * 3


@pytest.mark.parametrize(
    ("package", "kept"),
    [
        ("revnet", durations.SLOW_OF_AN_EXAMPLE),
        ("towers", durations.SLOW_OF_A_FILE),
        ("layouts", 6),
    ],
)
def test_of_slow_tests_of_a_file_some_run_in_ci(package, kept, monkeypatch):
    names = [f"tests/{package}/test_x.py::test_{i}" for i in range(6)]
    other = f"tests/{package}/test_z.py::test_0"
    seconds = dict.fromkeys([*names, other], durations.SLOW + 1)
    monkeypatch.setattr(durations, "read", lambda: seconds)
    marks = list(durations.marks([(name, []) for name in seconds]))
    assert marks == [["slow"]] * kept + [["slow", "thorough"]] * (6 - kept) + [["slow"]]


@pytest.mark.parametrize(("package", "thorough"), [("towers", ["thorough"]), ("layouts", [])])
def test_of_further_cells_a_few_run_in_ci(package, thorough, monkeypatch):
    names = [f"tests/{package}/test_x.py::test_y[{i}]" for i in range(5)]
    monkeypatch.setattr(durations, "read", lambda: dict.fromkeys(names, durations.SLOW))
    marks = list(durations.marks([(name, []) for name in names]))
    kept = durations.FURTHER_CELLS
    assert marks == [[]] + [["further"]] * kept + [["further", *thorough]] * (4 - kept)


def test_what_shares_a_long_fixture_runs_in_ci(monkeypatch):
    """Its own time counts, as the fixture takes its time once."""
    file = "tests/towers/test_x.py"
    monkeypatch.setattr(durations, "read", lambda: {f"{file}::trained": durations.LONG + 1})
    told = [(f"{file}::test_y[{i}]", ["trained"]) for i in range(4)]
    assert list(durations.marks(told)) == [["slow"]] * 4


def test_what_shares_a_slow_fixture_is_slow(monkeypatch):
    file = "tests/towers/test_x.py"
    monkeypatch.setattr(durations, "read", lambda: {f"{file}::trained": 5})
    told = [(f"{file}::test_y", ["trained"]), (f"{file}::test_z", ["fresh_graph"])]
    assert list(durations.marks(told)) == [["slow"], ["smoke"]]


def test_a_shared_fixture_is_measured_by_itself(pytester):
    pytester.makepyfile(
        test_x="""
        import pytest

        @pytest.fixture(scope="module")
        def trained():
            return 1

        @pytest.mark.parametrize("i", [1, 2])
        def test_y(trained, i):
            assert trained
        """
    )
    measured = durations.Measured()
    pytester.inline_run(plugins=[durations.Fixtures(), measured]).assertoutcome(passed=2)
    names = ["test_x.py::trained", "test_x.py::test_y[1]", "test_x.py::test_y[2]"]
    assert sorted(measured.seconds) == sorted(names)
    assert all(measured.seconds[name] > 0 for name in names)


def test_a_fixture_is_no_part_of_its_first_test():
    measured, test = durations.Measured(), "tests/towers/test_x.py::test_y"
    properties = [(durations.PROPERTY, ["tests/towers/test_x.py::trained", 5.0])]
    for when, seconds in (("setup", 5.25), ("call", 0.5), ("teardown", 0.0)):
        report = {"nodeid": test, "when": when, "duration": seconds, "user_properties": properties}
        measured.pytest_runtest_logreport(types.SimpleNamespace(**report))
    assert measured.seconds == {test: 0.75, "tests/towers/test_x.py::trained": 5.0}


@pytest.mark.slow
@pytest.mark.thorough  # A name that is left over does no harm.
def test_the_table_names_tests_that_there_are():
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    root = durations.TABLE.parents[1]
    done = subprocess.run(
        command, cwd=root, env=dict(os.environ), capture_output=True, text=True, check=True
    )
    tests = done.stdout.splitlines()
    files = {name.partition("::")[0] for name in tests}
    for name in set(durations.read()).difference(tests):
        file, _, fixture = name.partition("::")
        assert file in files and f"def {fixture}(" in (root / file).read_text(), name
