"""For any predictions, export outputs and metrics, towers give those of the whole batch.

A `model_fn` is drawn as names of what it returns, and run as it is and over towers, on the same
batches of float64, one after another in the same session.
"""

from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf
from hypothesis import strategies as st

import contract
from contract import ModeKeys
from properties import random_examples
from properties.random_examples import holds

export = tf.estimator.export

# Of a batch x, float64 [n, 3].
VALUES = {
    "matrix": lambda x: x * 2,
    "vector": lambda x: x[:, 0],
    "cube": lambda x: tf.stack([x, -x], axis=2),
    "classes": lambda x: tf.argmax(x, axis=1),
    "text": lambda x: tf.as_string(x[:, :2]),
    "flags": lambda x: x > 0,
    "narrow": lambda x: tf.cast(x, tf.float32),
    "empty": lambda x: x[:, :0],
    "constant": lambda x: tf.constant(3.0),
}
TARGET = lambda x: tf.cast(x[:, 1] > 0, tf.int64)  # noqa: E731
SCORE = lambda x: tf.sigmoid(x[:, 0])  # noqa: E731
METRICS = {
    "mean": lambda x: tf.metrics.mean(x),
    "weighted": lambda x: tf.metrics.mean(x[:, 0], tf.abs(x[:, 1])),
    "accuracy": lambda x: tf.metrics.accuracy(TARGET(x), tf.cast(x[:, 0] > 0, tf.int64)),
    "squares": lambda x: tf.metrics.root_mean_squared_error(x[:, 0], x[:, 1]),
    "precision": lambda x: tf.metrics.precision(TARGET(x), x[:, 0] > 0),
    "recall": lambda x: tf.metrics.recall(TARGET(x), x[:, 0] > 0),
    "auc": lambda x: tf.metrics.auc(TARGET(x), SCORE(x), num_thresholds=20),
    "positives": lambda x: tf.metrics.true_positives(TARGET(x), x[:, 0] > 0),
    "overlap": lambda x: tf.metrics.mean_iou(TARGET(x), tf.cast(x[:, 0] > 0, tf.int64), 2),
}
LOSSES = {
    "mean": (contract.MEAN, lambda x: tf.reduce_mean(x**2)),
    "sum": (contract.SUM, lambda x: tf.reduce_sum(tf.abs(x))),
    "tf.losses": (contract.MEAN, lambda x: tf.losses.huber_loss(x[:, 0], x[:, 1])),
}


def export_of(kind, x, value):
    if kind == "classification":
        return export.ClassificationOutput(SCORE(x)[:, None], tf.as_string(x[:, :1]))
    if kind == "scores":
        return export.ClassificationOutput(scores=SCORE(x)[:, None])
    return export.RegressionOutput(x[:, 0]) if kind == "regression" else export.PredictOutput(value)


class Model(NamedTuple):
    """The result of a `model_fn`."""

    predictions: Any  # a key of `VALUES`, or a dict of them
    metrics: tuple  # keys of `METRICS`
    loss: str  # key of `LOSSES`
    exports: tuple
    mode: str

    def __call__(self, features, labels, mode):
        predictions = tf.nest.map_structure(lambda key: VALUES[key](features), self.predictions)
        if mode == ModeKeys.EVAL:
            loss = LOSSES[self.loss][1](features)
            metrics = {name: METRICS[name](features) for name in self.metrics}
            return tf.estimator.EstimatorSpec(mode, predictions, loss, eval_metric_ops=metrics)
        outputs = {kind: export_of(kind, features, predictions) for kind in self.exports}
        outputs["serving_default"] = export.PredictOutput(predictions)
        return tf.estimator.EstimatorSpec(mode, predictions, export_outputs=outputs)

    def run(self, model_fn, batches, rows, num_towers):
        """Returns, for each batch, what the spec of `model_fn` has; metrics after each update."""
        with tf.Graph().as_default():
            batch = tf.placeholder(tf.float64, [rows, 3])
            spec = model_fn(batch, None, self.mode)
            fetches = {"predictions": spec.predictions}
            values, updates = {}, []
            if self.mode == ModeKeys.EVAL:
                fetches["loss"] = spec.loss
                values = {name: value for name, (value, _) in spec.eval_metric_ops.items()}
                updates = [update for _, update in spec.eval_metric_ops.values()]
            for kind, output in (spec.export_outputs or {}).items():
                fields = ("scores", "classes", "value", "outputs")
                own = {name: getattr(output, name, None) for name in fields}
                fetches[kind] = {name: each for name, each in own.items() if each is not None}
            spec.scaffold.finalize()
            seen = []
            with random_examples.session(num_towers) as session:
                session.run([spec.scaffold.init_op, spec.scaffold.local_init_op])
                for rows_of_batch in batches:
                    got, _ = session.run((fetches, updates), {batch: rows_of_batch})
                    seen.append((got, session.run(values)))
        return seen


def check_same(got, want):
    """Compares two structures: types and shapes, text and whole numbers exactly."""
    if isinstance(want, dict):
        assert list(got) == list(want)
        for name in want:
            check_same(got[name], want[name])
        return
    got, want = np.asarray(got), np.asarray(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if want.dtype.kind == "f":
        rtol = 1e-12 if want.dtype == np.float64 else 1e-5
        np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)
    else:
        np.testing.assert_array_equal(got, want)


NAMES = st.sampled_from(["a", "b", "c"])
MODELS = st.builds(
    Model,
    st.sampled_from(sorted(VALUES))
    | st.dictionaries(NAMES, st.sampled_from(sorted(VALUES)), min_size=1, max_size=2),
    st.lists(st.sampled_from(sorted(METRICS)), unique=True, max_size=2).map(tuple),
    st.sampled_from(sorted(LOSSES)),
    st.lists(
        st.sampled_from(["classification", "scores", "regression"]), unique=True, max_size=2
    ).map(tuple),
    st.sampled_from([ModeKeys.EVAL, ModeKeys.PREDICT]),
)


@holds(
    MODELS,
    st.lists(st.integers(1, 9), min_size=1, max_size=2),
    st.booleans(),
    st.sampled_from([2, 3, 1]),
    st.integers(0, 99),
    share=0.2,
)
def test_towers_return_what_one_device_does(model, sizes, is_static, num_towers, seed):
    if is_static:
        sizes = sizes[:1] * len(sizes)
    random = np.random.RandomState(seed)
    batches = [random.normal(size=(size, 3)) for size in sizes]
    rows = sizes[0] if is_static else None
    towers = contract.replicated(model, num_towers, LOSSES[model.loss][0])
    want = model.run(model, batches, rows, 1)
    got = model.run(towers, batches, rows, num_towers)
    for one, other in zip(got, want):
        check_same(one[0], other[0])
        check_same(one[1], other[1])
