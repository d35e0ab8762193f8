"""`ProgressHook` in real sessions on the CPU, drawing on a terminal made of a string."""

import glob
import io
import itertools
import logging
import re
import sys
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
from replicate import estimator, hooks
from replicate.hooks import ProgressHook


class Terminal(io.StringIO):
    """A terminal to draw on; `lines` is what a person would have seen, one entry per redraw."""

    encoding = "utf-8"

    def isatty(self):
        return True

    @property
    def lines(self):
        return [line.rstrip() for line in re.split(r"[\r\n]", self.getvalue()) if line.strip()]


@pytest.fixture
def terminal():
    return Terminal()


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves by one second whenever it is read."""
    seconds = itertools.count()
    monkeypatch.setattr(hooks.time, "perf_counter", lambda: float(next(seconds)))


def make_step(name, *before):
    """Makes the op `name`, which adds 1 to the global step after `before` has run."""
    with tf.control_dependencies(before):
        add = tf.assign_add(tf.train.get_or_create_global_step(), 1)
    with tf.control_dependencies([add]):
        tf.no_op(name=name)


@pytest.fixture(autouse=True)
def graph():
    """A training graph: each step adds 1 to the global step; the loss is 10 times the old one."""
    with tf.Graph().as_default() as graph:
        step = tf.train.get_or_create_global_step()
        loss = tf.multiply(tf.cast(step, tf.float32), 10.0, name="loss")
        make_step("train", loss)
        yield graph


def train(hook, steps, directory=None):
    """Runs the graph's `train` op `steps` times under `hook`."""
    train_op = tf.get_default_graph().get_operation_by_name("train")
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=directory, hooks=[hook], save_summaries_steps=None, save_summaries_secs=None
    ) as session:
        for _ in range(steps):
            session.run(train_op)


def test_the_bar_counts_steps_and_shows_the_loss(terminal):
    train(ProgressHook(3, loss="loss", every_secs=0, stream=terminal), steps=3)
    assert "training:   0%" in terminal.lines[0]
    assert "| 0/3 [" in terminal.lines[0]
    assert "training: 100%" in terminal.lines[-1]
    assert "| 3/3 [" in terminal.lines[-1]
    # The losses before the three steps are 10 * (0, 1, 2).
    shown = [line.split("loss ")[1] for line in terminal.lines if "loss " in line]
    assert sorted(set(shown)) == ["0]", "10]", "20]"]
    assert terminal.getvalue().endswith("\n")


def test_a_description_and_a_loss_given_as_a_tensor(terminal, graph):
    loss = graph.get_tensor_by_name("loss:0")
    train(ProgressHook(1, loss=loss, description="two towers", stream=terminal), steps=1)
    assert terminal.lines[-1].startswith("two towers: 100%")
    assert "loss 0]" in terminal.lines[-1]


def test_without_a_total_the_bar_has_no_end(terminal):
    train(ProgressHook(every_secs=0, stream=terminal), steps=3)
    assert terminal.lines[0].startswith("training: 0 steps [")
    assert terminal.lines[-1].startswith("training: 3 steps [")
    assert "loss" not in terminal.getvalue()
    assert "examples" not in terminal.getvalue()


def test_a_resumed_run_continues_where_its_checkpoint_stopped(terminal, tmp_path):
    train(ProgressHook(5, every_secs=0, stream=terminal), steps=2, directory=str(tmp_path))
    assert "| 2/5 [" in terminal.lines[-1]
    resumed = Terminal()
    train(ProgressHook(5, every_secs=0, stream=resumed), steps=3, directory=str(tmp_path))
    assert "training:  40%" in resumed.lines[0]
    assert "| 2/5 [" in resumed.lines[0]
    assert "| 5/5 [" in resumed.lines[-1]


def test_steps_are_counted_from_the_checkpoint(terminal, tmp_path):
    train(ProgressHook(steps=2, stream=terminal), steps=2, directory=str(tmp_path))
    assert "| 2/2 [" in terminal.lines[-1]
    resumed = Terminal()
    train(ProgressHook(steps=3, stream=resumed), steps=3, directory=str(tmp_path))
    assert "| 2/5 [" in resumed.lines[0]
    assert "| 5/5 [" in resumed.lines[-1]


@pytest.mark.parametrize("batch_size", [32, np.int64(32), "static"])
def test_throughput_counts_examples_of_the_whole_batch(terminal, clock, batch_size):
    tf.constant(32, name="static")
    train(ProgressHook(4, batch_size, every_secs=0, stream=terminal), steps=4)
    rates = re.findall(r"([\d,]+) examples/s", terminal.getvalue())
    # The clock is read twice a step, to see what is due and to draw: 32 rows in 2 seconds. The
    # last redraw, one reading later, gives the mean since the first step: 3 * 32 rows in 7 s.
    assert list(dict.fromkeys(rates)) == ["16", "14"]
    assert "steps/s" not in terminal.getvalue()


def test_throughput_counts_all_batches_of_a_step(terminal, clock):
    """With accumulated batches, the global step changes once for several runs."""
    runs = tf.get_variable("runs", [], tf.int32, tf.zeros_initializer())
    with tf.control_dependencies([tf.assign_add(runs, 1)]):
        done = tf.cast(tf.equal(runs.read_value() % 2, 0), tf.int64)
        with tf.control_dependencies([tf.assign_add(tf.train.get_global_step(), done)]):
            accumulate = tf.no_op()
    with tf.train.MonitoredTrainingSession(
        hooks=[ProgressHook(2, 32, every_secs=0, stream=terminal)]
    ) as session:
        for _ in range(4):
            session.run(accumulate)
    # As above: 3 * 32 rows in 7 s.
    rates = re.findall(r"([\d,]+) examples/s", terminal.getvalue())
    assert rates[-1] == "14"


def test_throughput_without_a_batch_size_counts_steps(terminal, clock):
    train(ProgressHook(4, every_secs=0, stream=terminal), steps=4)
    rates = re.findall(r"([\d.,]+) steps/s", terminal.getvalue())
    assert list(dict.fromkeys(rates)) == ["0.5", "0.4"]  # 1 step in 2 s, 3 steps in 7 s


@pytest.mark.parametrize("batch_size", ["rows", "tensor", None])
def test_rows_are_counted_at_every_step_where_they_vary(terminal, clock, graph, batch_size):
    # Steps of 8, 16, 24 and 32 rows: the last of an epoch is rarely like the others.
    rows = (tf.train.get_global_step() + 1) * 8
    make_step("train_rows", rows)
    if batch_size is None:  # where `replicate_model_fn` counts them
        tf.identity(rows, name="replicate/shard/batch_size")
    elif batch_size == "tensor":
        batch_size = rows
    else:
        tf.identity(rows, name="rows")
    hook = ProgressHook(4, batch_size, every_secs=1000, stream=terminal)
    with tf.train.MonitoredTrainingSession(hooks=[hook]) as session:
        for _ in range(4):
            session.run("train_rows")
    # Only the first and the last step are redrawn. The clock is read once before each step but the
    # first, and at each redraw: 16 + 24 + 32 rows take 4 s, and 5 s for the redraw of the mean.
    rates = re.findall(r"([\d,]+) examples/s", terminal.getvalue())
    assert list(dict.fromkeys(rates)) == ["18", "14"]


def test_the_loss_is_fetched_only_when_the_bar_is_redrawn(terminal, clock, graph):
    seen = []
    step = graph.get_tensor_by_name("loss:0")
    watched = tf.py_func(lambda x: seen.append(float(x)) or x, [step], tf.float32)
    watched.set_shape([])
    # Every step reads the clock once and a redraw once more, so 4 seconds are up at steps 1, 5, 9.
    train(ProgressHook(loss=watched, every_secs=4, stream=terminal), steps=10)
    assert seen == [0.0, 40.0, 80.0]


def test_the_last_step_is_redrawn_however_soon_it_comes(terminal):
    train(ProgressHook(3, loss="loss", every_secs=1000, stream=terminal), steps=3)
    assert "| 3/3 [" in terminal.lines[-1]
    assert "loss 20]" in terminal.lines[-1]


# ---- without a terminal


@pytest.fixture
def lines(caplog):
    """Function that returns the hook's lines in the log until now."""
    verbosity = tf.logging.get_verbosity()
    tf.logging.set_verbosity(tf.logging.INFO)
    yield lambda: [
        record.getMessage()
        for record in caplog.records
        if re.match("training: |two towers: ", record.getMessage())
    ]
    tf.logging.set_verbosity(verbosity)


def no_terminal(*args, **kwargs):
    return ProgressHook(*args, stream=io.StringIO(), **kwargs)


def test_no_terminal_means_lines_in_the_log(lines, clock):
    hook = no_terminal(10, 32, loss="loss", log_secs=6)
    train(hook, steps=10)
    # The clock is read before each step but the first, and at each line: the first step ends at
    # 0 s, and 6 s are up before the 7th, whose line is at 7 s. Its 6 steps took 7 s, so that 3 more
    # will take 3.5; a half is rounded to an even number. The last 3 steps take 4 s.
    assert lines() == [
        "training: step 1/10, loss 0",
        "training: step 7/10, 27 examples/s, loss 60, 0:00:04 left",
        "training: step 10/10, 24 examples/s, loss 90",
    ]


def test_a_line_at_every_step_and_long_times(lines, monkeypatch):
    minutes = itertools.count(step=1800.0)
    monkeypatch.setattr(hooks.time, "perf_counter", lambda: next(minutes))
    train(no_terminal(steps=26, log_secs=0, description="two towers"), steps=2)
    assert lines() == [
        "two towers: step 1/26",
        "two towers: step 2/26, 0.0 steps/s, 1 day, 0:00:00 left",
    ]


def test_the_last_step_has_a_line_though_it_is_not_known_to_be_the_last(lines, clock):
    train(no_terminal(batch_size=8, loss="loss", log_secs=1000), steps=4)
    # 3 steps after the first: 3 readings of the clock before them, and one for the line.
    assert lines() == ["training: step 1, loss 0", "training: step 4, 6 examples/s"]
    train(no_terminal(log_secs=1000), steps=0)
    assert len(lines()) == 2


def test_a_resumed_run_logs_on(lines, tmp_path):
    train(no_terminal(5), steps=2, directory=str(tmp_path))
    train(no_terminal(5), steps=3, directory=str(tmp_path))
    steps = [re.search(r"step (\d)/5", line).group(1) for line in lines()]
    assert steps == ["1", "2", "3", "5"]


def test_the_loss_is_fetched_only_for_lines(clock, graph):
    seen = []
    step = graph.get_tensor_by_name("loss:0")
    watched = tf.py_func(lambda x: seen.append(float(x)) or x, [step], tf.float32)
    watched.set_shape([])
    train(no_terminal(loss=watched, log_secs=4), steps=10)
    assert seen == [0.0, 40.0, 80.0]


def test_no_lines_means_no_output_and_no_fetches(lines, tmp_path):
    stream = io.StringIO()
    hook = ProgressHook(2, loss="no such tensor", stream=stream, log_secs=None, config=Config())
    train(hook, steps=2)
    assert stream.getvalue() == ""
    assert hook.before_run(None) is None
    assert lines() == []


class Config:
    """A `RunConfig` with only the attributes that the hook reads."""

    def __init__(self, model_dir="unused", is_chief=True):
        self.model_dir = str(model_dir)
        self.is_chief = is_chief


def rates_of(directory):
    """Returns the pairs of step and rate in the event files of a directory."""
    found = []
    for path in sorted(glob.glob(f"{directory}/events*")):
        for event in tf.train.summary_iterator(path):
            for value in event.summary.value:
                if value.tag == "global_examples/sec":
                    found.append((event.step, value.simple_value))
    return found


def test_the_rate_is_summarised_without_a_terminal(clock, tmp_path):
    train(no_terminal(10, 32, log_secs=6, config=Config(tmp_path)), steps=10)
    # As the lines have it: 6 * 32 rows in 7 s, then 3 * 32 in 4 s.
    assert rates_of(tmp_path) == [(7, pytest.approx(192 / 7)), (10, 24.0)]


def test_the_rate_is_summarised_on_a_terminal_less_often_than_shown(terminal, clock, tmp_path):
    hook = ProgressHook(10, 32, every_secs=0, log_secs=5, config=Config(tmp_path), stream=terminal)
    train(hook, steps=10)
    # Every step reads the clock twice: 5 s are up after 3 steps, at 6 s. The last redraw, one
    # reading later, belongs to no step; the 9th step was the 3rd after the 7th.
    assert rates_of(tmp_path) == [(4, 16.0), (7, 16.0), (10, 16.0)]
    assert "| 10/10 [" in terminal.lines[-1]


@pytest.mark.parametrize(
    ("is_chief", "batch_size", "log_secs"), [(False, 8, 0), (True, None, 0), (True, 8, None)]
)
def test_no_rate_is_no_summary(lines, tmp_path, is_chief, batch_size, log_secs):
    config = Config(tmp_path, is_chief)
    train(no_terminal(3, batch_size, log_secs=log_secs, config=config), steps=3)
    assert rates_of(tmp_path) == []
    assert len(lines()) == (0 if log_secs is None else 3)  # Others than the chief log, too.


@pytest.mark.parametrize("given", [True, False])
def test_the_rate_is_in_the_directory_of_the_estimator(tmp_path, given, lines):
    def model_fn(features, labels, mode):
        loss = tf.reduce_mean(features) * tf.get_variable("w", [], initializer=tf.ones_initializer)
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        train_op = optimizer.minimize(loss, tf.train.get_global_step())
        return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    devices = ["/cpu:0", "/cpu:1"]
    config = estimator.RunConfig(
        str(tmp_path), session_config=replicate.session_config(devices), save_summary_steps=2
    )
    model_fn = replicate.replicate_model_fn(model_fn, devices=devices)
    trained = estimator.Estimator(model_fn, config=config)
    hook = no_terminal(3, log_secs=0, config=trained.config if given else None)
    trained.train(
        lambda: tf.data.Dataset.from_tensors(np.ones(5, "f")).repeat(), max_steps=3, hooks=[hook]
    )
    assert [step for step, _ in rates_of(tmp_path)] == [2, 3]
    assert all(rate > 0 for _, rate in rates_of(tmp_path))
    assert len(glob.glob(f"{tmp_path}/events*")) == 1  # The Estimator's own.
    assert re.match(r"training: step 3/3, [\d,]+ examples/s, loss [\d.]+$", lines()[-1])


@pytest.mark.parametrize("value", [-1, float("nan")])
def test_a_negative_period_of_lines_is_an_error(value):
    with pytest.raises(ValueError, match=rf"`log_secs` must be .*or None, but is {value}\. Pass 0"):
        ProgressHook(log_secs=value)


@pytest.mark.parametrize("value", ["logs", Config("")])
def test_a_config_without_a_directory_is_an_error(value):
    message = r"Summaries go into .*`config` must be a `RunConfig`.*Pass `estimator\.config`"
    with pytest.raises(ValueError, match=message):
        ProgressHook(config=value)


# ---- on a terminal, again


def test_the_stream_is_stderr_at_the_time_of_training(terminal, monkeypatch, capsys):
    hook = ProgressHook(1)
    monkeypatch.setattr(sys, "stderr", terminal)
    train(hook, steps=1)
    assert "| 1/1 [" in terminal.lines[-1]
    assert capsys.readouterr().out == ""


def test_one_hook_serves_several_calls(terminal):
    hook = ProgressHook(2, stream=terminal)
    train(hook, steps=2)
    train(hook, steps=2)
    assert len([line for line in terminal.lines if "| 0/2 [" in line]) == 2
    assert terminal.getvalue().count("\n") == 2


def test_an_exception_closes_the_bar_and_leaves_no_thread(terminal):
    threads = set(threading.enumerate())
    hook = ProgressHook(5, every_secs=0, stream=terminal)
    with pytest.raises(ZeroDivisionError), tf.train.MonitoredTrainingSession(hooks=[hook]) as sess:
        sess.run("train")
        raise ZeroDivisionError
    assert "| 1/5 [" in terminal.lines[-1]
    assert terminal.getvalue().endswith("\n")
    assert set(threading.enumerate()) <= threads


def test_an_exception_of_the_train_op_closes_the_bar(terminal, graph):
    step = tf.train.get_global_step()
    make_step("train_twice", tf.assert_less(step, tf.cast(2, step.dtype), message="enough"))
    hook = ProgressHook(5, every_secs=0, stream=terminal)
    session = tf.train.MonitoredTrainingSession(hooks=[hook])
    with pytest.raises(tf.errors.InvalidArgumentError, match="enough"), session:
        for _ in range(5):
            session.run("train_twice")
    assert "| 2/5 [" in terminal.lines[-1]
    assert terminal.getvalue().endswith("\n")


def test_a_recovered_session_draws_a_new_bar(terminal, tmp_path):
    class LoseTheSession(tf.train.SessionRunHook):
        """Fails after the third step, once, as a preempted parameter server would."""

        def after_run(self, run_context, run_values):
            if run_context.session.run(tf.train.get_global_step()) == 3 and not self.done:
                self.done = True
                raise tf.errors.AbortedError(None, None, "preempted")

        done = False

    saver = tf.train.CheckpointSaverHook(str(tmp_path), save_steps=2)
    hook = ProgressHook(5, every_secs=0, stream=terminal)
    with tf.train.MonitoredSession(
        tf.train.ChiefSessionCreator(checkpoint_dir=str(tmp_path)),
        hooks=[saver, hook, LoseTheSession()],
    ) as session:
        while session.run(tf.train.get_global_step()) < 5:
            session.run("train")
    bars = terminal.getvalue().split("\n")
    assert len(bars) == 3  # two bars, and nothing after the second
    assert "| 3/5 [" in bars[0]
    assert "| 5/5 [" in bars[1]


@pytest.mark.parametrize("name", ["tensorflow", None])
def test_log_lines_appear_above_the_bar(terminal, monkeypatch, name):
    monkeypatch.setattr(sys, "stderr", terminal)
    for logger in (tf.get_logger(), logging.getLogger()):
        monkeypatch.setattr(logger, "handlers", [])
    handler = logging.StreamHandler(terminal)
    logging.getLogger(name).addHandler(handler)

    class Warn(tf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            tf.logging.error("mind the loss")

    with tf.train.MonitoredTrainingSession(hooks=[ProgressHook(1), Warn()]) as session:
        session.run("train")
    assert [line for line in terminal.lines if "mind" in line] == ["mind the loss"]
    assert "| 1/1 [" in terminal.lines[-1]
    assert logging.getLogger(name).handlers == [handler]


def test_the_estimator_loss_is_found_whatever_it_is_called(terminal, tmp_path):
    def model_fn(features, labels, mode):
        weight = tf.get_variable("w", initializer=3.0)
        tf.losses.mean_squared_error(labels, weight * features)
        tf.identity(7.0, name="loss")  # a trap: the tensor called `loss` is not the loss
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, tf.square(weight))
        loss = tf.losses.get_total_loss()
        optimizer = tf.train.GradientDescentOptimizer(0.0)
        train_op = optimizer.minimize(loss, tf.train.get_global_step())
        return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def input_fn():
        return tf.data.Dataset.from_tensors((np.float32([1, 2]), np.float32([3, 6]))).repeat()

    trained = estimator.Estimator(model_fn, str(tmp_path))
    trained.train(input_fn, max_steps=2, hooks=[ProgressHook(2, 2, stream=terminal)])
    assert "| 2/2 [" in terminal.lines[-1]
    assert "loss 9]" in terminal.lines[-1]  # 0 + 3 ** 2


def test_both_kinds_of_total_are_an_error():
    with pytest.raises(ValueError, match=r"not both; got total_steps=5 and steps=3\. Drop"):
        ProgressHook(5, steps=3)


@pytest.mark.parametrize("name", ["total_steps", "steps", "batch_size"])
@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (0, ValueError, r"greater than 0, but is 0\. Leave it out"),
        (-2, ValueError, r"greater than 0, but is -2\. Leave it out"),
        (2.5, TypeError, r"greater than 0, but is 2\.5 \(float\)\. Convert"),
        (True, TypeError, r"greater than 0, but is True \(bool\)\. Convert"),
    ],
)
def test_counts_out_of_range_are_an_error(name, value, error, message):
    with pytest.raises(error, match=f"`{name}` must be an integer {message}"):
        ProgressHook(**{name: value})


@pytest.mark.parametrize("value", [-1, float("nan")])
def test_a_negative_period_is_an_error(value):
    with pytest.raises(ValueError, match=rf"`every_secs` must be .*but is {value}\. Pass 0"):
        ProgressHook(every_secs=value)


def test_a_missing_tqdm_is_an_error_at_construction(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    message = r"`tqdm`, which does not import.*`pip install 'replicate-estimator\[progress\]'`"
    with pytest.raises(ImportError, match=message):
        ProgressHook()


def test_a_graph_without_a_global_step_is_an_error(terminal):
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match=r"no global step\. Call `tf"):
        ProgressHook(stream=terminal).begin()


@pytest.mark.parametrize("argument", ["loss", "batch_size"])
@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ("nothing", ValueError, r"`{}` must name a tensor .*none called 'nothing'\. Give"),
        ("vector", ValueError, r"`{}` must be .*shape \[\], but 'vector:0' has shape \(2,\)\. Red"),
    ],
)
def test_a_tensor_that_cannot_be_shown_is_an_error(terminal, argument, value, error, message):
    tf.constant([1.0, 2.0], name="vector")
    with pytest.raises(error, match=message.format(argument)):
        ProgressHook(stream=terminal, **{argument: value}).begin()


def test_a_loss_that_is_no_tensor_is_an_error(terminal):
    with pytest.raises(TypeError, match=r"`loss` must be a tensor or the name of one, but is 0\.5"):
        ProgressHook(stream=terminal, loss=0.5).begin()
