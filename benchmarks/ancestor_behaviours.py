"""Trains model functions with `replicate` and with its ancestor, and compares with one device.

A *behaviour* is a `model_fn` and the batches that it is trained with, over two towers and on one
device, in float64, by gradient descent, from constants, so that rounding alone may tell towers from
one device. Compared are the loss of each step, all variables of the checkpoint, metrics,
predictions, and what hooks see.
"""

import json
import sys
import tempfile
from typing import Callable, NamedTuple

import numpy as np
import tensorflow as tf1
import tensorflow.compat.v1 as tf

import replicate

DEVICES = ["/cpu:0", "/cpu:1"]
EQUAL = 1e-6  # Relative; `tf.losses` and metrics compute in float32.
_STEPS, _ROWS = 3, 8
_CELL = 110  # Characters of an error.
_SEEN = []  # By the hook of the model at hand, in each step.


class Engine(NamedTuple):
    """A way to train: what is done to a `model_fn`, and to its optimizer."""

    replicate: Callable
    wrap: Callable


def _ancestor(model_fn):
    return tf1.contrib.estimator.replicate_model_fn(model_fn, tf.losses.Reduction.MEAN, DEVICES)


ENGINES = {
    "one device": Engine(lambda model_fn: model_fn, lambda optimizer: optimizer),
    "ancestor": Engine(_ancestor, lambda each: tf1.contrib.estimator.TowerOptimizer(each)),
    "replicate": Engine(
        lambda model_fn: replicate.replicate_model_fn(model_fn, devices=DEVICES),
        replicate.TowerOptimizer,
    ),
}


def _data(rows):
    rng = np.random.RandomState(5)
    return rng.standard_normal((rows, 3)), rng.standard_normal((rows, 1))


def _batches(rows, change=lambda x, y: (x, y)):
    def input_fn():
        x, y = _data(_STEPS * rows)
        return tf.data.Dataset.from_tensor_slices(
            change(x.reshape(_STEPS, rows, 3), y.reshape(_STEPS, rows, 1))
        )

    return input_fn


def _smaller_last():
    return tf.data.Dataset.from_tensor_slices(_data(2 * _ROWS + 3)).batch(_ROWS)


def _alike(x, y):
    half = _ROWS // 2
    return np.concatenate([x[:, :half]] * 2, axis=1), y


def _weights(name="w", shape=(3, 1), **kwargs):
    values = np.linspace(-0.5, 1.0, int(np.prod(shape))).reshape(shape)
    return tf.get_variable(name, shape, tf.float64, tf.constant_initializer(values), **kwargs)


def _linear(x):
    return tf.matmul(x, _weights()) + _weights("b", (1,))


def _squared(predictions, labels):
    return tf.reduce_mean((predictions - labels) ** 2)


def _optimizer(params):
    return params["wrap"](tf.train.GradientDescentOptimizer(0.1))


def _step():
    return tf.train.get_or_create_global_step()


def _spec(mode, loss, params, train_op=None, **kwargs):
    if mode == "train" and train_op is None:
        train_op = _optimizer(params).minimize(loss, _step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, **kwargs)


def _plain(features, labels, mode, params):
    return _spec(mode, _squared(_linear(features), labels), params)


def _unwrapped(features, labels, mode, params):
    return _plain(features, labels, mode, {"wrap": lambda optimizer: optimizer})


def _unnamed_layers(features, labels, mode, params):
    ramp = tf.constant_initializer(np.linspace(-1.0, 1.0, 12))
    hidden = tf.layers.dense(features, 4, tf.tanh, kernel_initializer=ramp)
    predictions = tf.layers.dense(hidden, 1, kernel_initializer=tf.ones_initializer())
    return _spec(mode, _squared(predictions, labels), params)


def _keras_layers(features, labels, mode, params):
    layer = tf.keras.layers.Dense(1, kernel_initializer=tf.ones_initializer(), dtype="float64")
    return _spec(mode, _squared(layer(features), labels), params)


def _tf_variable(features, labels, mode, params):
    w = tf.Variable(np.ones([3, 1]), name="w")
    return _spec(mode, _squared(tf.matmul(features, w), labels), params)


def _applied(mode, loss, params, pairs_of):
    optimizer = _optimizer(params)
    return _spec(mode, loss, params, optimizer.apply_gradients(pairs_of(optimizer), _step()))


def _clipped(features, labels, mode, params):
    loss = _squared(_linear(features), labels)

    def pairs(optimizer):
        gradients, variables = zip(*optimizer.compute_gradients(loss))
        return list(zip(tf.clip_by_global_norm(gradients, 0.1)[0], variables))

    return _applied(mode, loss, params, pairs)


def _zipped(features, labels, mode, params):
    loss = _squared(_linear(features), labels)

    def pairs(optimizer):
        gradients, variables = zip(*optimizer.compute_gradients(loss))
        return zip(gradients, variables)

    return _applied(mode, loss, params, pairs)


def _by_hand(features, labels, mode, params):
    loss = _squared(_linear(features), labels)

    def pairs(optimizer):
        variables = tf.trainable_variables()
        return list(zip(tf.gradients(loss, variables), variables))

    return _applied(mode, loss, params, pairs)


def _total_loss(features, labels, mode, params):
    tf.losses.mean_squared_error(labels, _linear(features))
    return _spec(mode, tf.losses.get_total_loss(), params)


def _penalty(features, labels, mode, params):
    w = _weights(regularizer=lambda value: 0.1 * tf.reduce_sum(value**2))
    loss = _squared(tf.matmul(features, w), labels) + tf.losses.get_regularization_loss()
    return _spec(mode, loss, params)


def _mask(features, labels, mode, params):
    mask = tf.cast(features[:, 0] > -1, tf.float64)
    errors = tf.squeeze((_linear(features) - labels) ** 2, 1)
    return _spec(mode, tf.reduce_sum(mask * errors) / tf.reduce_sum(mask), params)


def _batch_norm(layer):
    def model_fn(features, labels, mode, params):
        net = layer()(features, training=mode == "train", name="norm", momentum=0.9)
        loss = _squared(_linear(net), labels)
        if mode != "train":
            return _spec(mode, loss, params)
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            train_op = _optimizer(params).minimize(loss, _step())
        return _spec(mode, loss, params, train_op)

    return model_fn


def _pair(features, labels, mode, params):
    one, other = features
    return _spec(mode, _squared(_linear(one + 2.0 * other), labels), params)


def _nested(features, labels, mode, params):
    return _plain(features["user"]["x"], labels, mode, params)


def _maximum(features, labels, mode, params):
    predictions = _linear(features)
    errors = tf.abs(predictions - labels)
    collections = [tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES]
    with tf.variable_scope(tf.get_variable_scope(), reuse=False):
        largest = tf.Variable(
            np.float64(0.0), trainable=False, collections=collections, name="largest"
        )
    update = tf.assign(largest, tf.maximum(largest, tf.reduce_max(errors)))
    metrics = {"largest": (tf.identity(largest), update)}
    return _spec(mode, _squared(predictions, labels), params, eval_metric_ops=metrics)


def _metrics(features, labels, mode, params):
    predictions = _linear(features)
    truth, guess = labels > 0, tf.sigmoid(predictions)
    metrics = {
        "auc": tf.metrics.auc(truth, guess),
        "accuracy": tf.metrics.accuracy(truth, guess > 0.5),
        "rms": tf.metrics.root_mean_squared_error(labels, predictions),
    }
    return _spec(mode, _squared(predictions, labels), params, eval_metric_ops=metrics)


def _average(features, labels, mode, params):
    loss = _squared(_linear(features), labels)
    if mode != "train":
        return _spec(mode, loss, params)
    minimized = _optimizer(params).minimize(loss, _step())
    average = tf.train.ExponentialMovingAverage(0.9)
    with tf.control_dependencies([minimized]):
        return _spec(mode, loss, params, average.apply(tf.trainable_variables()))


def _counter(features, labels, mode, params):
    loss = _squared(_linear(features), labels)
    count = _weights("count", (1,), trainable=False)
    if mode != "train":
        return _spec(mode, loss, params)
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_add(count, [1.0]))
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        return _spec(mode, loss, params)


class _Hook(tf.train.SessionRunHook):
    """Notes what it is asked to read in each step; else, that there was one."""

    def __init__(self, name=None):
        self._name = name

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self._name) if self._name else None

    def after_run(self, run_context, run_values):
        _SEEN.append(run_values.results if self._name else 1.0)


def _count_steps(features, labels, mode, params):
    loss = _squared(_linear(features), labels)
    return _spec(mode, loss, params, training_hooks=[_Hook()])


def _read_loss(features, labels, mode, params):
    loss = tf.identity(_squared(_linear(features), labels), "squared")
    return _spec(mode, loss, params, training_hooks=[_Hook("squared:0")])


def _read_norm(features, labels, mode, params):
    loss = _squared(_linear(features), labels)
    if mode != "train":
        return _spec(mode, loss, params)
    optimizer = _optimizer(params)
    pairs = optimizer.compute_gradients(loss)
    tf.identity(tf.global_norm([gradient for gradient, _ in pairs]), "norm")
    train_op = optimizer.apply_gradients(pairs, _step())
    return _spec(mode, loss, params, train_op, training_hooks=[_Hook("norm:0")])


def _predictions(features, labels, mode, params):
    predictions = _linear(features)
    if mode == "infer":
        return _spec(mode, None, params, predictions={"y": predictions})
    return _spec(mode, _squared(predictions, labels), params, predictions={"y": predictions})


class Behaviour(NamedTuple):
    """The code of a user: a `model_fn`, and the `input_fn` of its batches."""

    name: str
    model_fn: Callable
    input_fn: Callable = _batches(_ROWS)


BEHAVIOURS = [
    Behaviour("a linear model, `minimize`", _plain),
    Behaviour("an optimizer that is not wrapped", _unwrapped),
    Behaviour("uneven batch, 7 rows", _plain, _batches(7)),
    Behaviour("`Dataset.batch`, fewer rows in the last one", _plain, _smaller_last),
    Behaviour("`tf.layers` without names", _unnamed_layers),
    Behaviour("`tf.keras.layers`", _keras_layers),
    Behaviour("`tf.Variable`", _tf_variable),
    Behaviour("clipping between `compute_gradients` and `apply_gradients`", _clipped),
    Behaviour("`apply_gradients(zip(...))`", _zipped),
    Behaviour("`tf.gradients`, then `apply_gradients`", _by_hand),
    Behaviour("`tf.losses.get_total_loss()`", _total_loss),
    Behaviour("a `regularizer`, `get_regularization_loss()`", _penalty),
    Behaviour("mean over the rows of a mask", _mask),
    Behaviour(
        "batch norm's moving statistics, towers' rows alike",
        _batch_norm(lambda: tf.layers.batch_normalization),
        _batches(_ROWS, _alike),
    ),
    Behaviour("the same, of any rows", _batch_norm(lambda: tf.layers.batch_normalization)),
    Behaviour(
        "the same, by `replicate.batch_normalization`",
        _batch_norm(lambda: replicate.batch_normalization),
    ),
    Behaviour("features in a tuple", _pair, _batches(_ROWS, lambda x, y: ((x, np.sin(x)), y))),
    Behaviour(
        "nested dictionaries", _nested, _batches(_ROWS, lambda x, y: ({"user": {"x": x}}, y))
    ),
    Behaviour("a maximum as a metric", _maximum),
    Behaviour("AUC, accuracy, root mean square", _metrics),
    Behaviour("predictions", _predictions),
    Behaviour("`ExponentialMovingAverage.apply` as `train_op`", _average),
    Behaviour("a counter in `UPDATE_OPS`", _counter),
    Behaviour("a hook that counts steps", _count_steps),
    Behaviour("a hook that reads the norm of the gradient", _read_norm),
    Behaviour("a hook that reads the model's loss by name", _read_loss),
]


class _Losses(tf.train.SessionRunHook):
    """Keeps the loss of each step."""

    def __init__(self):
        self.values = []

    def begin(self):
        # The Estimator adds the loss of the whole batch last.
        self._loss = tf.get_collection(tf.GraphKeys.LOSSES)[-1]

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        self.values.append(run_values.results)


def run(behaviour, engine):
    """Trains, evaluates and predicts; returns what there is to compare, by name.

    Args:
        behaviour: The `Behaviour`.
        engine: The `Engine`.
    """
    del _SEEN[:]
    losses = _Losses()
    with tempfile.TemporaryDirectory() as model_dir:
        trained = tf.estimator.Estimator(
            engine.replicate(behaviour.model_fn),
            model_dir,
            tf.estimator.RunConfig(session_config=replicate.session_config(DEVICES)),
            {"wrap": engine.wrap},
        )
        trained.train(behaviour.input_fn, hooks=[losses], steps=_STEPS)
        got = {name: trained.get_variable_value(name) for name in trained.get_variable_names()}
        got["what the hook saw"] = list(_SEEN)
        got["the loss"] = losses.values
        evaluated = trained.evaluate(behaviour.input_fn)
        got.update((f"evaluation's `{name}`", value) for name, value in evaluated.items())
        if behaviour.model_fn is _predictions:
            got["predictions"] = [row["y"] for row in trained.predict(behaviour.input_fn)]
    return {name: np.asarray(value, np.float64) for name, value in got.items()}


def compare(got, want):
    """Returns `equal` or `differs`, with the largest relative deviation and whose it is."""
    if got.keys() != want.keys():
        unlike = sorted(got.keys() ^ want.keys())
        names = ", ".join(f"`{name}`" for name in unlike)
        return f"differs by {len(unlike)} of the variables: {names}"
    deviations = {}
    for name, value in want.items():
        if got[name].shape != value.shape:
            return f"differs by the shape of {name}: {got[name].shape}, not {value.shape}"
        largest = np.max(np.abs(value), initial=0.0) or 1.0
        deviations[name] = np.max(np.abs(got[name] - value), initial=0.0) / largest
    name = max(deviations, key=deviations.get)
    if deviations[name] <= EQUAL:
        return f"equal, {deviations[name]:.0e}"
    return f"differs by {deviations[name]:.2g}, {name}"


def compared(behaviour):
    """Returns what both libraries make of a `Behaviour`: a dict of text, by engine."""
    want, cells = run(behaviour, ENGINES["one device"]), {}
    for name in ("ancestor", "replicate"):
        try:
            cells[name] = compare(run(behaviour, ENGINES[name]), want)
        except Exception as error:  # Whatever it is, it is what users get.
            lines = [line for line in str(error).splitlines() if "root error(s)" not in line]
            first = lines[0].strip() if lines else ""
            first = first if len(first) <= _CELL else first[:_CELL] + "…"
            cells[name] = f"{type(error).__name__}: {first}"
    return cells


def table(cells):
    """Returns a Markdown table of what `compared` returned, by the behaviour's name."""
    lines = ["| `model_fn` | ancestor | `replicate` |", "|" + " --- |" * 3]
    for name, of in cells.items():
        texts = [of[engine].replace("|", "\\|") for engine in ("ancestor", "replicate")]
        lines.append("| " + " | ".join([name, *texts]) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.ERROR)
    names = json.loads(sys.argv[1])["names"]
    print(
        json.dumps(
            {each.name: compared(each) for each in BEHAVIOURS if not names or each.name in names}
        )
    )
