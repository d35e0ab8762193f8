"""A save that fails or is cut short loses nothing that was saved before."""

import json
import os
import signal
import subprocess

import pytest

from faults import training

STEPS = 9
UNITS = 40_000  # 2 MB of checkpoint


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """Function that gives the losses of a run and the directory, by its units."""
    done = {}

    def run(units):
        if units not in done:
            directory = tmp_path_factory.mktemp("uninterrupted")
            done[units] = training.train(directory, STEPS, units=units), directory
        return done[units]

    return run


def mounted(directory):
    """Returns the command under which a directory is a file system of 16 MB, None if none may."""
    # Of this process and its children alone.
    mount = 'mount -t tmpfs -o size=16m none "$0" && exec "$@"'
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, str(directory)]
    try:
        tried = subprocess.run([*command, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return None
    return command if tried.returncode == 0 else None


@pytest.mark.parametrize("kind", [pytest.param("limit", marks=pytest.mark.thorough), "disk"])
def test_a_full_disk_is_an_error_that_leaves_old_checkpoints_whole(tmp_path, uninterrupted, kind):
    """Where nobody may mount, a limit on the size of files stands for the disk."""
    under = mounted(tmp_path) if kind == "disk" else None
    limit = None if under else 2**19
    process = training.start(
        "disk_full", tmp_path, under=under or (), limit=limit, max_steps=STEPS, units=UNITS
    )
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    error, is_at, result = output.splitlines()
    reason = "File too large" if limit else "No space left on device"
    assert reason in error
    assert str(tmp_path) in error
    assert is_at == "is at 5"
    losses, directory = uninterrupted(UNITS)
    assert json.loads(result) == [[list(pair) for pair in losses[5:]], training.digest(directory)]


@pytest.mark.parametrize("step", [5, pytest.param(7, marks=pytest.mark.thorough)])
def test_a_process_that_is_killed_while_it_saves_resumes(tmp_path, uninterrupted, step):
    units = 25 * UNITS  # so that it takes a while
    process = training.start("killed", tmp_path, step=step, save_steps=1, units=units)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL, errors
    saved = {os.path.basename(path) for path in training.files(tmp_path)}
    assert f"model.ckpt-{step}.index" not in saved  # It was in the midst of it.
    start = training.step_of(tmp_path)
    assert start == step - 1
    losses, directory = uninterrupted(units)
    assert training.train(tmp_path, STEPS, units=units) == losses[start:]
    training.assert_same(training.read(tmp_path), training.read(directory))
