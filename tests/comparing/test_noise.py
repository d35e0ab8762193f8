"""Variables that rounding alone moves do not make a model different."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
from contract import device_names
from replicate.comparing import batches

ROWS = 11


def input_fn():
    draw = np.random.RandomState(5)
    features = draw.randn(3 * ROWS, 4)
    labels = draw.randn(3 * ROWS, 1)
    return tf.data.Dataset.from_tensor_slices((features, labels)).batch(ROWS)


def biased(features, labels, mode, params):
    """A layer with a bias before batch norm, which takes the bias away again."""
    net = tf.layers.dense(features, 6, name="layer")
    net = tf.layers.batch_normalization(net, training=mode == "train")
    loss = tf.losses.mean_squared_error(labels, tf.layers.dense(tf.tanh(net), 1))
    return trained(loss, mode, params["optimizer"])


def trained(loss, mode, optimizer, *updates):
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(train_op, *updates))


OPTIMIZERS = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "adam": lambda: tf.train.AdamOptimizer(0.01),
}


class Made(dict):
    """Params that make an optimizer for each graph."""

    def __getitem__(self, name):
        return OPTIMIZERS[super().__getitem__(name)]()


def compare(model_fn, **kwargs):
    return replicate.compare(model_fn, input_fn, devices=device_names(3), steps=3, **kwargs)


@pytest.mark.parametrize("optimizer", list(OPTIMIZERS))
def test_a_bias_before_batch_norm(optimizer, capsys):
    def model_fn(features, labels, mode):
        return biased(features, labels, mode, Made(optimizer=optimizer))

    made = compare(model_fn)
    assert made.equal and "layer/bias" in made.noise
    assert made.worst.what not in made.noise and made.worst.value < 1e-5
    found = {one.what: one for one in made.variables}
    assert found["layer/bias"].value > 1e-5, "it is no noise here"
    printed = capsys.readouterr().out
    assert printed.startswith("3 steps") and "\nEQUAL within 1e-05" in printed
    assert "moved by rounding alone" in printed
    assert made.as_dict()["noise"] == list(made.noise)


def test_a_variable_that_really_differs():
    """One that no loss shows, beside a bias that is noise."""

    def with_count(more):
        def model_fn(features, labels, mode):
            count = tf.get_variable("count", [], initializer=tf.zeros_initializer())
            spec = biased(features, labels, mode, Made(optimizer="sgd"))
            with tf.control_dependencies([count.assign_add(more)]):
                return spec._replace(train_op=tf.group(spec.train_op))

        return model_fn

    made = compare(with_count(1.0), original=with_count(2.0))
    assert not made.equal and "count" not in made.noise
    assert made.parted.what == "count"
    assert [one.what for one in made.variables if not one.passes] == ["count"]


@pytest.mark.parametrize("in_loss", [True, False])
def test_a_model_in_which_the_order_of_rows_matters(in_loss):
    """A state differs in reverse order, whatever the loss does; that is not rounding."""

    def with_state(more):
        def model_fn(features, labels, mode):
            last = tf.get_variable("last", [], tf.float64, tf.zeros_initializer(), trainable=False)
            weight = tf.get_variable("weight", [], tf.float64, tf.ones_initializer())
            loss = tf.reduce_mean(weight * (features[0] if in_loss else features))
            update = last.assign(features[-1, 0] * more)
            return trained(loss, mode, tf.train.GradientDescentOptimizer(0.1), update)

        return model_fn

    made = compare(with_state(1.0), original=with_state(2.0))
    assert not made.equal and not made.noise
    assert [one.what for one in made.variables if not one.passes] == ["last"]


def test_rows_of_tensors_of_several_sizes_come_in_reverse():
    features = {
        "rows": np.arange(2),
        "others": np.arange(4),
        "table": np.arange(3),
        "steps": np.arange(6).reshape(3, 2),
        "rate": np.float64(0.5),
    }
    data = (features, np.array([7.0, 8.0]))
    made = batches.read(
        lambda: tf.data.Dataset.from_tensors(data),
        "train",
        None,
        replicate.estimator.RunConfig(),
        1,
    )
    assert made.rows == (2,)
    with tf.Graph().as_default(), tf.Session() as session:
        got, labels = session.run(made.in_reverse().input_fn()())
    want = {
        "rows": [1, 0],
        "others": [2, 3, 0, 1],
        "table": [0, 1, 2],
        "steps": [[1, 0], [3, 2], [5, 4]],
        "rate": 0.5,
    }
    assert {name: value.tolist() for name, value in got.items()} == want
    assert labels.tolist() == [8.0, 7.0]
