"""An `input_fn` that raises, ends early, or runs out of rows."""

import threading

import pytest
import tensorflow.compat.v1 as tf

from faults import training

STEPS = 9


def fails_at(step, then):
    """Returns what raises at a step."""

    def change(now, rows):
        if now == step:
            raise then
        return rows

    return change


@pytest.fixture
def threads():
    """Asserts that no thread of Python is left, but TensorFlow's own of each event file."""
    before = set(threading.enumerate())
    yield
    left = set(threading.enumerate()) - before
    assert [thread for thread in left if thread.name != "EventLoggerThread"] == []


@pytest.mark.parametrize("devices", [training.DEVICES, None], ids=["towers", "plain"])
def test_an_input_fn_that_raises_reaches_the_caller(tmp_path, threads, devices):
    def input_fn():
        raise OSError("the disk of the data is gone")

    with pytest.raises(OSError, match=r"^the disk of the data is gone$"):
        training.make_estimator(tmp_path, devices).train(input_fn)
    assert training.step_of(tmp_path) == 0


@pytest.mark.conformance
@pytest.mark.parametrize("devices", [training.DEVICES, None], ids=["towers", "plain"])
def test_data_that_raise_end_training_with_their_own_text(tmp_path, threads, devices):
    made = training.make_estimator(tmp_path / "run", devices)
    record = training.Record()
    change = fails_at(7, ValueError("record 7 of the data is broken"))
    with pytest.raises(tf.errors.OpError, match="record 7 of the data is broken"):
        made.train(lambda: training.dataset(0, change=change), max_steps=STEPS, hooks=[record])
    assert [step for step, _ in record.losses] == list(range(1, 8))
    # As of any Estimator, what came after the last checkpoint is made again.
    assert training.step_of(tmp_path / "run") == 5
    resumed = training.train(tmp_path / "run", STEPS, made=made)
    reference = training.train(tmp_path / "whole", STEPS, devices=devices)
    assert resumed == reference[5:]
    training.assert_same(training.read(tmp_path / "run"), training.read(tmp_path / "whole"))


@pytest.mark.conformance
def test_data_that_end_early_end_training_with_a_checkpoint(tmp_path, threads):
    made = training.make_estimator(tmp_path / "run")
    record = training.Record()
    made.train(lambda: training.dataset(0, 7), max_steps=STEPS, hooks=[record])
    assert training.step_of(tmp_path / "run") == 7
    losses = record.losses + training.train(tmp_path / "run", STEPS, made=made)
    assert losses == training.train(tmp_path / "whole", STEPS)
    training.assert_same(training.read(tmp_path / "run"), training.read(tmp_path / "whole"))


@pytest.mark.conformance
def test_a_batch_without_rows_is_an_error(tmp_path, threads):
    made = training.make_estimator(tmp_path)

    def change(step, rows):
        return tuple(part[:0] for part in rows) if step == 7 else rows

    with pytest.raises(tf.errors.InvalidArgumentError, match="A training batch must have a row"):
        made.train(lambda: training.dataset(0, 8, change), max_steps=STEPS)

    assert training.step_of(tmp_path) == 5
