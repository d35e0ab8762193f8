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


class OtherOutput(export.ExportOutput):
    def as_signature_def(self, receiver_tensors):
        raise NotImplementedError


@pytest.mark.parametrize("per_tower", [False, True])
def test_export_outputs_of_another_kind_stay(per_tower):
    """They are for a SavedModel, whose graph has no towers."""
    other = OtherOutput()

    def model_fn(features, labels, mode):
        return tf.estimator.EstimatorSpec(mode, features, export_outputs={"odd": other})

    replicated = contract.replicated(model_fn, 2, per_tower=per_tower)
    assert replicated(tf.ones([4]), None, ModeKeys.PREDICT).export_outputs["odd"] is other


@pytest.mark.parametrize("returned", [None, "a spec", {"loss": 1.0}])
def test_something_else_than_a_spec(returned):
    with pytest.raises(TypeError, match=r"must return a `tf.estimator.EstimatorSpec`, but"):
        contract.replicated(lambda features: returned, 2)(tf.constant([1.0, 2.0]), None, "eval")


@pytest.mark.parametrize("per_tower", [False, True])
@pytest.mark.parametrize("num_towers", [2, 3])
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_the_loss_of_all_rows_has_a_name(mode, num_towers, per_tower):
    def model_fn(features, labels, mode):
        with tf.name_scope("model"):
            w = tf.get_variable("w", [], tf.float64, tf.ones_initializer())
            loss = tf.reduce_mean(features * w, name="loss")
            step = tf.train.get_or_create_global_step()
            optimizer = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.0))
            return tf.estimator.EstimatorSpec(
                mode, loss=loss, train_op=optimizer.minimize(loss, step)
            )

    rows = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
    with tf.Graph().as_default():
        fn = contract.replicated(model_fn, num_towers, per_tower=per_tower)
        fn(tf.constant(rows), None, mode)
        with tf.Session(config=contract.session_config(num_towers)) as session:
            session.run(tf.global_variables_initializer())
            np.testing.assert_allclose(session.run("replicate/loss:0"), rows.mean())
