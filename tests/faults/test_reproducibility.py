"""The same seed, machine and towers give the same checkpoint, to the last bit."""

import pytest

from faults import training

STEPS = 5
FILES = ("data-00000-of-00001", "index")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        pytest.param({"optimizer": {"accumulate_steps": 2}}, marks=pytest.mark.thorough),
        pytest.param({"optimizer": {"loss_scale": "dynamic"}}, marks=pytest.mark.thorough),
    ],
    ids=str,
)
def test_two_processes_write_the_same_checkpoints(tmp_path, settings):
    directories = [tmp_path / name for name in ("one", "other")]
    for directory in directories:
        process = training.start(
            "reproducible", directory, max_steps=STEPS, own_saver=True, **settings
        )
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
    for ending in FILES:
        one, other = (
            (directory / f"model.ckpt-{STEPS}.{ending}").read_bytes() for directory in directories
        )
        assert one == other, ending
