"""Predictions, export outputs and losses of the towers become those of the whole batch."""

import functools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
import selection
from contract import ModeKeys

export = tf.estimator.export
TOTAL = 11
# Batches of 11, of 4 (the last has 3) and of 1; of 8 towers most are without rows then.
SIZES = [11, 4, 1]
MODES = [ModeKeys.EVAL, ModeKeys.PREDICT]


def batches(size):
    rows = tf.data.Dataset.from_tensor_slices(np.arange(TOTAL, dtype=np.float64))
    return rows.batch(size).map(lambda x: (x, x))


def of_spec(make_fields, size, num_towers, mode=ModeKeys.PREDICT):
    """Evaluates the predictions of a spec made of the fields `make_fields(rows)`."""

    def model_fn(features, labels, mode, params):
        loss = tf.reduce_mean(features) if mode == ModeKeys.EVAL else None
        return tf.estimator.EstimatorSpec(mode, loss=loss, **make_fields(features))

    return contract.evaluate(
        contract.replicated(model_fn, num_towers),
        functools.partial(batches, size),
        num_towers,
        mode,
    )


def expected(size):
    return [np.arange(start, min(start + size, TOTAL)) for start in range(0, TOTAL, size)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "num_towers",
    [selection.cell(towers, is_quick=towers in (1, 3)) for towers in (1, 2, 3, 8)],
)
def test_predictions_are_those_of_all_rows_in_order(num_towers, size, mode):
    tensor = of_spec(lambda x: {"predictions": 2 * x}, size, num_towers, mode)
    nested = of_spec(
        lambda x: {
            "predictions": {"x": x, "matrix": tf.stack([x, -x], 1), "name": tf.as_string(x)}
        },
        size,
        num_towers,
        mode,
    )
    assert len(tensor["predictions"]) == len(nested["predictions"]) == len(expected(size))
    for rows, double, both in zip(expected(size), tensor["predictions"], nested["predictions"]):
        np.testing.assert_array_equal(double, 2 * rows)
        np.testing.assert_array_equal(both["x"], rows)
        np.testing.assert_array_equal(both["matrix"], np.stack([rows, -rows], axis=1))
        assert [float(name) for name in both["name"]] == rows.tolist()
    if mode == ModeKeys.EVAL:  # The mean of the whole batch, also if some towers have no row.
        np.testing.assert_allclose(tensor["loss"], [rows.mean() for rows in expected(size)])


@pytest.mark.parametrize("num_towers", [2, 8])
def test_scalar_predictions_stay_scalars(num_towers):
    seen = of_spec(lambda x: {"predictions": {"x": x, "constant": tf.constant(3.0)}}, 4, num_towers)
    assert [batch["constant"] for batch in seen["predictions"]] == [3.0, 3.0, 3.0]


def make_outputs(x):
    classes = tf.as_string(tf.stack([x, x + 1], axis=1))
    return {
        "both": export.ClassificationOutput(scores=tf.stack([x, -x], axis=1), classes=classes),
        "scores": export.ClassificationOutput(scores=tf.stack([x, -x], axis=1)),
        "classes": export.ClassificationOutput(classes=classes),
        "regression": export.RegressionOutput(3 * x),
        "predict": export.PredictOutput({"x": x, "square": x**2}),
        "serving_default": export.PredictOutput(x),
    }


@pytest.mark.parametrize("num_towers", [1, 2, 3, 8])
def test_export_outputs_are_concatenated(num_towers):
    def model_fn(features, labels, mode):
        outputs = make_outputs(features)
        return tf.estimator.EstimatorSpec(mode, predictions=features, export_outputs=outputs)

    rows = tf.constant(np.arange(5, dtype=np.float64))
    spec = contract.replicated(model_fn, num_towers)(rows, None, ModeKeys.PREDICT)
    fields = ("scores", "classes", "value", "outputs")

    def read(outputs):
        return {
            name: {f: getattr(o, f) for f in fields if getattr(o, f, None) is not None}
            for name, o in outputs.items()
        }

    config = replicate.session_config(contract.device_names(num_towers))
    with tf.Session(config=config) as session:
        got, want = session.run((read(spec.export_outputs), read(make_outputs(rows))))
    tf.nest.map_structure(np.testing.assert_array_equal, got, want)
    # Not stacked to (towers, rows of a tower, 2), as the 2018 library did.
    assert got["both"]["classes"].shape == (5, 2)
    assert type(spec.export_outputs["both"]) is export.ClassificationOutput


class UnknownOutput(export.ExportOutput):
    def as_signature_def(self, receiver_tensors):
        raise NotImplementedError


def by_tower(*values):
    return values[replicate.tower_index()]


@pytest.mark.parametrize(
    "make_fields, error, message",
    [
        (
            lambda x: {"predictions": {by_tower("a", "b"): x}},
            ValueError,
            r"same structure in `predictions`.*tower 0 returned .*'a'.* and tower 1 .*'b'",
        ),
        (
            lambda x: {"predictions": by_tower(x, {"x": x})},
            ValueError,
            r"`predictions`.*tower 0 returned a value and tower 1 .*'x'",
        ),
        (
            lambda x: {
                "predictions": x,
                "export_outputs": {by_tower("a", "b"): export.PredictOutput(x)},
            },
            ValueError,
            "same structure in `export_outputs`.*tower_index",
        ),
        (
            lambda x: {"predictions": x, "export_outputs": {"odd": UnknownOutput()}},
            TypeError,
            "`ClassificationOutput`, `RegressionOutput` or `PredictOutput`, but 'odd' is",
        ),
    ],
    ids=["keys", "dict_or_not", "export_outputs", "kind_of_output"],
)
def test_specs_that_cannot_be_merged(make_fields, error, message):
    with pytest.raises(error, match=message):
        of_spec(make_fields, 4, 2)


@pytest.mark.parametrize(
    "field, make",
    [
        ("loss", lambda x: {"loss": by_tower(tf.reduce_mean(x), None)}),
        (
            "eval_metric_ops",
            lambda x: {"eval_metric_ops": {by_tower("a", "b"): tf.metrics.mean(x)}},
        ),
    ],
)
def test_losses_and_metrics_that_differ(field, make):
    def model_fn(features, labels, mode):
        fields = {"loss": tf.reduce_mean(features), **make(features)}
        mode = ModeKeys.EVAL if fields["loss"] is not None else ModeKeys.PREDICT
        return tf.estimator.EstimatorSpec(mode, predictions=features, **fields)

    with pytest.raises(ValueError, match=f"same structure in `{field}`.*tower 0.*tower 1"):
        contract.replicated(model_fn, 2)(tf.constant([1.0, 2.0]), None, ModeKeys.EVAL)


@pytest.mark.parametrize("returned", [None, "a spec", {"loss": 1.0}])
def test_something_else_than_a_spec(returned):
    with pytest.raises(TypeError, match=r"must return a `tf.estimator.EstimatorSpec`.*in tower 0"):
        contract.replicated(lambda features: returned, 2)(tf.constant([1.0, 2.0]))
