"""Layers read their weights once per run, penalize them once, and compute what they say."""

import math
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search.rematlib import layers as lib
from nas_search import nas_layers

X = np.array([-9.0, -4.0, -2.0, -0.5, 0.0, 1.0, 3.0, 9.0])


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(
    ("layer", "function"),
    [
        (lib.Identity, lambda x: x),
        (lib.Zeros, lambda x: 0),
        (lib.ReLU, lambda x: max(x, 0)),
        (lib.ReLU6, lambda x: min(max(x, 0), 6)),
        (lib.Sigmoid, sigmoid),
        (lib.Swish, lambda x: x * sigmoid(x)),
        (lib.Swish6, lambda x: x * min(max(x + 3, 0), 6) / 6),
        (lib.ELU, lambda x: x if x > 0 else math.exp(x) - 1),
        (lambda: lib.MultiplyByConstant(0.5), lambda x: x / 2),
    ],
)
def test_elementwise_layers(layer, function, dtype):
    layer = layer()
    inputs = tf.constant(X.reshape([2, 2, 2, 1]), dtype)
    assert layer.build(inputs.shape).as_list() == [2, 2, 2, 1]
    outputs = layer.apply(inputs, training=False)
    assert outputs.dtype == dtype
    got = nas_layers.evaluate(tf.cast(outputs, tf.float64)).ravel()
    tolerance = {"bfloat16": 0.02, "float32": 1e-6, "float64": 1e-12}[dtype]
    np.testing.assert_allclose(got, list(map(function, X)), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("layer", "shape", "want"),
    [
        (lib.Zeros(), [3, 4, 6, 2], [3, 4, 6, 2]),
        (lib.Zeros([None, None, 5, 7]), [3, 4, 6, 2], [3, 4, 5, 7]),
        (lib.SpaceToDepth(2), [3, 4, 6, 2], [3, 2, 3, 8]),
        (lib.DepthPadding(5), [3, 4, 6, 2], [3, 4, 6, 5]),
        (lib.DepthPadding(2), [3, 4, 6, 2], [3, 4, 6, 2]),
        (lib.SpatialMasking(np.ones([4, 6])), [3, 4, 6, 2], [3, 4, 6, 2]),
        (lib.MaxPool(3, 2), [3, 5, 6, 2], [3, 3, 3, 2]),
        (lib.AveragePool([3, 1], [1, 2]), [3, 5, 7, 2], [3, 5, 4, 2]),
        (lib.GlobalAveragePool(), [3, 4, 6, 2], [3, 2]),
        (lib.GlobalAveragePool(keepdims=True), [3, 4, 6, 2], [3, 1, 1, 2]),
        (lib.Dropout(), [3, 4, 6, 2], [3, 4, 6, 2]),
        (lib.Conv2D(5, 3, strides=[2, 1]), [3, 5, 7, 2], [3, 3, 7, 5]),
        (lib.DepthwiseConv2D(5, strides=2), [3, 5, 7, 2], [3, 3, 4, 2]),
        (lib.Sequential([]), [3, 4, 6, 2], [3, 4, 6, 2]),
    ],
)
def test_shapes_are_known_before_layers_are_applied(layer, shape, want):
    assert layer.build(shape) == tf.TensorShape(want)
    assert layer.apply(tf.zeros(shape), training=True).shape == tf.TensorShape(want)
    assert layer.build([None, *shape[1:]]).as_list() == [None, *want[1:]]
    rows = tf.placeholder_with_default(np.zeros(shape, np.float32), [None, *shape[1:]])
    outputs = layer.apply(rows, training=True)
    assert outputs.shape.as_list() == [None, *want[1:]]
    assert list(nas_layers.evaluate(outputs).shape) == want


def test_pixels_become_channels():
    image = np.arange(8).reshape([1, 2, 4, 1])  # Two squares: 0 1 4 5 and 2 3 6 7.
    got = nas_layers.apply(lib.SpaceToDepth(2), image)
    np.testing.assert_array_equal(got, [[[[0, 1, 4, 5], [2, 3, 6, 7]]]])


def test_padding_masking_and_pools():
    image = np.array([[[[1.0], [5.0]], [[2.0], [4.0]]]], np.float32)
    padded = nas_layers.apply(lib.DepthPadding(3), image)
    np.testing.assert_array_equal(padded, np.concatenate([image, 0 * image, 0 * image], axis=3))
    masked = nas_layers.apply(lib.SpatialMasking([[1.0, 0.0], [0.0, 1.0]]), image)
    assert masked.ravel().tolist() == [1, 0, 0, 4]
    # The window of the last pixel has only that pixel inside, that of the first all four.
    assert nas_layers.apply(lib.MaxPool(2), image).ravel().tolist() == [5, 5, 4, 4]
    assert nas_layers.apply(lib.AveragePool(2), image).ravel().tolist() == [3, 4.5, 3, 4]
    assert nas_layers.apply(lib.GlobalAveragePool(), image).tolist() == [[3]]


def test_dropout_drops_in_training_only():
    image = np.ones([1, 100, 100, 1], np.float32)
    np.testing.assert_array_equal(nas_layers.apply(lib.Dropout(0.25), image), image)
    got = nas_layers.apply(lib.Dropout(0.25), image, training=True)
    assert set(np.unique(got)) == {0, np.float32(4 / 3)}
    # 10⁴ draws: the share of those kept has a standard deviation of 0.0043.
    assert np.mean(got > 0) == pytest.approx(0.75, abs=0.02)
    assert not nas_layers.apply(lib.Dropout(1), image, training=True).any()
    np.testing.assert_array_equal(nas_layers.apply(lib.Dropout(0), image, training=True), image)


def test_dropout_is_drawn_anew_in_each_run():
    layer = lib.Dropout()
    layer.build([1, 10, 10, 1])
    first, second = (layer.apply(tf.ones([1, 10, 10, 1]), training=True) for _ in range(2))
    with nas_layers.session() as session:
        runs = [*session.run([first, second]), session.run(first)]
    assert len({run.tobytes() for run in runs}) == 3


def test_a_sequence_has_outputs_of_layers_in_between():
    double, half = lib.MultiplyByConstant(2.0), lib.MultiplyByConstant(0.5)
    x = tf.constant([3.0])
    assert nas_layers.apply(lib.Sequential([double, double, half]), x).item() == 6
    output, aux = nas_layers.apply(lib.Sequential([double, half, double], [half, double]), x)
    assert [output, *aux] == [6, 3, 6]  # `double` comes twice; its later output counts.
    assert nas_layers.apply(lib.Sequential([double], []), x) == (6, [])


def test_parallel_layers_broadcast():
    x = tf.constant([1.0, 3.0], shape=[1, 2, 1, 1])
    branches = [lib.MultiplyByConstant(3.0), lib.GlobalAveragePool(keepdims=True), lib.Identity()]
    # x is 1 and 3, its mean 2: 3x + 2 + x and 3x · 2 · x.
    assert nas_layers.apply(lib.ParallelSum(branches), x).ravel().tolist() == [6, 14]
    assert nas_layers.apply(lib.ParallelProduct(branches), x).ravel().tolist() == [6, 54]
    assert lib.ParallelSum(branches).build([None, 2, 1, 1]).as_list() == [None, 2, 1, 1]


def conv(filters=1, **kwargs):
    return lib.Conv2D(filters, 1, kernel_regularizer=tf.reduce_sum, **kwargs)


def test_variables_are_made_once_with_names_of_their_own():
    shared = conv(2)
    layer = lib.Sequential(
        [shared, shared, lib.DepthwiseConv2D(3), lib.Swish6(), conv(use_bias=True)]
    )
    other = lib.Sequential([conv()])
    with tf.variable_scope("model"):
        layer.build([None, 4, 4, 2])
        layer.build([3, 8, 8, 2])
        made = tf.global_variables()
        other.build([None, 4, 4, 2])
    assert [variable.name for variable in layer.trainable_variables()] == [
        "model/sequential/conv2d/kernel:0",
        "model/sequential/depthwise_conv2d/depthwise_kernel:0",
        "model/sequential/conv2d_1/kernel:0",
        "model/sequential/conv2d_1/bias:0",
    ]
    assert layer.trainable_variables() == made
    assert {variable.dtype for variable in made} == {tf.float32}
    assert other.trainable_variables()[0].name == "model/sequential_1/conv2d/kernel:0"


def test_each_run_reads_each_weight_once():
    layer = lib.Sequential([conv(2), lib.ParallelSum([conv(2), conv(2)])])
    x = tf.ones([1, 1, 1, 2])
    layer.build(x.shape)

    def reads():
        return [op for op in tf.get_default_graph().get_operations() if op.type == "ReadVariableOp"]

    before = len(reads())
    layer.apply(x, training=True)
    tensors = layer.trainable_tensors()
    layer.regularization_loss()
    assert len(reads()) - before == len(tensors) == 3
    layer.apply(x, training=True)
    assert len(reads()) - before == 6
    assert not set(map(id, tensors)) & set(map(id, layer.trainable_tensors()))


def test_a_run_sees_the_updates_that_it_waits_for(fresh_graph):
    layer = conv(kernel_initializer=tf.ones_initializer())
    x = tf.ones([1, 1, 1, 1])
    layer.build(x.shape)
    (weight,) = layer.trainable_variables()
    first, first_penalty = layer.apply(x, training=True), layer.regularization_loss()
    with tf.control_dependencies([first, first_penalty]):
        update = weight.assign(5 * first)
    with tf.control_dependencies([update]):
        second, second_penalty = layer.apply(x, training=True), layer.regularization_loss()
    fetches = [first, second, first_penalty, second_penalty]
    assert [value.item() for value in nas_layers.evaluate(fetches)] == [1, 5, 1, 5]


def test_penalties_count_each_weight_once_and_have_gradients():
    shared, other = conv(2), conv(2, use_bias=True)
    layer = lib.Sequential([shared, lib.ParallelSum([shared, other, lib.Sequential([shared])])])
    layer.build([1, 1, 1, 2])
    # Before any run it reads the weights itself.
    penalties = [layer.regularization_loss(), other.regularization_loss()]
    layer.apply(tf.ones([1, 1, 1, 2]), training=True)
    penalties.append(layer.regularization_loss())
    gradients = tf.gradients(penalties[-1], layer.trainable_variables())
    assert gradients[2] is None  # the bias
    with nas_layers.session() as session:
        nas_layers.randomize(session, layer.trainable_variables())
        kernels = [session.run(each.weight("kernel").variable).sum() for each in (shared, other)]
        want = [sum(kernels), kernels[1], sum(kernels)]
        np.testing.assert_allclose(session.run(penalties), want, rtol=1e-6)
        for gradient in session.run(gradients[:2]):
            np.testing.assert_array_equal(gradient, np.ones([1, 1, 2, 2]))


def test_layers_without_weights_have_no_penalty():
    layer = lib.Sequential([lib.ReLU()])
    layer.build([1, 2])
    assert layer.trainable_variables() == layer.trainable_tensors() == layer.updates() == []
    assert nas_layers.apply(layer, [[1.0, 2.0]]).tolist() == [[1, 2]]
    with tf.Session() as session:
        assert session.run(layer.regularization_loss()) == 0


class Bare(lib.Layer):
    """Defines nothing."""


class BareCombination(lib.ParallelSum.__mro__[1]):
    """Does not say how to combine."""


BAD = {
    "not_built": (
        lambda: lib.ReLU().apply(tf.zeros([1, 2]), True),
        "ReLU was not built for inputs of shape (1, 2). Call `layer.build(inputs.shape)`.",
    ),
    "other_channels": (
        lambda: [layer.build([1, 1, 1, n]) for layer in [conv()] for n in (2, 3)],
        "must keep its weights' shapes, but conv2d/kernel:0 has (1, 1, 2, 1) and would need "
        "[1, 1, 3, 1]. Use another layer",
    ),
    "aux": (
        lambda: lib.Sequential([lib.ReLU()], [lib.ReLU()]),
        "`aux_outputs` must be among the layers of the Sequential",
    ),
    "broadcast": (
        lambda: lib.ParallelSum([lib.Identity(), lib.MaxPool(2, 2)]).build([1, 4, 4, 1]),
        "are (1, 4, 4, 1) and (1, 2, 2, 1). Give the layers the same strides",
    ),
    "ranks": (
        lambda: lib.ParallelSum([lib.Identity(), lib.GlobalAveragePool()]).build([1, 4, 4, 1]),
        "Shapes must be of one rank, with sizes that are equal or 1, but are (1, 4, 4, 1)",
    ),
    "zeros": (
        lambda: lib.Zeros([None, 3]).build([1, 4, 4, 1]),
        "`output_shape` must have as many axes as the inputs, of shape (1, 4, 4, 1), but is [None",
    ),
    "space_to_depth": (
        lambda: lib.SpaceToDepth(2).build([1, 4, 5, 1]),
        "`block` must divide height and width of the inputs, of shape (1, 4, 5, 1), but is 2.",
    ),
    "depth_padding": (
        lambda: lib.DepthPadding(2).build([1, 4, 4, 3]),
        "at least the number of channels of the inputs, 3, but is 2.",
    ),
    "spatial_masking": (
        lambda: lib.SpatialMasking(np.ones([4, 3])).build([1, 4, 4, 3]),
        "the height and width of the inputs, (4, 4), but has (4, 3).",
    ),
    "dropout": (lambda: lib.Dropout(1.5), "`rate` must lie in [0, 1], but is 1.5"),
    "setup": (lambda: Bare().build([1]), "Bare must define `_setup`"),
    "call": (lambda: Bare()._call(None, None), "Bare must define `_call`"),
    "combine": (
        lambda: BareCombination([lib.Identity()])._combine(None, None),
        "BareCombination must define `_combine`",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_is_refused(case):
    make, message = BAD[case]
    with pytest.raises((ValueError, NotImplementedError), match=re.escape(message)):
        make()
