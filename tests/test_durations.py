"""Which tests are slow, and which are the heart, follows from what they took."""

import os
import subprocess
import sys

import pytest

import durations


@pytest.mark.parametrize(
    ("room", "seconds", "marks"),
    [
        ("towers", 0, ["heart"]),
        ("towers", 0.3, []),
        ("graphs", 0.3, ["heart"]),
        ("nas_search", 0, []),
        ("towers", 0.8, ["slow"]),
        ("nas_search", 60, ["slow"]),
        ("contract", 60, []),
    ],
)
def test_marks(room, seconds, marks, monkeypatch):
    name = f"tests/{room}/test_x.py::test_y"
    monkeypatch.setattr(durations, "read", lambda: {name: seconds})
    assert list(durations.marks([name])) == [marks]


def test_the_first_cells_of_a_table_are_the_heart(monkeypatch):
    monkeypatch.setattr(durations, "read", dict)
    names = [f"tests/towers/test_x.py::test_y[{i}]" for i in range(5)]
    others = [f"tests/towers/test_x.py::test_z[{i}]" for i in range(2)]
    found = [name for name, marks in zip(names + others, durations.marks(names + others)) if marks]
    assert found == names[: durations.CELLS] + others


def test_a_file_with_a_long_test_has_no_heart(monkeypatch):
    name = "tests/towers/test_x.py::test_y"
    monkeypatch.setattr(durations, "read", lambda: {f"{name}[1]": durations.LONG + 1})
    assert list(durations.marks([f"{name}[0]", f"{name}[1]"])) == [[], ["slow"]]


@pytest.mark.slow
def test_the_table_names_tests_that_there_are():
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    root = durations.TABLE.parents[1]
    done = subprocess.run(
        command, cwd=root, env=dict(os.environ), capture_output=True, text=True, check=True
    )
    assert set(durations.read()) - set(done.stdout.splitlines()) == set()
