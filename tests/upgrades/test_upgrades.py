"""Runs of 0.1.0 continue with this version; its names work, or the error says what to write.

`from_0.1.0` was written by commit 728fa26 on TensorFlow 2.15, the last one before graphs were
partitioned: by `training.py` until step 5, and by `examples.nas_search train`, which Ctrl-C stopped
at step 98 of 600.
"""

import json
import pathlib
import shutil

import pytest
import tensorflow as tf

import programs
import replicate
import training

SAVED = pathlib.Path(__file__).with_name("from_0.1.0")


@pytest.fixture
def saved(tmp_path):
    """Returns a copy of what 0.1.0 saved, since runs write into it."""
    return pathlib.Path(shutil.copytree(SAVED, tmp_path / "saved"))


def test_training_goes_on_as_0_1_0_would_have(saved):
    """The old names of arguments work, too, each with a warning."""
    with pytest.warns(FutureWarning) as warned:
        weights = training.main(str(saved / "training"), 9)
    # Those of 0.1.0 itself, when it went on to step 9.
    assert weights == pytest.approx([0.6654921, -1.5974735, 1.3880149], rel=1e-6)
    texts = [str(one.message) for one in warned]
    for old in ("replicate_model_fn(whole_features=)", "TowerOptimizer(gather=)"):
        assert any(text.startswith(f"`{old}` has been called") for text in texts)


def test_all_that_0_1_0_saved_is_restored(saved):
    """Slots, the loss scale and the parts of an accumulated update keep their names."""
    before = dict(tf.train.list_variables(str(saved / "training")))
    with pytest.warns(FutureWarning):
        training.main(str(saved / "training"), 6)
    assert dict(tf.train.list_variables(str(saved / "training"))) == before
    assert {"current_loss_scale", "accumulated_batches", "linear/weights/Momentum"} < set(before)


def test_a_training_of_a_network_goes_on(saved):
    """By 0.1.0 its cross entropy was 0.5320 at the end; rounding differs for 500 steps."""
    network, indices = saved / "network", ":".join(14 * "0")
    command = ["-m", "examples.nas_search", "train", "--preset", "digits", "--indices", indices]
    settings = ["--max_global_step", "600", "--num_towers", "2", "--checkpoint_dir", str(network)]
    done = programs.run(*command, *settings)
    assert done.returncode == 0, done.stderr
    metrics = json.loads((network / "metrics.json").read_text())
    assert metrics["global_step"] == 600
    assert metrics["cross_entropy"] == pytest.approx(0.5320, rel=0.01)
    assert metrics["train_seconds"] > 0


def test_a_name_that_ended_says_what_to_write():
    with pytest.raises(AttributeError, match=r"own_gradients\(\)` ended with 0\.2\.0.*per_tower="):
        replicate.own_gradients  # noqa: B018  (reading it is the test)
