"""`python -m examples.revnet train` and `evaluate`: data, metrics, and what is refused."""

import json

import numpy as np
import pytest

import programs
import record_sets
from examples.revnet import RevNet
from examples.revnet.commands import PROGRAM
from examples.revnet.training import custom_loop, train_eval, train_settings
from examples.revnet.training.optimizer import PiecewiseConstant
from examples.runs import checkpoints
from examples.runs.command_line import BAD_INPUT
from examples.runs.errors import UserError
from examples.runs.flags import SettingsError
from revnet.revnet_runs import (
    SMALL,
    fresh_graph,  # noqa: F401
    settings,
)


def run(capsys, command, *flags):
    """Runs a command that prints JSON; returns that."""
    assert PROGRAM.main([command, *flags]) == 0
    return json.loads(capsys.readouterr().out)


def small_flags(directory, **given):
    given = {**SMALL, "max_global_step": 1, "checkpoint_dir": directory, **given}
    for name, value in given.items():
        yield f"--{name}"
        yield from map(str, value if isinstance(value, list) else [value])


@pytest.mark.parametrize("engine", ["eager", "towers"])
def test_a_finished_training_goes_on(engine, tmp_path, capsys):
    """As one that was to end later from the beginning."""
    flags = {"engine": engine, "seed": 3}
    for end in (1, 3):
        metrics = run(capsys, "train", *small_flags(tmp_path / "a", max_global_step=end, **flags))
        assert metrics["global_step"] == end
    whole = run(capsys, "train", *small_flags(tmp_path / "b", max_global_step=3, **flags))
    assert metrics["cross_entropy"] == pytest.approx(whole["cross_entropy"], rel=1e-5)
    with pytest.raises(UserError, match="max_global_step was 3 and is 2"):
        train_eval.train(settings(tmp_path / "a", max_global_step=2, **flags))


def test_nothing_is_announced_that_is_refused(tmp_path, capsys):
    run(capsys, "train", *small_flags(tmp_path, engine="eager"))
    for given, message in (
        ({"momentum": 0.5}, "momentum was 0.9 and is 0.5"),
        ({"train_batch_size": 100000}, "--train_batch_size is 100,000, and there are 1,119 images"),
    ):
        assert PROGRAM.main(["train", *small_flags(tmp_path, engine="eager", **given)]) == BAD_INPUT
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("python -m examples.revnet train: error: ") and message in line


def test_training_leaves_a_full_record_and_is_evaluated_alike(tmp_path, capsys):
    metrics = run(capsys, "train", *small_flags(tmp_path, engine="eager"))
    assert json.loads((tmp_path / "metrics.json").read_text()) == metrics
    params = json.loads((tmp_path / "params.json").read_text())
    assert params == settings(tmp_path, engine="eager", max_global_step=1)
    assert (params["image_shape"], params["num_classes"]) == ([8, 8, 1], 10)
    assert (metrics["split"], metrics["global_step"]) == ("validation", 1)
    assert metrics["depth"] == train_settings.network(params).depth
    model = RevNet(train_settings.network(params))
    assert metrics["params"] == sum(w.shape.num_elements() for w in model.trainable_variables)
    del metrics["train_seconds"]
    where = f"--checkpoint_dir={tmp_path}"
    assert run(capsys, "evaluate", where) == metrics
    test = run(capsys, "evaluate", where, "--split=test", "--eval_batch_size=50")
    assert test["split"] == "test" and test["num_images"] != metrics["num_images"]
    # A training that is at its end is not repeated.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(custom_loop, "train", None)
        again = run(capsys, "train", *small_flags(tmp_path, engine="eager"))
    assert {**again, "train_seconds": 0} == {**metrics, "train_seconds": 0}
    with pytest.raises(UserError, match=r"momentum was 0\.9 and is 0\.5"):
        train_eval.train({**params, "momentum": 0.5})


@pytest.mark.parametrize("dataset", ["tfds:cifar10", "tfrecords"])
def test_records_reach_training(tmp_path, dataset):
    images = record_sets.pictures(40)
    if dataset == "tfrecords":
        records = [
            record_sets.example(contents, label % 10)
            for label, contents in enumerate(record_sets.encode(images))
        ]
        record_sets.write_shards(tmp_path / "data", "train", records, [20, 20])
    else:
        splits = {"train": images[:30], "test": images[30:]}
        record_sets.write_tfds(tmp_path / "data", "cifar10", splits, version="3.0.2")
    params = settings(
        tmp_path / "run",
        preset="cifar38",
        dataset=dataset,
        dataset_dir=str(tmp_path / "data"),
        engine="eager",
        validation_fraction=0.3,
        max_global_step=1,
        image_size=8,
    )
    assert params["image_shape"] == [8, 8, 3]
    assert params["weight_decay"] == 2e-4
    metrics = train_eval.train_network(params)
    assert np.isfinite(metrics["cross_entropy"])
    assert metrics["num_images"] > 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"engine": "towers", "num_towers": 3, "train_batch_size": 2},
            "Each of 3 towers must have an image of a batch, but --train_batch_size is 2. Enlarge",
        ),
        ({"engine": "eager", "devices": ["/cpu:0"]}, "--devices is for the engine towers, but"),
        ({"engine": "function", "tpu": "x"}, "--tpu is for the engine tpu, but this run uses"),
        ({"engine": "none"}, "--engine must be one of eager, function, estimator, towers, tpu"),
        ({"preset": "cifar39"}, "--preset must be one of digits, cifar38"),
        ({"boundaries": [1, 2]}, "2 rates and 2 boundaries. Pass both"),
        ({"learning_rates": [1, 2, 3], "boundaries": [2, 1]}, "must be rising steps, but are 2 1"),
        ({"filters": [5]}, "settings make no network: `filters` must be 1 even numbers"),
        ({"units": [1] * 5, "filters": [4] * 5}, "must have a pixel for every stride, 16 in each"),
        ({"dropout_rate": 1.0}, r"--dropout_rate must be in \[0, 0.9999\]"),
    ],
)
def test_what_cannot_be_trained_is_told_before(tmp_path, given, message):
    with pytest.raises(UserError, match=message):
        settings(tmp_path, **given)


def test_the_command_line_shows_the_text_alone(tmp_path, capsys):
    flags = small_flags(tmp_path, engine="eager", dtype="float64", data_format="channels_first")
    assert PROGRAM.main(["train", *flags]) == 2
    shown = capsys.readouterr().err
    assert "error: This network does not run here: TensorFlow convolves float64" in shown
    assert "Traceback" not in shown
    (tmp_path / "params.json").write_text("{}")
    assert PROGRAM.main(["evaluate", f"--checkpoint_dir={tmp_path}"]) == 2
    assert "must be that of a RevNet" in capsys.readouterr().err


@pytest.mark.parametrize("engine", ["eager", "estimator"])
def test_a_loss_that_is_no_number_ends_training(tmp_path, engine):
    params = settings(tmp_path, engine=engine, learning_rates=[1e30, 1], max_global_step=9)
    with pytest.raises(UserError, match=r"no longer a number\. Lower --learning_rates, 1e\+30 1,"):
        train_eval.train(params)
    assert checkpoints.latest_step(str(tmp_path)) == 0


def test_rates_hold_from_their_boundaries_on_and_are_restored():
    schedule = PiecewiseConstant([0.5, 0.25, 0.125], [2, 3])
    rates = [float(schedule(step)) for step in range(5)]
    assert rates == [0.5, 0.5, 0.25, 0.125, 0.125]
    other = PiecewiseConstant([1.0], [])
    assert float(other(7)) == 1.0
    other.deserialize(schedule.serialize())
    assert other.get_config() == schedule.get_config()
    assert PiecewiseConstant(**schedule.get_config()).get_config() == schedule.get_config()


def test_help_needs_no_tensorflow():
    code = """
import sys
from examples.revnet.commands import PROGRAM
for command in ("evaluate", "export", "memory", "train"):
    try:
        PROGRAM.main([command, "--help"])
    except SystemExit as exit:
        assert exit.code == 0
assert "tensorflow" not in sys.modules
"""
    result = programs.run("-c", code)
    assert result.returncode == 0, result.stderr
    assert "--learning_rates FLOAT" in result.stdout


def test_a_cluster_is_refused(tmp_path, monkeypatch):
    cluster = {"chief": ["a.test:1"], "ps": ["b.test:1"]}
    task = {"type": "chief", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    params = train_settings.resolve(engine="towers", checkpoint_dir=str(tmp_path))
    with pytest.raises(SettingsError, match=r"A RevNet trains on the devices of one .*Unset it"):
        train_eval.train(params)
    assert not list(tmp_path.iterdir())
