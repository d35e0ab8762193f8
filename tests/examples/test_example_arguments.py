"""Bad input of the examples on digits is an error of one line, before anything is trained."""

import pytest

from examples import digits, mixed_precision
from examples.runs import arguments

WRONG = [
    (["--devices", "/gpu:0"], "--devices: `devices` must exist, but /device:GPU:0 does not"),
    (["--devices", "/cpu:0", "/cpu:0"], "must name each device once, but /device:CPU:0"),
    (["--steps", "0"], "--steps: must be a whole number from 1 on, but is '0'"),
    (["--batch_size", "many"], "--batch_size: must be a whole number from 1 on, but is 'many'"),
    (["--batch_size", "1"], "--batch_size must have a row for each of 2 towers, and at most all"),
    (["--batch_size", "1348"], "and at most all 1,347, but is 1,348."),
    (["--out", "/proc/none"], "--out must be a directory that can be written to, but /proc/none"),
]


@pytest.mark.parametrize("program", [digits, mixed_precision])
@pytest.mark.parametrize(("given", "message"), WRONG)
def test_bad_input(program, given, message, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(program, "run", None)  # Nothing is trained.
    with pytest.raises(SystemExit, match="2"):
        program.main(given)
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_a_file_is_no_model_dir(capsys, tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(SystemExit, match="2"):
        digits.main(["--out", str(tmp_path), "--model_dir", str(path)])
    assert f"--model_dir must be a directory that can be written to, but {path} cannot" in (
        capsys.readouterr().err
    )


def test_training_rows_are_as_many_as_there_are():
    (images, _), _ = digits.load(digits.Config())
    assert len(images) == digits.TRAINING_ROWS


def test_directories_of_other_file_systems_are_left_to_tensorflow(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    arguments.make_directory(None, "--model_dir", "gs://bucket/model")
    assert not list(tmp_path.iterdir())
