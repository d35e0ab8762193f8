"""Networks that are trained alone: they learn, resume, and are measured on every image once."""

import argparse
import json
import os
import signal

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from examples import data
from examples.classifiers import training as classifiers
from examples.data import tpu
from examples.nas_search import analyze_mobile_search_lib, mobile_classifier_factory, schema_io
from examples.nas_search.commands import evaluate, train
from examples.nas_search.training import mobile_train_eval, train_model_fn, train_settings
from examples.runs import checkpoints, command_line, engines
from examples.runs.errors import UserError
from nas_search import nas_searches

SMALL = "0:0:0:0:0:1:0:0:0:0:0:1:0:0"  # the smallest network of digits_search
OTHER = "0:0:0:0:0:0:0:0:0:0:0:0:0:0"  # it has residual layers


def settings(directory, **given):
    given = {"indices": SMALL, "max_global_step": 3, "train_batch_size": 16, **given}
    given.setdefault("num_towers", 1)
    return train_settings.resolve(checkpoint_dir=str(directory), **given)


def weights(params):
    """Returns the variables of the latest checkpoint by name."""
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(params["checkpoint_dir"]))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The settings of a network after three steps, and what `train_network` returned."""
    params = settings(tmp_path_factory.mktemp("trained"), num_towers=2)
    return params, mobile_train_eval.train_network(params)


def test_training_leaves_a_full_record(trained):
    params, metrics = trained
    directory = params["checkpoint_dir"]
    with open(f"{directory}/params.json") as file:
        assert json.load(file) == params
    with open(f"{directory}/metrics.json") as file:
        assert json.load(file) == metrics
    network = schema_io.load(directory, "model_spec.json")
    assert network == train_model_fn.model_spec(params)
    assert checkpoints.latest_step(directory) == 3
    scalars = analyze_mobile_search_lib.read_scalars(directory)
    tags = {"loss", "empirical_loss", "regularization_loss", "learning_rate"}
    assert {f"model/{tag}" for tag in tags} <= set(scalars)


def test_metrics_tell_what_was_measured(trained):
    params, metrics = trained
    assert metrics["split"] == "validation"
    assert metrics["num_images"] == data.open_data(params).sizes["validation"]
    assert metrics["global_step"] == 3
    assert 0 <= metrics["accuracy"] <= 1
    assert metrics["cross_entropy"] > 0
    assert metrics["train_seconds"] > 0
    assert (metrics["ssd"], metrics["indices"]) == ("digits_search", SMALL)
    # Weights alone: neither the state of the optimizer nor moving statistics nor the step.
    state = ("RMSProp", "Momentum", "moving_", "global_step")
    sizes = {
        name: value.size
        for name, value in weights(params).items()
        if not any(part in name for part in state)
    }
    assert metrics["params"] == sum(sizes.values()), sizes


def test_every_image_is_evaluated_once(trained):
    """Whatever batches and towers are: the last batch is smaller, and its shards are uneven."""
    params, _ = trained
    images, labels = _images(params, "test")
    predictions = list(
        engines.make_estimator(train_model_fn.model_fn, params).predict(
            lambda: tf.data.Dataset.from_tensor_slices(images).batch(50)
        )
    )
    probabilities = np.stack([row["probabilities"] for row in predictions])
    hits = [row["classes"] for row in predictions] == np.argmax(labels, axis=1)
    cross_entropy = -np.mean(np.log(np.sum(probabilities * labels, axis=1)))
    for rows, devices in ((256, params["devices"]), (len(labels) - 1, params["devices"][:1])):
        changed = {**params, "eval_batch_size": rows, "devices": devices}
        metrics = mobile_train_eval.evaluate_network(changed, "test")
        assert metrics["num_images"] == len(labels) == data.open_data(params).sizes["test"]
        assert metrics["accuracy"] == pytest.approx(np.mean(hits), abs=1e-6)
        assert metrics["cross_entropy"] == pytest.approx(cross_entropy, rel=1e-4)


def _images(params, split):
    with tf.Graph().as_default(), tf.Session() as session:
        batches = data.open_data(params).input_fn(split, 10**4, training=False)
        return session.run(tf.data.make_one_shot_iterator(batches).get_next())


def test_a_finished_training_is_not_repeated(trained, monkeypatch):
    params, metrics = trained
    monkeypatch.setattr(tf.estimator.Estimator, "train", None)
    again = mobile_train_eval.train_network(params)
    assert {**again, "train_seconds": 0} == {**metrics, "train_seconds": 0}


def test_changed_settings_are_refused(trained):
    params, _ = trained
    with pytest.raises(UserError, match=r"momentum was 0\.9 and is 0\.5"):
        mobile_train_eval.train({**params, "momentum": 0.5})


class Interrupt(tf.train.SessionRunHook):
    """Sends Ctrl-C in the second step."""

    def __init__(self, *args):
        self.steps = 0

    def after_run(self, run_context, run_values):
        self.steps += 1
        if self.steps == 2:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize(
    "mode", ["train_and_eval", pytest.param("train", marks=pytest.mark.thorough)]
)
def test_training_stops_and_resumes_as_if_it_had_not(tmp_path, monkeypatch, capsys, mode):
    params = settings(tmp_path / "stopped", max_global_step=5)
    with monkeypatch.context() as patched:
        patched.setattr(classifiers, "ProgressHook", Interrupt)
        flags = ("max_global_step", "checkpoint_dir", "indices", "train_batch_size", "num_towers")
        args = argparse.Namespace(mode=mode, **{name: params[name] for name in flags})
        assert train.main(args) == command_line.INTERRUPTED
    step = checkpoints.latest_step(params["checkpoint_dir"])
    assert 2 <= step <= 3
    assert f"saved at step {step} of 5. The same command goes on" in capsys.readouterr().err
    assert mobile_train_eval.train(params)

    whole = settings(tmp_path / "whole", max_global_step=5)
    assert mobile_train_eval.train(whole)
    want = weights(whole)
    assert want["global_step"] == 5
    for name, value in weights(params).items():
        np.testing.assert_array_equal(value, want[name], err_msg=name)


def test_a_finished_training_may_go_on_to_a_later_step(tmp_path):
    params = settings(tmp_path, max_global_step=1)
    assert mobile_train_eval.train(params)
    later = settings(tmp_path, max_global_step=2)
    assert later["warmup_steps"] >= params["warmup_steps"]
    assert mobile_train_eval.train(later)
    assert checkpoints.latest_step(str(tmp_path)) == 2
    with pytest.raises(UserError, match="max_global_step was 2 and is 1"):
        mobile_train_eval.check(params)


def test_the_seed_decides(tmp_path, trained):
    params, _ = trained
    other = settings(tmp_path, num_towers=2, seed=1)
    assert mobile_train_eval.train(other)
    same, different = weights(params), weights(other)
    assert any(np.any(same[name] != different[name]) for name in same)


@pytest.mark.parametrize(
    "given",
    [
        {"path_dropout_rate": 0.5, "indices": OTHER},
        {"dropout_rate": 0.5, "use_held_out_test_set": True},
        pytest.param({"use_bfloat16": True}, marks=pytest.mark.thorough),
        {"filters_multiplier": 2.0},
    ],
    ids=lambda given: next(iter(given)),
)
def test_settings_that_change_the_network_work(tmp_path, given, trained):
    metrics = mobile_train_eval.train_network(settings(tmp_path, max_global_step=1, **given))
    assert np.isfinite(metrics["cross_entropy"])
    assert metrics["split"] == ("test" if "use_held_out_test_set" in given else "validation")
    if given == {"filters_multiplier": 2.0}:
        assert metrics["params"] > 2 * trained[1]["params"]


def test_a_loss_that_is_no_number_ends_training(tmp_path):
    params = settings(tmp_path, base_learning_rate=1e30, max_global_step=20)
    with pytest.raises(UserError, match=r"no longer a number\. Lower --base_learning_rate, 1e\+30"):
        mobile_train_eval.train(params)


@pytest.mark.parametrize("ssd", ["mobilenet_v2", "mobilenet_v3_large"])
def test_reference_networks_need_no_indices(tmp_path, ssd):
    spec = train_model_fn.model_spec(settings(tmp_path, ssd=ssd, indices=""))
    assert spec == mobile_classifier_factory.get_model_spec(ssd)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"indices": ""}, r"leaves 3,600 networks, and there are no --indices.*--search_dir"),
        ({"indices": "0:1"}, "must have an index for each of the 14 choices"),
        ({"indices": "0:a"}, "--indices '0:a' must name a network: .*separated by colons"),
        ({"indices": SMALL[:-1] + "9"}, "must choose one of .* but chooses 9"),
        ({"ssd": "nowhere"}, "`ssd` must be one of"),
    ],
)
def test_what_names_no_network(tmp_path, given, message):
    with pytest.raises(UserError, match=message):
        mobile_train_eval.train(settings(tmp_path, **given))


@pytest.mark.parametrize("checkpoint", [None, "elsewhere/model.ckpt-1"])
def test_without_a_checkpoint_there_is_nothing_to_evaluate(tmp_path, checkpoint):
    with pytest.raises(UserError, match=r"weights of a checkpoint, but there is none.*Train it"):
        mobile_train_eval.evaluate_network(settings(tmp_path), checkpoint=checkpoint)


def test_checkpoints_are_evaluated_until_the_last_step(trained):
    params, metrics = trained
    (measured,) = mobile_train_eval.evaluate_checkpoints(params)
    assert measured == {name: metrics[name] for name in measured}


def test_a_checkpoint_that_training_deletes_meanwhile_is_passed_over(trained, monkeypatch):
    params, metrics = trained
    latest = tf.train.latest_checkpoint(params["checkpoint_dir"])
    gone = os.path.join(params["checkpoint_dir"], "model.ckpt-1")
    monkeypatch.setattr(tf.train, "checkpoints_iterator", lambda directory: iter([gone, latest]))
    (measured,) = mobile_train_eval.evaluate_checkpoints(params)
    assert measured["global_step"] == metrics["global_step"]


def test_checkpoints_are_not_evaluated_on_what_they_were_trained_on(trained):
    params, _ = trained
    with pytest.raises(UserError, match=r"validation_fraction was 0\.2 and is 0\.7"):
        next(mobile_train_eval.evaluate_checkpoints({**params, "validation_fraction": 0.7}))


class Context:
    """A `TPUContext` with only the attributes that are used."""

    def __init__(self, num_hosts, current_host):
        self.num_hosts, self.current_host = num_hosts, current_host


@pytest.mark.parametrize("num_hosts", [1, 2])
def test_batches_for_tpus_are_full_and_padding_has_no_label(num_hosts):
    images = np.arange(7, dtype=np.float32)
    seen = []
    for host in range(num_hosts):
        batches = tf.data.Dataset.from_tensor_slices(images).batch(3)
        batches = batches.map(
            lambda rows: (tf.reshape(rows, [1, 1, 1, -1]), tf.ones([tf.size(rows), 2]) / 2)
        )
        context = Context(num_hosts, host) if num_hosts > 1 else None
        full = tpu.complete(batches, 3, context)
        assert [shape.as_list() for shape in tf.data.get_output_shapes(full)] == [
            [1, 1, 1, 3],
            [3, 2],
        ]
        batch = tf.data.make_one_shot_iterator(full).get_next()
        with tf.Session() as session:
            for _ in range(5):  # more than there are
                rows, labels = session.run(batch)
                seen.extend(rows.ravel()[labels.sum(axis=1) == 1])
    assert sorted(seen) == list(range(7))


def run(command, capsys, *flags):
    """Runs a command; returns what it printed to stdout."""
    parser = argparse.ArgumentParser()
    command.add_flags(parser)
    assert command.main(parser.parse_args([str(flag) for flag in flags])) == 0
    return capsys.readouterr().out


def test_commands_print_metrics_as_json(tmp_path, capsys):
    where = f"--checkpoint_dir={tmp_path}"
    alone = (where, f"--indices={SMALL}", "--max_global_step=2", "--num_towers=1")
    assert run(train, capsys, *alone, "--mode=train") == ""
    assert not (tmp_path / "metrics.json").exists()
    metrics = json.loads(run(train, capsys, *alone))
    assert metrics == json.loads((tmp_path / "metrics.json").read_text())
    del metrics["train_seconds"]
    assert json.loads(run(train, capsys, *alone, "--mode=eval")) == metrics
    assert json.loads(run(evaluate, capsys, where)) == metrics
    on_test = json.loads(run(evaluate, capsys, where, "--split=test", "--num_towers=2"))
    assert (on_test["split"], on_test["global_step"]) == ("test", 2)
    assert on_test["num_images"] != metrics["num_images"]


def test_a_search_that_goes_on_is_told_of(tmp_path, capsys):
    for end in (9, 5):
        (tmp_path / "params.json").write_text(json.dumps({"max_global_step": end}))
        nas_searches.save_checkpoint(tmp_path, 5)
        train.tell_if_searching(str(tmp_path))
    notice = f"The search in {tmp_path} is at step 5 of 9: this is no final result.\n"
    assert capsys.readouterr().err == notice


def test_training_ends_with_the_command_that_exports(trained, capsys, monkeypatch):
    params, metrics = trained
    monkeypatch.setattr(train_settings, "resolve", lambda **given: params)
    monkeypatch.setattr(mobile_train_eval, "train_network", lambda params: metrics)
    # Messages go to stderr, so that stdout is JSON.
    assert train.main(argparse.Namespace(mode="train_and_eval")) == 0
    last = capsys.readouterr().err.splitlines()[-1]
    directory = params["checkpoint_dir"]
    assert last == (
        f"    python -m examples.nas_search export --checkpoint_dir {directory} "
        f"--export_dir {directory}-exported"
    )


@pytest.mark.slow
@pytest.mark.thorough
def test_a_network_for_digits_is_good_after_seconds(tmp_path):
    params = train_settings.resolve(
        checkpoint_dir=str(tmp_path),
        indices="0:1:1:1:1:0:1:1:1:1:1:0:1:0",
        use_held_out_test_set=True,
    )
    assert mobile_train_eval.train_network(params)["accuracy"] > 0.95
