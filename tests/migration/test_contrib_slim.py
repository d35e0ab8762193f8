"""tf-slim in the place of `tf.contrib`'s layers: the numbers and names that TensorFlow 1.15.5 has.

There, the real `tf.contrib` computes them, and elsewhere tf-slim, with what it is lent.
"""

import importlib
import importlib.util
import sys
import zlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import versions

pytestmark = [pytest.mark.conformance, pytest.mark.filterwarnings("ignore")]


def contrib(name):
    return importlib.import_module(f"tensorflow.contrib.{name}")


def images():
    return tf.constant(np.linspace(-1, 1, 384).reshape(2, 8, 8, 3), tf.float32)


def glorot():
    return {"weights_initializer": tf.glorot_uniform_initializer(seed=1)}


def normalized(fused):
    norm = {"is_training": True, "fused": fused, "scale": True}
    layers = contrib("layers")
    return layers.conv2d(
        images(), 4, 3, normalizer_fn=layers.batch_norm, normalizer_params=norm, **glorot()
    )


def at_once():
    given = {"updates_collections": None, "is_training": True, "zero_debias_moving_mean": True}
    return contrib("layers").batch_norm(images(), **given)


def scoped():
    slim = contrib("slim")
    penalty = slim.l2_regularizer(0.1)
    with slim.arg_scope([slim.conv2d], weights_regularizer=penalty, **glorot()):
        slim.repeat(images(), 2, slim.conv2d, 4, 3)
    return contrib("losses").get_regularization_losses()


def rows():
    return tf.reshape(images(), [2, -1])


def confusion():
    predicted, truth = tf.constant([[0.3], [0.6]]), tf.constant([[1.0], [0.0]])
    metrics = contrib("metrics")
    return [
        metrics.cohen_kappa(tf.constant([1, 0, 1]), tf.constant([1, 0, 0]), 2)[1],
        metrics.streaming_covariance(predicted, truth)[1],
        metrics.f1_score(truth, predicted)[1],
        metrics.streaming_concat(predicted)[1],
        metrics.count(predicted)[1],
    ]


def losses():
    predicted, truth = tf.constant([[0.3], [0.6]]), tf.constant([[1.0], [0.0]])
    made = contrib("losses")
    one = [made.log_loss(predicted, truth), made.cosine_distance(predicted, truth, 0)]
    metric = made.metric_learning
    return [
        *one,
        made.get_total_loss(),
        metric.triplet_semihard_loss([1, 1], rows()),
        metric.npairs_loss([1, 2], rows(), rows()),
    ]


def optimized():
    w = tf.get_variable("w", initializer=[1.0, 2.0])
    step = tf.train.get_or_create_global_step()
    layers = contrib("layers")
    loss = layers.optimize_loss(tf.reduce_sum(w**2), step, 0.1, "SGD", clip_gradients=0.5)
    with tf.control_dependencies([loss]):
        return loss, w.read_value()


def trained():
    slim = contrib("slim")
    w = tf.get_variable("w", initializer=[1.0, 2.0])
    table = tf.get_variable("table", initializer=[[1.0], [2.0]])
    loss = tf.reduce_sum(w**2) + tf.reduce_sum(tf.nn.embedding_lookup(table, [1]))
    op = slim.learning.create_train_op(
        loss,
        tf.train.GradientDescentOptimizer(0.1),
        clip_gradient_norm=0.5,
        gradient_multipliers={w: 2.0},
        summarize_gradients=True,
    )
    with tf.control_dependencies([op]):
        return w.read_value(), table.read_value()


def local():
    return contrib("framework").local_variable([1.0, 2.0], name="q")


def normalizations():
    layers = contrib("layers")
    return [
        layers.layer_norm(rows()),
        layers.instance_norm(images()),
        layers.group_norm(tf.concat([images()] * 2, 3), 2),
        layers.unit_norm(rows(), 1),
        layers.softmax(rows()),
        layers.spatial_softmax(images()),
    ]


# The function that makes each, the sums of absolute values, and a sum over the variables' names.
ROWS = {
    "batch norm, fused": (lambda: normalized(None), [182.521], 2385230173),
    "batch norm": (lambda: normalized(False), [182.521], 2385230173),
    "batch norm at once": (at_once, [332.069], 1999186636),
    "scope": (scoped, [0.157, 0.173], 4038014424),
    "fully connected": (
        lambda: contrib("layers").fully_connected(rows(), 3, **glorot()),
        [1.666],
        696034612,
    ),
    "linear": (lambda: contrib("layers").linear(rows(), 3, **glorot()), [2.923], 696034612),
    "separable": (
        lambda: contrib("layers").separable_conv2d(images(), 4, 3, 1, **glorot()),
        [23.511],
        897680293,
    ),
    "transposed": (
        lambda: contrib("layers").conv2d_transpose(images(), 4, 3, 2, **glorot()),
        [217.283],
        2615417690,
    ),
    "pooled": (
        lambda: contrib("slim").max_pool2d(contrib("slim").avg_pool2d(images(), 2), 2),
        [12.031],
        0,
    ),
    "maxout": (lambda: contrib("layers").maxout(rows(), 4), [4.01], 0),
    "one hot": (lambda: contrib("slim").one_hot_encoding([1, 2], 3), [2.0], 0),
    "normalizations": (normalizations, [332.558, 332.592, 665.113, 24.0, 2.0, 1.25], 935730976),
    "confusion": (confusion, [0.4, 0.15, 0.667, 2.0, 2.0], 458476225),
    "losses": (losses, [1.06, 0.7, 1.76, 194.004, 0.064], 0),
    "optimize_loss": (optimized, [5.0, 2.933], 3142703632),
    "create_train_op": (trained, [2.933, 2.95], 4062527662),
    "local variable": (local, [3.0], 2835494304),
}
# How many variables there are, and a sum over their names and shapes.
NETS = {
    "vgg.vgg_16": (32, 636764064),
    "inception.inception_v1": (116, 3945188867),
    "resnet_v1.resnet_v1_50": (108, 4223560992),
    "resnet_v2.resnet_v2_50": (159, 2265999007),
    "alexnet.alexnet_v2": (16, 918149969),
    "overfeat.overfeat": (16, 3349672661),
}


@pytest.mark.parametrize("name", ROWS)
def test_layers_have_the_numbers_and_names_of_1_15(name):
    make, sums, names = ROWS[name]
    with tf.Session() as session:
        made = make()
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        values = session.run(tf.nest.flatten(made))
    np.testing.assert_allclose([np.abs(value).sum() for value in values], sums, atol=1e-3)
    assert checksum(tf.global_variables() + tf.local_variables(), "{0.name}") == names


@pytest.mark.parametrize("name", NETS)
def test_networks_have_the_variables_of_1_15(name):
    module, function = name.split(".")
    size = 231 if module == "overfeat" else 224
    network = getattr(getattr(contrib("slim.nets"), module), function)
    network(tf.zeros([1, size, size, 3]), 10)
    variables = tf.global_variables()
    assert (len(variables), checksum(variables, "{0.name}{1}")) == NETS[name]


def checksum(variables, text):
    parts = sorted(text.format(one, one.shape.as_list()) for one in variables)
    return zlib.crc32(" ".join(parts).encode())


@pytest.mark.skipif(versions.IS_1, reason="tf-slim lacks nothing there")
def test_tensorflow_itself_stays_as_it_is():
    """Other modules do not get the names that tf-slim is lent."""
    contrib("slim").conv2d  # noqa: B018
    lent = sys.modules["tf_slim.metrics.metric_ops"].control_flow_ops
    assert lent.cond is tf.cond and "cond" in dir(lent)
    assert lent.no_op is importlib.import_module(lent.__name__).no_op
    assert "cond" not in vars(importlib.import_module(lent.__name__))
