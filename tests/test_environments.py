"""The Makefile empties only environments that it made for this clone, and keeps their bytecode."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[1]
EMPTIED = "VENV is emptied before it is filled, but {} "


def make(venv, python="missing", **more):
    """Starts to make an environment; returns status and errors. Nothing is installed.

    Args:
        venv: Its directory.
        python: If there is no such Python, `make` stops after the check at the latest.
        **more: Variables of the process.
    """
    command = ["make", "--no-print-directory", f"{venv}/.made", f"VENV={venv}", f"PYTHON={python}"]
    # Tests may be run by `make` itself, whose variables would come before these.
    without = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        command, cwd=ROOT, env={**without, **more}, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("made_by", [None, "/another/clone\n"], ids=["nothing", "another clone"])
def test_other_environments_are_kept(made_by, tmp_path):
    (tmp_path / "kept").write_text("")
    if made_by:
        (tmp_path / ".made").write_text(made_by)
        os.utime(tmp_path / ".made", (0, 0))  # Older than `setup.py`.
    status, errors = make(tmp_path)
    why = f"is of {made_by.strip()}." if made_by else "was not made by this Makefile."
    assert status and EMPTIED.format(tmp_path) + why in errors
    assert (tmp_path / "kept").exists()


@pytest.mark.parametrize("made_by", ["", f"{ROOT}\n"], ids=["an older Makefile", "this clone"])
def test_environments_of_this_clone_are_made_anew(made_by, tmp_path):
    made = tmp_path / ".made"
    made.write_text(made_by)
    os.utime(made, (0, 0))
    status, errors = make(tmp_path)
    assert status and "VENV is emptied" not in errors and "missing" in errors


def test_processes_keep_bytecode_where_containers_forbid_it(tmp_path):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "told <$PYTHONDONTWRITEBYTECODE>" >&2\n')
    python.chmod(0o700)
    _, errors = make(tmp_path / "venv", python, PYTHONDONTWRITEBYTECODE="1")
    assert "told <>" in errors
