"""`TowerMonitorHook`: lines, events, and the tower that keeps the others waiting."""

import glob
import io
import json
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
from replicate import estimator
from replicate.hooks import TowerMonitorHook
from replicate.reports import step_times

DEVICES = ("/device:CPU:0", "/device:CPU:1", "/device:CPU:2")
FIELDS = [
    *("event", "time", "step", "examples_per_sec", "share_in_towers", "bytes_crossing"),
    *("meetings_secs", "towers", "slow_tower"),
]


def model_fn(features, labels, mode):
    """A linear model of 40 inputs."""
    loss = tf.losses.mean_squared_error(labels, tf.layers.dense(features, 1))
    train_op = tf.train.GradientDescentOptimizer(0.01).minimize(loss, tf.train.get_global_step())
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn(drop_remainder):
    """Returns batches of 8 rows; without `drop_remainder` their size is not known statically."""

    def of_rows():
        inputs = np.random.RandomState(1).normal(size=(40, 40)).astype(np.float32)
        rows = tf.data.Dataset.from_tensor_slices((inputs, inputs[:, :1]))
        return rows.repeat().batch(8, drop_remainder=drop_remainder)

    return of_rows


def train(directory, steps, devices=DEVICES, drop_remainder=True, **settings):
    """Trains with the hook; returns its lines."""
    stream = io.StringIO()
    config = estimator.RunConfig(str(directory), session_config=replicate.session_config(DEVICES))
    towers = replicate.replicate_model_fn(model_fn, devices=devices)
    model = estimator.Estimator(towers, config=config)
    hook = TowerMonitorHook(stream=stream, **settings)
    model.train(input_fn(drop_remainder), steps=steps, hooks=[hook])
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def events(directory):
    """Returns the values of events by tag and step."""
    found = {}
    for path in glob.glob(f"{directory}/events*"):
        for event in tf.train.summary_iterator(path):
            for value in event.summary.value:
                found.setdefault(value.tag, {})[event.step] = value.simple_value
    return found


@pytest.mark.parametrize("drop_remainder", [True, False], ids=["8 rows", "any rows"])
def test_a_line_has_what_was_measured(tmp_path, drop_remainder):
    lines = train(tmp_path, 4, drop_remainder=drop_remainder, every_secs=0)
    assert [line["step"] for line in lines] == [2, 3, 4]
    report = replicate.tower_report()
    for line in lines:
        assert list(line) == FIELDS
        assert line["event"] == "replicate" and line["time"].endswith("+00:00")
        assert line["examples_per_sec"] > 0 and line["meetings_secs"] > 0
        assert line["share_in_towers"] == pytest.approx(report.share, rel=1e-5)
        assert line["bytes_crossing"] == report.crossing.size > 0
        assert [tower["device"] for tower in line["towers"]] == list(report.devices)
        assert [tower["rows"] for tower in line["towers"]] == [3, 3, 2]
        for tower in line["towers"]:
            rate = tower["rows"] / tower["busy_secs"]
            assert tower["examples_per_sec"] == pytest.approx(rate, rel=1e-4)


def test_events_are_those_of_the_line(tmp_path):
    (line,) = train(tmp_path, 2)
    found = events(tmp_path)
    assert found["towers/share"][2] == pytest.approx(line["share_in_towers"])
    assert found["towers/bytes_crossing"][2] == pytest.approx(line["bytes_crossing"])
    assert found["towers/meetings_secs"][2] == pytest.approx(line["meetings_secs"])
    assert found["global_examples/sec"][2] == pytest.approx(line["examples_per_sec"])
    for index, tower in enumerate(line["towers"]):
        assert found[f"tower_{index}/busy_secs"][2] == pytest.approx(tower["busy_secs"])
        assert found[f"tower_{index}/examples/sec"][2] == pytest.approx(tower["examples_per_sec"])


def test_between_measurements_no_step_is_traced(tmp_path):
    assert [line["step"] for line in train(tmp_path, 6, every_secs=3600)] == [2]


def test_one_device_has_no_towers(tmp_path):
    (line,) = train(tmp_path, 2, devices=DEVICES[:1])
    assert line["towers"] == [] and line["slow_tower"] is None
    assert line["share_in_towers"] is None and line["meetings_secs"] is None


def test_a_hook_serves_a_second_training(tmp_path):
    train(tmp_path, 2)
    assert [line["step"] for line in train(tmp_path, 2)] == [4]


@pytest.mark.parametrize(
    ("seconds", "rows", "slow"),
    [
        ([0.1, 0.1, 0.2], [4, 4, 4], 2),
        ([0.1, 0.1, 0.14], [4, 4, 4], None),
        ([0.1, 0.2, 0.1], [4, 8, 4], None),  # It has twice the rows.
        ([0.2, 0.1, 0.1], [4, 4, 4], 0),
        ([0.0001, 0.0001, 0.0009], [4, 4, 4], None),  # Less than a millisecond is lost.
        ([0.1, 0.0, 0.0], [1, 0, 0], 0),
        ([0.1], [4], None),
        ([], [], None),
    ],
)
def test_a_slow_tower_is_one_that_the_others_wait_for(seconds, rows, slow):
    assert step_times.slow_tower(seconds, rows) == slow


def stats(device, *spans):
    """Returns the statistics of a device: of operations by name, start and duration in µs."""
    found = tf.RunMetadata().step_stats.dev_stats.add()
    found.device = f"/job:localhost/replica:0/task:0/device:{device}"
    for name, start, micros in spans:
        found.node_stats.add(node_name=name, all_start_micros=start, all_end_rel_micros=micros)
    return found


def test_times_are_those_in_which_anything_runs():
    metadata = tf.RunMetadata()
    metadata.step_stats.dev_stats.extend(
        [
            # Two operations overlap, the third follows after a pause.
            stats(
                "CPU:0",
                *(("tower_0/a", 100, 10), ("tower_0/b", 105, 20), ("tower_0/c", 200, 5)),
                # Neither an update, which runs once, nor the host's part of another tower counts.
                *(("Adam/update", 400, 90), ("tower_1/b", 500, 90)),
                *(("tower_0/c/_51", 600, 90), ("tower_0/c/_50:_Recv", 700, 90)),
            ),
            # The launch of kernels does not count where kernels themselves are known.
            stats("GPU:0", ("tower_1/a", 0, 900)),
            stats("GPU:0/stream:all", ("tower_1/a", 50, 40), ("replicate/reduce/sum", 300, 7)),
            stats("GPU:0/stream:13", ("tower_1/a", 50, 40)),
            tf.RunMetadata().step_stats.dev_stats.add(device="/host:CPU"),
        ]
    )
    devices = ["/device:CPU:0", "/gpu:0", "/device:GPU:1"]
    towers, meetings = step_times.measured(metadata, devices)
    assert towers == pytest.approx([30e-6, 40e-6, 0])
    assert meetings == pytest.approx(7e-6)


def test_a_tower_that_is_slow_twice_in_a_row_is_named_once(tmp_path, monkeypatch, warnings):
    slow = iter([2, None, 2, 2, 2, 2])
    monkeypatch.setattr(step_times, "slow_tower", lambda seconds, rows: next(slow))
    lines = train(tmp_path, 7, every_secs=0)
    named = [line["slow_tower"] for line in lines]
    assert named == [DEVICES[2], None, *[DEVICES[2]] * 4]
    texts = [text for text in warnings() if "is slow" in text]
    assert len(texts) == 1 and "tower 2, on /device:CPU:2, is slow" in texts[0]
    assert "leave it out of `devices`" in texts[0]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"every_secs": -1}, "`every_secs` must be at least 0 seconds, but is -1. Pass 0"),
        ({"every_secs": float("nan")}, "`every_secs` must be at least 0 seconds, but is nan"),
        ({"config": estimator.RunConfig()}, "`config` must be a `RunConfig` with a `model_dir`"),
    ],
)
def test_bad_arguments(settings, text):
    with pytest.raises(ValueError, match=text):
        TowerMonitorHook(**settings)


def test_without_a_global_step(fresh_graph):
    with pytest.raises(RuntimeError, match="TowerMonitorHook counts global steps, but the graph"):
        TowerMonitorHook().begin()


# TensorFlow numbers the constants that it computes before the first step.
_FOLDED = re.compile(r"/_\d+__cf__\d+$")


def test_towers_are_charged_for_the_same_operations(tmp_path, monkeypatch):
    """Also the one on the consolidation device, where updates run, too."""
    names = set()

    def measured(metadata, devices):
        for device in metadata.step_stats.dev_stats:
            names.update(node.node_name for node in device.node_stats)
        return real(metadata, devices)

    real = step_times.measured
    monkeypatch.setattr(step_times, "measured", measured)
    train(tmp_path, 2, devices=DEVICES[:2])
    computing = {name for name in names if not step_times._TRANSFER.search(name)}
    first, second = (
        {_FOLDED.sub("", name[len(scope) :]) for name in computing if name.startswith(scope)}
        for scope in ("tower_0/", "tower_1/")
    )
    # Only inputs from another device have a name of their own.
    assert {name for name in first ^ second if "replicate/given" not in name} == set()
    assert len(first & second) > 5
