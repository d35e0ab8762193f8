"""The eight ways in which the 2018 `replicate_model_fn` trained the wrong thing without saying so.

Unless said otherwise a model has one weight `w` = 0, float64, and is trained for one step of
gradient descent at learning rate 1, so that the weight afterwards is minus the gradient applied.
"""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate

pytestmark = pytest.mark.conformance


def train_once(model_fn, features, num_towers=2, labels=None, reduction=contract.MEAN):
    """Trains one step; returns the global variables after it, by name, and the loss."""
    batch = (features, labels if labels is not None else {})
    run = contract.record(
        contract.replicated(model_fn, num_towers, reduction),
        lambda: tf.data.Dataset.from_tensors(batch),
        params={},
        num_towers=num_towers,
    )
    return run.variables[0], run.losses[0]


def weight(shape=(), name="w"):
    return tf.get_variable(name, shape, tf.float64, tf.zeros_initializer())


def spec(mode, loss, train_op):
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def descent(**kwargs):
    return replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(1.0), **kwargs)


def minimize(mode, loss, **kwargs):
    return spec(mode, loss, descent(**kwargs).minimize(loss, tf.train.get_global_step()))


@pytest.mark.parametrize("kind", [list, tuple, iter, lambda pairs: (pair for pair in pairs)])
def test_1_an_iterator_of_gradients_keeps_all_towers_gradients(kind):
    def model_fn(features, labels, mode, params):
        w = weight()
        loss = tf.reduce_mean(features * w)
        pairs = kind(list(zip(tf.gradients(loss, [w]), [w])))
        return spec(mode, loss, descent().apply_gradients(pairs))

    # d/dw mean(x·w) = mean(x) = (2 + 6) / 2 = 4. The last tower's alone: 6 / 2 = 3.
    variables, _ = train_once(model_fn, np.array([2.0, 6.0]))
    assert variables["w:0"] == -4.0


@pytest.mark.parametrize("num_towers", [2, 4])
def test_2_total_loss_counts_each_towers_losses_once(num_towers):
    def model_fn(features, labels, mode, params):
        w = weight()
        tf.losses.add_loss(tf.reduce_mean(features * w))
        tf.losses.add_loss(3.0 * (w + 1.0) ** 2, tf.GraphKeys.REGULARIZATION_LOSSES)
        return minimize(mode, tf.losses.get_total_loss())

    # The loss is mean(x)·w + 3·(w + 1)² = 0 + 3 at w = 0, its gradient mean(x) + 6 = 2.5 + 6. With
    # earlier towers' losses counted again, 4 towers would weigh them 1, 3/4, 1/2 and 1/4.
    variables, loss = train_once(model_fn, np.array([1.0, 2.0, 3.0, 4.0]), num_towers)
    assert loss == 3.0
    assert variables["w:0"] == -8.5


def test_3_keras_layers_and_tf_variables_are_shared():
    def model_fn(features, labels, mode, params):
        dense = tf.keras.layers.Dense(
            1, use_bias=False, kernel_initializer="zeros", dtype="float64", name="d"
        )
        v = tf.Variable(np.float64(0.0), name="v")
        assert len(tf.trainable_variables()) == 1  # Keras makes its weight when it is called.
        loss = tf.reduce_mean(dense(features)) + tf.reduce_mean(features) * v
        assert [x.name for x in tf.trainable_variables()] == ["v:0", "d/kernel:0"]
        return minimize(mode, loss)

    # Both have the gradient mean(x) = (1 + 2 + 9) / 3 = 4, for which all rows are needed.
    variables, _ = train_once(model_fn, np.array([[1.0], [2.0], [9.0]]))
    assert sorted(variables) == ["d/kernel:0", "global_step:0", "v:0"]
    assert variables["d/kernel:0"] == variables["v:0"] == -4.0


# The momentum is 3/4, because TensorFlow rounds 1 − momentum to float32 even for float64 models.
def batch_norm_model_fn(features, labels, mode, params):
    w = weight()
    normalized = tf.layers.batch_normalization(features, momentum=0.75, training=True)
    loss = tf.reduce_mean(normalized) + w
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert len(updates) == 2  # Those of this tower: moving mean and variance.
    if labels["control_dependencies"]:
        with tf.control_dependencies(updates):
            return minimize(mode, loss)
    made = minimize(mode, loss)
    return made._replace(train_op=tf.group(made.train_op, updates))


@pytest.mark.parametrize("control_dependencies", [True, False])
@pytest.mark.parametrize(
    "rows, num_towers, mean, variance",
    [
        # The mean is 5: 0.75·0 + 0.25·5 = 1.25. The variance is 25: 0.75·1 + 0.25·25 = 7.
        ([0, 0, 10, 10], 2, 1.25, 7.0),
        # The mean is 23/5: 0.25·23/5 = 1.15. The variance is 161/5 − (23/5)², so
        # 0.75 + 0.25·(161/5 − 529/25) = 3.51.
        ([0, 6, 3, 10, 4], 2, 1.15, 3.51),
        # The mean is 5. The variance is (16 + 16 + 0)/3: 0.75 + 0.25·32/3 = 41/12.
        ([1, 9, 5], 3, 1.25, 41 / 12),
    ],
)
def test_4_batch_norm_is_updated_once_per_step(
    rows, num_towers, mean, variance, control_dependencies
):
    x = np.array(rows, np.float64)[:, None]

    def model_fn(features, labels, mode, params):
        flags = {"control_dependencies": control_dependencies}
        return batch_norm_model_fn(features, flags, mode, params)

    for _ in range(3):  # The old one gave another result from run to run.
        variables, _ = train_once(model_fn, x, num_towers)
        got = {name.split("/")[-1]: value for name, value in variables.items()}
        np.testing.assert_allclose(got["moving_mean:0"], [mean], rtol=1e-12)
        np.testing.assert_allclose(got["moving_variance:0"], [variance], rtol=1e-12)
        assert len(variables) == 6  # w, global step, and batch norm's gamma, beta, mean, variance.


@pytest.mark.parametrize(
    "rows, norm, update",
    [
        # The gradient is (20 − 4) / 2 = 8, clipped to 1. Clipping each tower's: (1 − 1) / 2 = 0.
        ([20.0, -4.0], 1.0, 1.0),
        # Three rows on two towers: (3 + 5 + 1) / 3 = 3, less than 4, though tower 0's is 4.
        ([3.0, 5.0, 1.0], 3.5, 3.0),
    ],
)
def test_5_clipping_acts_on_the_reduced_gradient(rows, norm, update):
    def model_fn(features, labels, mode, params):
        return minimize(mode, tf.reduce_mean(features * weight()), clip_norm=norm)

    variables, _ = train_once(model_fn, np.array(rows))
    np.testing.assert_allclose(variables["w:0"], -update, rtol=1e-12)


@pytest.mark.parametrize("num_towers", [2, 3])
def test_6_gradients_that_are_not_the_optimizers_are_averaged_likewise(num_towers):
    def model_fn(features, labels, mode, params):
        w, u = weight(), weight(name="u")
        loss = tf.reduce_mean(features * (w + u))
        by_tensorflow, by_hand = tf.gradients(loss, w)[0], tf.reduce_mean(features)
        return spec(mode, loss, descent().apply_gradients([(by_tensorflow, w), (by_hand, u)]))

    # mean(x) = (1 + 2 + 3 + 6) / 4 = 3; 2 or 3 times that without the weight of each tower.
    variables, _ = train_once(model_fn, np.array([1.0, 2.0, 3.0, 6.0]), num_towers)
    np.testing.assert_allclose([variables["w:0"], variables["u:0"]], -3.0, rtol=1e-12)


def test_7_a_tuple_of_features_is_split_along_the_rows():
    def model_fn(features, labels, mode, params):
        a, b = features
        assert (a.shape.as_list(), b.shape.as_list()) == ([2, 2], [2, 2])
        return minimize(mode, tf.reduce_mean(a * b) * weight())

    a, b = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 1.0], [2.0, 2.0]])
    # mean(a·b) = (1 + 2 + 6 + 8) / 4 = 4.25. Along the tuple, b of tower 0 would be missing.
    variables, _ = train_once(model_fn, (a, b))
    assert variables["w:0"] == -4.25


def test_8_evaluation_keeps_all_predictions_and_does_not_add_up_what_does_not_add_up():
    def model_fn(features, labels, mode, params):
        largest = tf.get_variable(
            "largest",
            initializer=np.float64(-np.inf),
            trainable=False,
            collections=[tf.GraphKeys.LOCAL_VARIABLES],
        )
        replicate.metrics.declare_merge(largest, lambda values: tf.reduce_max(values, axis=0))
        update = largest.assign(tf.maximum(largest, tf.reduce_max(features)))
        return tf.estimator.EstimatorSpec(
            mode,
            loss=tf.reduce_mean(features),
            predictions=features,
            eval_metric_ops={"largest": (tf.identity(largest), update)},
        )

    batch = np.array([1.0, 5.0])
    seen = contract.evaluate(
        contract.replicated(model_fn, 2), lambda: tf.data.Dataset.from_tensors((batch, {})), 2
    )
    # The towers' largest are 1 and 5: the larger is 5, their sum, as of old, 6.
    assert seen["largest"] == 5.0
    np.testing.assert_array_equal(seen["predictions"], [[1.0, 5.0]])
    assert seen["loss"] == [3.0]
