"""A `model_fn` written for TPUEstimator, and what trains it: whole, as towers, on TPU cores."""

import functools
from typing import Any, Dict, List, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

import contract
import replicate

TOTAL = 24
TRAIN_BATCH = 7  # Shards of 4+3 and 3+2+2 rows.
THRESHOLDS = [0.3, 0.5, 0.7]
ESTIMATORS = ("Estimator", "TPUEstimator")


def rows():
    random = np.random.RandomState(3)
    x = random.normal(size=(TOTAL, 3))
    return {"x": x, "none": np.zeros(TOTAL)}, (x.sum(axis=1, keepdims=True) > 0).astype(np.float64)


def input_fn(params, size=TRAIN_BATCH, static=True):
    data = tf.data.Dataset.from_tensor_slices(rows())
    return data.batch(size, drop_remainder=static)


def median(values):
    """A metric that does not add up: the mean of the batches' medians."""
    middle = tf.numpy_function(np.median, [values], tf.float64)
    return tf.metrics.mean(tf.reshape(middle, []))


def metric_fn(labels, probabilities):
    return {
        "auc": tf.metrics.auc(labels, probabilities),
        "precision": tf.metrics.precision_at_thresholds(labels, probabilities, THRESHOLDS),
        "median": median(probabilities),
        "mean": tf.metrics.mean(probabilities),
    }


def make_host_call(seen):
    def host_call(step, probabilities):
        def keep(*values):
            seen.append(values)
            return np.int64(0)

        return [tf.numpy_function(keep, [step, probabilities], tf.int64)]

    return host_call


def make_model_fn(wrap=replicate.TowerOptimizer, seen=None, scaffold_fn=None):
    """Returns the `model_fn`; its host call adds what it gets to the list `seen`."""

    def model_fn(features, labels, mode, params):
        dtype = features["x"].dtype
        weight = tf.get_variable("w", [3, 1], dtype, tf.constant_initializer(0.3, dtype))
        bias = tf.get_variable("b", [1], dtype, tf.zeros_initializer())
        logits = tf.matmul(features["x"], weight) + bias
        probabilities = tf.nn.sigmoid(logits)
        predictions = {"probabilities": probabilities}
        if mode == "infer":
            outputs = {"serving_default": tf.estimator.export.PredictOutput(predictions)}
            return tf.estimator.tpu.TPUEstimatorSpec(
                mode, predictions=predictions, export_outputs=outputs
            )
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
        train_op = None
        if mode == "train":
            optimizer = wrap(tf.train.GradientDescentOptimizer(0.5))
            train_op = optimizer.minimize(loss, tf.train.get_global_step())
        step = tf.reshape(tf.cast(tf.train.get_global_step(), tf.int32), [1])
        return tf.estimator.tpu.TPUEstimatorSpec(
            mode,
            loss=loss,
            train_op=train_op,
            eval_metrics=(metric_fn, {"labels": labels, "probabilities": probabilities}),
            host_call=None if seen is None else (make_host_call(seen), [step, probabilities]),
            scaffold_fn=scaffold_fn,
        )

    return model_fn


def make_estimator(kind, model_fn, directory, num_towers=1, **kwargs):
    """Returns an Estimator of either kind, whose TPUEstimator uses no TPU."""
    session_config = replicate.session_config(contract.device_names(num_towers))
    if kind == "Estimator":
        config = tf.estimator.RunConfig(session_config=session_config, tf_random_seed=1)
        return tf.estimator.Estimator(model_fn, str(directory), config, {"batch_size": TRAIN_BATCH})
    config = tf.estimator.tpu.RunConfig(session_config=session_config, tf_random_seed=1)
    sizes = {f"{mode}_batch_size": TRAIN_BATCH for mode in ("train", "eval", "predict")}
    return tf.estimator.tpu.TPUEstimator(
        model_fn, str(directory), config, {}, use_tpu=False, **{**sizes, **kwargs}
    )


class Run(NamedTuple):
    variables: Dict[str, Any]
    evaluations: List[Dict[str, Any]]
    predictions: List[Any]
    metric_variables: List[str]


class Names(tf.train.SessionRunHook):
    """Keeps the names of the metric variables."""

    def begin(self):
        self.names = [v.name for v in tf.get_collection(tf.GraphKeys.METRIC_VARIABLES)]


def run(kind, model_fn, directory, num_towers=1):
    """Trains, evaluates on batches of several sizes, and predicts."""
    estimator = make_estimator(kind, model_fn, directory, num_towers)
    estimator.train(input_fn)
    names = Names()
    evaluations = [
        estimator.evaluate(
            functools.partial(input_fn, size=size, static=static), steps=99, hooks=[names]
        )
        for size, static in [(TRAIN_BATCH, True), (5, False), (2, True), (1, False)]
    ]
    predicted = estimator.predict(functools.partial(input_fn, size=5, static=False))
    return Run(
        {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()},
        evaluations,
        [one["probabilities"] for one in predicted],
        names.names,
    )


def assert_same_run(got, want):
    contract.assert_same_values(got.variables, want.variables, 1e-9)
    for mine, theirs in zip(got.evaluations, want.evaluations):
        # An Estimator averages losses of batches in float32.
        contract.assert_same_values(mine, theirs, 1e-6)
    contract.assert_close(got.predictions, want.predictions, 1e-9)
    assert len(got.predictions) == TOTAL
    assert got.metric_variables == want.metric_variables
