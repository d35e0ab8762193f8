"""Training falls back to the newest checkpoint that is whole, and a warning says why."""

import os
import re
import shutil

import pytest
import tensorflow.compat.v1 as tf

from faults import training
from replicate.faults import checkpoints

NONE_IS_WHOLE = "Training resumes from a whole checkpoint, but none in"
STEPS = 9
# Checkpoints at steps 0, 3, 6 and 9, with all data in one file.
SETTINGS = {"save_steps": 3, "own_saver": True}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The directory and the losses of an undisturbed run."""
    directory = tmp_path_factory.mktemp("whole")
    return directory, training.train(directory, STEPS, **SETTINGS)


@pytest.fixture
def directory(whole, tmp_path):
    """A copy of that directory."""
    return shutil.copytree(whole[0], tmp_path / "run")


def data(step):
    return f"model.ckpt-{step}.data-00000-of-00001"


def index(step):
    return f"model.ckpt-{step}.index"


def cut(file, size):
    return lambda directory: os.truncate(directory / file, size)


def remove(file):
    return lambda directory: os.remove(directory / file)


def overwrite(file, content):
    return lambda directory: (directory / file).write_bytes(content)


def flip(file):
    def change(directory):
        content = bytearray((directory / file).read_bytes())
        content[len(content) // 2] ^= 1
        (directory / file).write_bytes(content)

    return change


DAMAGES = {
    "short_data": (cut(data(9), 100), "its data are 100 bytes, but its index lists"),
    "empty_data": (cut(data(9), 0), "its data are 0 bytes"),
    "no_data": (remove(data(9)), "data-00000-of-00001"),
    "wrong_data": (flip(data(9)), "hecksum"),
    "short_index": (cut(index(9), 50), ""),
    "empty_index": (cut(index(9), 0), ""),
    "no_index": (remove(index(9)), ""),
    "wrong_index": (overwrite(index(9), b"x" * 500), ""),
}
STATES = {
    "no_state": remove("checkpoint"),
    "empty_state": cut("checkpoint", 0),
    "wrong_state": overwrite("checkpoint", b"\xff\x00garbage"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_checkpoint_is_named_and_put_aside(directory, warnings, name):
    damage, reason = DAMAGES[name]
    files = {path.name for path in directory.glob("model.ckpt-9.*")}
    damage(directory)
    assert checkpoints.fall_back(str(directory)) == str(directory / "model.ckpt-6")
    [said] = warnings()
    assert f"{directory}/model.ckpt-9 is damaged: " in said
    assert reason in said
    assert said.endswith(f"Training resumes from {directory}/model.ckpt-6 instead.")
    assert tf.train.latest_checkpoint(str(directory)) == str(directory / "model.ckpt-6")
    state = tf.train.get_checkpoint_state(str(directory))
    kept = [os.path.basename(path) for path in state.all_model_checkpoint_paths]
    assert kept == ["model.ckpt-0", "model.ckpt-3", "model.ckpt-6"]
    assert {path.name for path in directory.glob("model.ckpt-9.*")} <= {
        f"{file}.damaged" for file in files
    }
    assert checkpoints.fall_back(str(directory)) == str(directory / "model.ckpt-6")
    assert len(warnings()) == 1


@pytest.mark.parametrize("name", STATES)
def test_a_lost_state_file_is_written_anew(directory, warnings, name):
    STATES[name](directory)
    assert checkpoints.fall_back(str(directory)) == str(directory / "model.ckpt-9")
    [said] = warnings()
    assert f"{directory}/checkpoint is missing or cannot be read. " in said
    assert tf.train.latest_checkpoint(str(directory)) == str(directory / "model.ckpt-9")


@pytest.mark.conformance
@pytest.mark.parametrize(
    "damages",
    [
        pytest.param([DAMAGES["short_data"][0]], id="short_data"),
        pytest.param([flip(data(9)), STATES["wrong_state"]], id="wrong_data_and_state"),
    ],
)
def test_training_goes_on_as_if_nothing_had_happened(whole, directory, warnings, damages):
    for damage in damages:
        damage(directory)
    losses = training.Record()
    # The files decide, not the memory of this process: the Estimator looks for them itself.
    made = training.make_estimator(directory, **SETTINGS)
    made.train(lambda: training.dataset(6), steps=3, hooks=[losses])
    assert losses.losses == whole[1][6:]
    training.assert_same(training.read(directory), training.read(whole[0]))
    assert f"resumes from {directory}/model.ckpt-6 instead" in warnings()[0]


@pytest.mark.conformance
def test_without_a_whole_checkpoint_training_does_not_start_anew(directory):
    for step in (0, 3, 6, 9):
        cut(data(step), 10)(directory)
    before = sorted(path.name for path in directory.iterdir())
    with pytest.raises(RuntimeError, match=f"{NONE_IS_WHOLE} '{directory}' is:\n") as caught:
        training.make_estimator(directory, **SETTINGS).train(lambda: training.dataset(0), steps=1)
    said = re.findall(r"model\.ckpt-(\d) is damaged: its data are 10 bytes", str(caught.value))
    assert said == ["9", "6", "3", "0"]
    assert {path.name for path in directory.iterdir()} >= {*before}


def test_a_process_that_died_in_its_first_save_starts_anew(directory, warnings):
    for path in [*directory.glob("model.ckpt-[1-9]*"), directory / "checkpoint"]:
        path.unlink()
    cut(index(0), 20)(directory)
    assert checkpoints.fall_back(str(directory)) is None
    text = "Training starts from the beginning: the damaged checkpoint was saved at step 0."
    assert warnings()[0].endswith(text)


@pytest.mark.parametrize("exists", [True, False])
def test_a_directory_without_checkpoints_is_no_matter(tmp_path, warnings, exists):
    directory = tmp_path if exists else tmp_path / "none"
    assert checkpoints.fall_back(str(directory)) is None
    assert list(tmp_path.iterdir()) == []
    assert warnings() == []


def test_a_checkpoint_that_the_user_went_back_to_stays(directory, warnings):
    older = str(directory / "model.ckpt-3")
    tf.train.update_checkpoint_state(str(directory), older, [older])
    assert checkpoints.fall_back(str(directory)) == older
    cut(data(3), 10)(directory)
    assert checkpoints.fall_back(str(directory)) == str(directory / "model.ckpt-0")
    assert (directory / data(9)).exists()
    assert len(warnings()) == 1


def test_a_big_checkpoint_is_measured_but_not_read(directory, monkeypatch):
    flip(data(9))(directory)
    monkeypatch.setattr(checkpoints, "READ_BYTES", 100)
    assert checkpoints.defect(str(directory / "model.ckpt-9")) is None
    cut(data(9), 200)(directory)
    assert "its data are 200 bytes" in checkpoints.defect(str(directory / "model.ckpt-9"))


def test_what_has_no_numbers_is_not_read(tmp_path):
    numbers = tf.data.make_one_shot_iterator(tf.data.Dataset.range(3))
    tf.train.get_or_create_global_step()
    saver = tf.train.Saver([tf.data.experimental.make_saveable_from_iterator(numbers)])
    with tf.Session() as session:
        path = saver.save(session, str(tmp_path / "model.ckpt"), global_step=1)
    assert checkpoints.defect(path) is None


def test_checkpoints_elsewhere_stay_as_they_are(directory, warnings, tmp_path):
    """A state file may come from elsewhere, and name files that are not this training's."""
    other = tmp_path / "other"
    shutil.copytree(directory, other)
    (other / "model.ckpt-9.index").write_bytes(b"x" * 500)
    gone = tmp_path / "gone" / "model.ckpt-8"
    names = [str(gone), str(other / "model.ckpt-9")]
    listed = "".join(f'all_model_checkpoint_paths: "{name}"\n' for name in names)
    (directory / "checkpoint").write_text(f'model_checkpoint_path: "{names[-1]}"\n{listed}')
    before = sorted(other.iterdir())
    assert checkpoints.fall_back(str(directory)) == str(directory / "model.ckpt-9")
    assert sorted(other.iterdir()) == before
    [said] = warnings()
    assert all(f"{name} is damaged: " in said for name in names[1:])
