"""A tower beyond the batch computes its last row once more, and that row counts nowhere."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
from replicate.layouts.layout import ALL, ANY, MAX, MEAN, MIN, PROD, SUM, Shard
from replicate.partition import Rows, meetings
from replicate.reduction import Reduction

DEVICES = contract.device_names(3)


def rows_of(counts, known):
    """Returns the `Rows` of towers with so many rows, known to the graph or not."""
    total = sum(counts)
    starts = [min(sum(counts[:i]), max(total - 1, 0)) for i in range(len(counts))]
    made = Rows(counts, total, starts, [max(count, min(total, 1)) for count in counts])
    if known:
        return made
    at_run_time = [
        tf.nest.map_structure(lambda entry: tf.identity(tf.constant(entry)), given)
        for given in (made.counts, made.total, made.starts, made.held)
    ]
    return Rows(*at_run_time)


def met(values, layout, counts, known):
    """Returns the whole of what towers have of one tensor."""
    with tf.Graph().as_default():
        own = tuple(tf.identity(tf.constant(value)) for value in values)
        rows = rows_of(counts, known)
        part = meetings.Part(tf.constant(values[0]), layout, None, own, DEVICES[0], rows)
        whole, _ = meetings.meet([part], rows, DEVICES, Reduction())
        (value,) = whole.values()
        with tf.Session() as session:
            return session.run(value)


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize(
    "layout, values, whole",
    [
        (SUM, [1.0, 2.0, np.nan], 3.0),
        (MEAN, [1.0, 2.5, np.nan], 1.5),
        (MAX, [1.0, 2.0, 9.0], 2.0),
        (MIN, [1.0, 2.0, -9.0], 1.0),
        (PROD, [2.0, 3.0, np.inf], 6.0),
        (MAX, [-5, -3, 9], -3),
        (ALL, [True, True, False], True),
        (ANY, [False, False, True], False),
        (Shard(0), [[1.0, 2.0], [3.0], [9.0]], [1.0, 2.0, 3.0]),
        (Shard(1), [[[b"a", b"b"]], [[b"c"]], [[b"z"]]], [[b"a", b"b", b"c"]]),
    ],
)
def test_a_meeting_leaves_them_out(layout, values, whole, known):
    np.testing.assert_array_equal(met(values, layout, [2, 1, 0], known), whole)


def test_a_batch_without_rows_is_that_of_tower_0():
    assert np.isnan(met([np.nan] * 3, MEAN, [0, 0, 0], known=False))
    assert met([-np.inf] * 3, MAX, [0, 0, 0], known=False) == -np.inf
    assert met([0.0, 7.0, 7.0], SUM, [0, 0, 0], known=False) == 0


def networks(features, labels, mode, params):
    """Layers whose kernels of single precision give a wrong shape where there are no rows."""
    image = features["image"]
    initializer = tf.glorot_uniform_initializer(seed=7)
    with tf.variable_scope(tf.get_variable_scope(), initializer=initializer):
        x = tf.layers.conv2d(image, 4, 3, activation=tf.nn.relu)
        depth = tf.get_variable("depth", [2, 2, 4, 1])
        x = tf.nn.depthwise_conv2d(x, depth, [1, 1, 1, 1], "VALID")
        y = tf.layers.conv3d(image[..., tf.newaxis], 2, 2, activation=tf.nn.relu)
        x = tf.layers.flatten(tf.layers.max_pooling2d(x, 2, 2))
        logits = tf.layers.dense(x, 1)[:, 0] + tf.reduce_mean(y, [1, 2, 3, 4])
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"logits": logits, "x": x})
    loss = tf.losses.mean_squared_error(labels, logits)
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    metrics = {"mean": tf.metrics.mean(logits), "largest": tf.metrics.mean(tf.reduce_max(logits))}
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=train_op, eval_metric_ops=metrics, predictions={"x": x}
    )


def batches_of(sizes, static):
    """Returns a function that makes the features and labels of batches of so many rows."""
    draw = np.random.RandomState(4)
    image = draw.randn(sum(sizes), 6, 6, 2).astype(np.float32)
    labels = image.mean((1, 2, 3)) + 1
    ends = np.cumsum(sizes)

    def rows():
        for start, end in zip([0, *ends[:-1]], ends):
            yield {"image": image[start:end]}, labels[start:end]

    size = sizes[0] if static else None

    def input_fn():
        kinds = ({"image": tf.float32}, tf.float32)
        shapes = ({"image": [size, 6, 6, 2]}, [size])
        return tf.data.Dataset.from_generator(rows, kinds, shapes)

    return input_fn


def trained(num_towers, sizes, static, folder):
    """Returns losses, variables, metrics and predictions of an Estimator."""
    model_fn, config = networks, tf.estimator.RunConfig(tf_random_seed=3, log_step_count_steps=None)
    if num_towers > 1:
        devices = contract.device_names(num_towers)
        model_fn = replicate.replicate_model_fn(networks, devices=devices)
        config = config.replace(session_config=replicate.session_config(devices))
    estimator = tf.estimator.Estimator(model_fn, str(folder), config)
    input_fn = batches_of(sizes, static)
    estimator.train(input_fn)
    variables = {
        name: estimator.get_variable_value(name) for name in estimator.get_variable_names()
    }
    metrics = estimator.evaluate(input_fn)
    return variables, metrics, list(estimator.predict(input_fn))


@pytest.mark.parametrize(
    "sizes, static", [((1, 1), True), ((2, 2), True), ((5, 1, 2), False), ((1, 4), False)]
)
def test_single_precision_has_fewer_rows_than_towers(sizes, static, tmp_path):
    one = trained(1, sizes, static, tmp_path / "one")
    three = trained(3, sizes, static, tmp_path / "three")
    for got, expected in zip(tf.nest.flatten(three), tf.nest.flatten(one)):
        np.testing.assert_allclose(got, expected, 2e-5, 1e-6)
