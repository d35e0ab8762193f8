"""Which tests are slow, and which are the heart, follows from what they took."""

import os
import subprocess
import sys

import pytest

import durations


@pytest.mark.parametrize(
    ("name", "seconds", "marks"),
    [
        ("tests/towers/test_x.py::test_y", 0, ["heart"]),
        ("tests/towers/test_x.py::test_y", 0.3, []),
        ("tests/graphs/test_x.py::test_y", 0.3, ["heart"]),
        ("tests/nas_search/test_x.py::test_y", 0, []),
        ("tests/towers/test_x.py::test_y", 0.8, ["slow"]),
        ("tests/nas_search/test_x.py::test_y", 60, ["slow"]),
        ("tests/contract/test_x.py::test_y", 60, []),
    ],
)
def test_marks(name, seconds, marks):
    assert durations.marks(name, seconds) == marks


@pytest.mark.slow
def test_the_table_names_tests_that_there_are():
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    root = durations.TABLE.parents[1]
    done = subprocess.run(
        command, cwd=root, env=dict(os.environ), capture_output=True, text=True, check=True
    )
    assert set(durations.read()) - set(done.stdout.splitlines()) == set()
