"""The quickstart: its model meets the contract, and its comparison can fail."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import programs
from examples import comparison, digits

SHORT = digits.Config(steps=12, dtype="float64")  # an epoch of 10 batches of 125 rows, and of 97


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """The run on one device that others are compared with."""
    return digits.train(SHORT, None, str(tmp_path_factory.mktemp("one")), "one device")


@pytest.mark.parametrize("num_towers", [pytest.param(2, marks=pytest.mark.thorough), 3])
def test_towers_follow_one_device(one, tmp_path, num_towers):
    devices = tuple(f"/cpu:{i}" for i in range(num_towers))
    towers = digits.train(SHORT, devices, str(tmp_path), "towers")
    deviations = digits.compare(towers, one)
    assert {key: value.shape for key, value in deviations.items()} == {
        "loss": (12,),
        "accuracy": (12,),
        "weights": (12,),
        "evaluate": (1,),
        "predict": (1,),
    }
    assert max(value.max() for value in deviations.values()) <= 1e-9
    assert digits.agree(SHORT, deviations)


def test_training_lowers_the_loss(one):
    assert one.loss[-1] < 0.75 * one.loss[0]
    assert one.metrics["accuracy"] > 0.5
    np.testing.assert_allclose(one.probabilities.sum(axis=1), 1)


def test_the_model_is_one_whose_gradient_scale_shows(one, tmp_path):
    # A library that sums instead of averaging would train so: the comparison must notice.
    config = dataclasses.replace(SHORT, learning_rate=2 * SHORT.learning_rate)
    deviations = digits.compare(digits.train(config, None, str(tmp_path), "twice"), one)
    assert not digits.agree(SHORT, deviations)


def test_epochs_end_with_an_odd_smaller_batch():
    train_input_fn, test_input_fn = digits.make_datasets(SHORT)
    with tf.Graph().as_default(), tf.Session() as session:
        _, labels = tf.data.make_one_shot_iterator(train_input_fn()).get_next()
        assert [len(session.run(labels)) for _ in range(12)] == [125] * 10 + [97, 125]
        features, labels = tf.data.make_one_shot_iterator(test_input_fn()).get_next()
        assert features["image"].dtype == tf.float64
        assert labels.dtype == tf.int32
        images = session.run(features["image"])
    assert images.shape == (125, 64)
    assert images.min() == 0
    assert images.max() == 1


def test_deviation_is_in_units_of_the_largest_value():
    reference = np.array([[1.0, -4.0], [2.0, 0.0], [0.0, 0.0]])
    value = reference + [[0.0, 0.2], [-0.4, 0.0], [0.0, 0.0]]
    np.testing.assert_allclose(comparison.deviation(value, reference), [0.2 / 4, 0.4 / 4, 0.0])
    np.testing.assert_allclose(comparison.deviation(np.array([3.0]), np.array([2.0])), [0.5])


@pytest.mark.parametrize(
    ("value", "agrees"),
    [(0.0, True), (1e-5, True), (2e-5, False), (np.inf, False), (np.nan, False)],
)
def test_agreement_is_within_the_tolerance(value, agrees):
    deviations = {"loss": np.array([0.0, value]), "weights": np.array([1e-6, 1e-6])}
    assert digits.agree(digits.Config(), deviations) == agrees


def test_the_report_shows_steps_test_and_verdict(one):
    deviations = digits.compare(one, one)
    lines = digits.report(SHORT, one, one, deviations).splitlines()
    assert [line.split()[0] for line in lines if "%" in line] == [*"1234568", "10", "12", "test"]
    assert lines[-1] == (
        "2 towers and one device agree: no deviation exceeds the tolerance of 1e-09 (float64)."
    )
    deviations["loss"][3] = 1.0
    assert "one device DIFFER: a deviation exceeds" in digits.report(SHORT, one, one, deviations)


def test_the_program_leaves_a_plot_and_a_record(tmp_path, capsys):
    out = tmp_path / "out"
    models = tmp_path / "models"
    assert digits.main(["--steps=3", f"--out={out}", f"--model_dir={models}"]) == 0
    captured = capsys.readouterr()
    assert f"Both loss curves: {out / 'digits.png'}" in captured.out
    assert "%|" not in captured.err  # no terminal, no progress bar
    assert (out / "digits.png").read_bytes().startswith(b"\x89PNG")
    record = json.loads((out / "digits.json").read_text())
    assert record["config"] == json.loads(json.dumps(dataclasses.asdict(digits.Config(steps=3))))
    assert set(record["deviations"]) == {"loss", "accuracy", "weights", "evaluate", "predict"}
    assert tf.train.latest_checkpoint(str(models / "towers")).endswith("model.ckpt-3")

    with pytest.raises(SystemExit):
        digits.main([f"--model_dir={models}"])
    assert "--model_dir must be empty" in capsys.readouterr().err


def test_the_program_fails_if_the_runs_differ(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(digits.TOLERANCE, "float32", 1e-30)
    assert digits.main(["--steps=2", f"--out={tmp_path}"]) == 1
    assert "DIFFER" in capsys.readouterr().out


@pytest.mark.slow
def test_the_program_runs_as_the_readme_says(tmp_path):
    native = {"TF_CPP_MIN_LOG_LEVEL": "3"}  # As `make demo` has it.
    result = programs.run("-m", "examples.digits", f"--out={tmp_path}", env=native)
    assert result.returncode == 0, result.stderr
    assert "agree: no deviation exceeds the tolerance of 1e-05 (float32)" in result.stdout
    assert "warn" not in result.stderr.lower()
    assert "deprecated" not in result.stderr
    assert "replicate: global batch" in result.stderr
