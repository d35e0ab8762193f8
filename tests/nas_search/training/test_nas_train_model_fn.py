"""The graph of a network that is trained alone: its loss, its update, and what padding counts."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search.training import train_model_fn

TRAIN, EVAL = tf.estimator.ModeKeys.TRAIN, tf.estimator.ModeKeys.EVAL
PARAMS = {
    "ssd": "digits_search",
    "indices": "0:0:0:0:0:1:0:0:0:0:0:1:0:0",
    "filters_multiplier": 1.0,
    "path_dropout_rate": 0.0,
    "dropout_rate": 0.0,
    "weight_decay": 0.0,
    "num_classes": 10,
    "learning_rate": 0.5,
    "momentum": 0.9,
    "max_global_step": 10,
    "warmup_steps": 0,
    "use_tpu": False,
    "use_bfloat16": False,
}
RANDOM = np.random.RandomState(1)
IMAGES = RANDOM.rand(6, 8, 8, 1).astype(np.float32)
LABELS = np.eye(10, dtype=np.float32)[[3, 1, 4, 1, 5, 9]]


def build(mode, images=IMAGES, labels=LABELS, **changes):
    """Returns the spec of a network; all of a test have the same weights."""
    tf.train.get_or_create_global_step()
    with tf.variable_scope("net", reuse=tf.AUTO_REUSE):
        return train_model_fn.model_fn(
            tf.constant(images), tf.constant(labels), mode, {**PARAMS, **changes}
        )


def session():
    made = tf.Session()
    made.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    return made


def variables(*parts):
    """Returns the global variables whose names contain one of the `parts`."""
    return [v for v in tf.global_variables() if any(part in v.name for part in parts)]


def test_the_loss_is_smoothed_cross_entropy_and_penalty():
    losses = [build(EVAL, weight_decay=rate).loss for rate in (0.0, 4.0)]
    probabilities = build(tf.estimator.ModeKeys.PREDICT).predictions["probabilities"]
    kernels = [v for v in tf.trainable_variables() if v.shape.rank == 4]
    assert kernels[-1].shape == [1, 1, 32, 10]  # the classifier's, which is not penalized
    with session() as sess:
        without, with_penalty = sess.run(losses)
        squares = sum(np.sum(kernel**2) for kernel in sess.run(kernels[:-1]))
        log_p = np.log(sess.run(probabilities))
    smoothed = 0.9 * LABELS + 0.1 / 10
    assert without == pytest.approx(-np.mean(np.sum(smoothed * log_p, axis=1)), rel=1e-5)
    assert with_penalty - without == pytest.approx(4.0 / 2 * squares, rel=1e-5)


def test_the_first_update_is_that_of_rmsprop():
    spec = build(TRAIN)
    bias = tf.trainable_variables()[-1]
    assert bias.shape == [10]
    (gradient,) = tf.gradients(spec.loss, [bias])
    with session() as sess:
        before, g = sess.run([bias, gradient])
        sess.run(spec.train_op)
        after = sess.run(bias)
        assert sess.run(tf.train.get_global_step()) == 1
    # Mean squares start at 1: 0.9 · 1 + 0.1 · g². Epsilon is 1, the learning rate at its peak.
    assert np.max(np.abs(g)) > 0.01
    np.testing.assert_allclose(after, before - 0.5 * g / np.sqrt(0.9 + 0.1 * g**2 + 1), rtol=1e-5)


def test_training_moves_the_moving_statistics():
    spec = build(TRAIN)
    with session() as sess:
        sess.run(spec.train_op)
        moving = sess.run(variables("moving_variance"))
    assert len(moving) == 8  # of stem, three in each of two bottlenecks, and head
    # From 1 by a hundredth of the way to the variance of the batch, which is at least 0.
    for value in moving:
        assert np.all(value >= 0.99 - 1e-6)
        assert np.any(value != 1)


@pytest.mark.parametrize(("rate", "varies"), [(0.0, False), (0.5, True)])
def test_dropout_is_for_training_alone(rate, varies):
    losses = {mode: build(mode, dropout_rate=rate).loss for mode in (TRAIN, EVAL)}
    with session() as sess:
        seen = {mode: {float(sess.run(loss)) for _ in range(4)} for mode, loss in losses.items()}
    assert (len(seen[TRAIN]) > 1) == varies
    assert len(seen[EVAL]) == 1


def test_padding_counts_for_nothing():
    padded = np.concatenate([IMAGES, np.ones([3, 8, 8, 1], np.float32)])
    labels = np.concatenate([LABELS, np.zeros([3, 10], np.float32)])
    specs = [build(EVAL), build(EVAL, padded, labels)]
    with session() as sess:
        sess.run([spec.eval_metric_ops for spec in specs])
        measured = [
            sess.run({name: value for name, (value, _) in spec.eval_metric_ops.items()})
            for spec in specs
        ]
        np.testing.assert_allclose(*sess.run([spec.loss for spec in specs]), rtol=1e-5)
    assert measured[0] == pytest.approx(measured[1], rel=1e-5)
    assert measured[0]["num_images"] == 6


@pytest.mark.parametrize("mode", [TRAIN, EVAL])
def test_on_tpus_rows_come_last_and_metrics_are_made_on_the_host(mode):
    usual = build(mode)
    images = np.transpose(IMAGES, [1, 2, 3, 0])
    given = {"use_tpu": True, "tpu_iterations_per_loop": 1, "checkpoint_dir": "nowhere"}
    spec = build(mode, images, **given)
    assert type(spec).__name__ == "TPUEstimatorSpec"
    with session() as sess:
        np.testing.assert_allclose(*sess.run([usual.loss, spec.loss]), rtol=1e-5)
    if mode == EVAL:
        metrics, tensors = spec.eval_metrics
        assert set(metrics(*tensors)) == set(usual.eval_metric_ops)


def test_bfloat16_is_for_what_is_inside():
    spec = build(EVAL, use_bfloat16=True)
    assert spec.loss.dtype == tf.float32
    assert {v.dtype.base_dtype for v in tf.trainable_variables()} == {tf.float32}
    convolutions = [op for op in tf.get_default_graph().get_operations() if op.type == "Conv2D"]
    assert {op.outputs[0].dtype for op in convolutions} == {tf.bfloat16}
