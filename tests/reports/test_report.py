"""Messages for people: `python -m replicate`, the line at training start, warnings."""

import logging
import re

import pytest
import tensorflow.compat.v1 as tf

import programs
import replicate
from bodies import matching
from replicate.reports import report as reports

NOT_BUILT = "`tower_report` describes the model that was last built for training on several device"
DEVICES = ["/cpu:0", "/cpu:1", "/cpu:2"]


def test_python_m_replicate_answers_what_a_user_asks_first():
    result = programs.run("-m", "replicate")
    assert result.returncode == 0, result.stderr
    rows = dict(line.split(None, 1) for line in result.stdout.splitlines()[:6])
    assert rows["replicate"] == replicate.__version__
    assert rows["TensorFlow"] == tf.__version__
    assert "tensorflow-estimator" in rows["Estimator"]
    assert rows["devices"] == "/device:CPU:0"
    assert "calls model_fn as it is, on /device:CPU:0" in result.stdout
    assert 'devices = ["/cpu:0", "/cpu:1"]' in result.stdout


@pytest.fixture
def messages():
    """The messages that are logged, as they are logged."""
    logged = []

    class Handler(logging.Handler):
        def emit(self, record):
            logged.append(record.getMessage())

    handler, logger = Handler(), tf.get_logger()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield logged
    logger.removeHandler(handler)
    logger.setLevel(level)


def model_fn(features, labels, mode):
    kernel = tf.get_variable("kernel", [1, 4])
    loss = tf.reduce_mean(features @ kernel)
    train_op = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.1)).minimize(loss)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


@pytest.mark.parametrize(
    ("features", "batch"),
    [
        (lambda: tf.zeros([7, 1]), "global batch 7, 3 towers on .*, rows per tower 3, 2, 2;"),
        (
            lambda: tf.placeholder(tf.float32, [None, 1]),
            "global batch of dynamic size, 3 towers on .*, rows per tower as even as they can be;",
        ),
    ],
    ids=["static", "dynamic"],
)
def test_one_line_at_training_start(messages, features, batch):
    wrapped = replicate.replicate_model_fn(
        model_fn, tf.losses.Reduction.SUM, DEVICES, consolidation_device="/cpu:1"
    )
    wrapped(features(), None, "train")
    # One variable of 4 float32: 16 bytes.
    pattern = (
        f"^replicate: {batch} 1 variables, 1.6e-05 MB, on /device:CPU:1; gradients summed on "
        r"/device:CPU:1; \d+ tensors, (at least )?\S+ MB cross devices in a step.$"
    )
    # TensorFlow warns once for each deprecated name of the Estimator.
    message, share = [message for message in messages if "deprecated" not in message]
    assert re.search(pattern, message)
    told = "of the multiplications run in 3 towers; 4 gradients are summed in 1 pack."
    assert re.fullmatch(rf"replicate: 100 % {told}", share)


def _plain(update):
    def model_fn(features, labels, mode):
        kernel = tf.get_variable("kernel", [1, 4])
        loss = tf.reduce_mean(features @ kernel)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=update(loss, kernel))

    return replicate.replicate_model_fn(model_fn, devices=DEVICES)


@pytest.mark.parametrize(
    "optimizer",
    [tf.train.GradientDescentOptimizer(0.1), tf.train.AdamOptimizer(), tf.train.FtrlOptimizer(0.1)],
    ids=["sgd", "adam", "ftrl"],
)
def test_gradients_of_plain_optimizers_are_counted(optimizer, messages):
    _plain(lambda loss, kernel: optimizer.minimize(loss))(tf.zeros([7, 1]), None, "train")
    assert any("; gradients summed on /device:CPU:0;" in message for message in messages)
    assert any("; 4 gradients are summed" in message for message in messages)
    report = replicate.tower_report()
    assert "\ngradients  summed on /device:CPU:0\n" in str(report)
    assert report.summed_on == ("/device:CPU:0",) and report.kinds["gradients"].number


def test_gradients_of_plain_assignments_are_not_told_from_other_sums(messages):
    def step(loss, kernel):
        return kernel.assign_sub(0.1 * tf.gradients(loss, kernel)[0]).op

    _plain(step)(tf.zeros([7, 1]), None, "train")
    told = "gradients counted as 'other': TowerOptimizer would tell which sums are gradients;"
    assert any(told in message for message in messages)
    report = replicate.tower_report()
    assert "\ngradients  counted as 'other': TowerOptimizer would tell" in str(report)
    assert report.summed_on == () and report.kinds["gradients"].number == 0


def test_programs_of_towers_say_how_losses_meet(messages):
    make = replicate.replicate_model_fn
    make(model_fn, tf.losses.Reduction.SUM, DEVICES, per_tower=True)(
        tf.zeros([7, 1]), None, "train"
    )
    (message,) = [message for message in messages if "deprecated" not in message]
    assert message.endswith("cross devices in a step; loss reduction weighted_sum.")
    assert "\nloss       weighted_sum\n" in str(replicate.tower_report())


REPORT = """\
towers     3, on /device:CPU:0, /device:CPU:1, /device:CPU:2
rows       3, 2, 2
variables  1, 1.6e-05 MB, on /device:CPU:1
gradients  summed on /device:CPU:1
in towers  100 %

crossing devices in a step
  weights        2  3.2e-05 MB
  gradients      2  3.2e-05 MB
  sums           0  0 MB
  batch          2  1.6e-05 MB
  prefetched     0  0 MB
  other          3  3.6e-05 MB
  all            9  0.000116 MB

by link, without scalars
       1  1.6e-05 MB  /device:CPU:0 to /device:CPU:1
       1  1.6e-05 MB  /device:CPU:1 to /device:CPU:0
       1  1.6e-05 MB  /device:CPU:1 to /device:CPU:2
       1  1.6e-05 MB  /device:CPU:2 to /device:CPU:1
       1  2.8e-05 MB  any to /device:CPU:0
"""


def test_the_report_of_towers(capsys, monkeypatch):
    monkeypatch.setattr(reports, "_last", None)
    with pytest.raises(RuntimeError, match=matching(NOT_BUILT)):
        replicate.tower_report()
    wrapped = replicate.replicate_model_fn(
        model_fn, tf.losses.Reduction.SUM, DEVICES, consolidation_device="/cpu:1"
    )
    wrapped(tf.zeros([7, 1]), None, "train")
    report = replicate.tower_report()
    assert capsys.readouterr().out == REPORT
    assert report.kinds["weights"] == (2, 32, False)
    assert report.crossing.number == 9

    # Numbers that are only known when the graph runs are None.
    with tf.Graph().as_default():
        wrapped(tf.placeholder(tf.float32, [None, 1]), None, "train")
    report = replicate.tower_report()
    assert report.rows == (None, None, None)
    assert report.kinds["batch"].is_least and not report.kinds["weights"].is_least
    # Two shards, and how many rows there are, by which the sum of the towers is divided.
    assert "batch          4  at least 8e-06 MB" in str(report)


@pytest.mark.parametrize("is_own", [False, True])
def test_a_session_that_costs_time_is_told_of(messages, is_own):
    base = tf.ConfigProto(device_count={"CPU": 3})
    made = base if is_own else replicate.session_config(DEVICES, base)
    config = replicate.estimator.RunConfig(session_config=made)
    replicate.replicate_model_fn(model_fn, devices=DEVICES)(
        tf.zeros([7, 1]), None, "train", config=config
    )
    told = [one for one in messages if "session_config" in one]
    assert len(told) == is_own
    if is_own:
        assert told[0].endswith("session_config=replicate.session_config(devices, base=config)).")


def of_halves(size):
    """Returns a model of two halves of columns, fewer than towers; rows have `size` numbers."""

    def model_fn(features, labels, mode):
        w = tf.get_variable("w", [50 * size, 100])
        halves = tf.reshape(tf.transpose(features), [2, 50 * size], "halves")
        loss = tf.reduce_sum(tf.tanh(halves) @ w)
        optimizer = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.1))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss))

    return model_fn


@pytest.mark.parametrize("size", [4, 2000])
def test_much_that_runs_once_is_a_warning(size, warnings, capsys):
    replicate.replicate_model_fn(of_halves(size), devices=DEVICES)(
        tf.ones([100, size]), None, "train"
    )
    report = replicate.tower_report()
    assert report.share < 0.9
    assert report.once == ("halves",) or report.once == ("Tanh",)
    if size == 4:
        assert not warnings()  # It takes no time.
        return
    (warning,) = warnings()
    assert re.fullmatch(
        r"replicate: only \S+ % of the multiplications run in 3 towers. '\S+', \w+ at "
        rf"{re.escape(__file__)}:\d+, runs once, on the rows of all: it needs all rows. It and the "
        r"operations that follow are \S+ % of the computation. The result is the same, but takes "
        "longer. To have them in towers, compute it row by row.",
        warning,
    )
