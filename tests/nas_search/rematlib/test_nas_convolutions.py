"""Convolutions, their masks, and batch normalization, against plain arithmetic."""

import itertools
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search.rematlib import layers as lib
from nas_search import nas_layers

IMAGES = nas_layers.images(2, 5, 6, 3)


def correlate(images, kernel, before, strides, dilation, sides):
    """Slides a kernel [height, width, inputs, outputs] over images, slowly."""
    height, width, _, filters = kernel.shape
    padded = np.pad(images, [(0, 0), (before[0], 99), (before[1], 99), (0, 0)])
    result = np.zeros([len(images), *sides, filters])
    for y, x, i, j in itertools.product(*map(range, (*sides, height, width))):
        pixel = padded[:, y * strides + i * dilation, x * strides + j * dilation]
        result[:, y, x] += pixel @ kernel[i, j]
    return result


def windows():
    for kernel_size, strides, dilation, explicit in itertools.product(
        (1, 2, 3), (1, 2), (1, 2), (False, True)
    ):
        if strides == 1 or dilation == 1:
            yield kernel_size, strides, dilation, explicit


@pytest.mark.parametrize(("kernel_size", "strides", "dilation", "explicit"), list(windows()))
@pytest.mark.parametrize("depthwise", [False, True])
def test_convolutions(kernel_size, strides, dilation, explicit, depthwise):
    window = {"strides": strides, "dilation_rates": dilation, "use_explicit_padding": explicit}
    if depthwise:
        layer = lib.DepthwiseConv2D(kernel_size, **window)
    else:
        layer = lib.Conv2D(4, kernel_size, use_bias=True, **window)
    layer.build(IMAGES.shape)
    outputs = layer.apply(tf.constant(IMAGES), training=True)
    with nas_layers.session() as session:
        nas_layers.randomize(session, layer.trainable_variables())
        got, values = session.run([outputs, layer.trainable_variables()])
    extent = dilation * (kernel_size - 1)
    sides = [-(-side // strides) for side in IMAGES.shape[1:3]]
    if explicit:
        before = [extent // 2] * 2
    else:  # SAME of TensorFlow: as much padding as the last window needs, half of it first.
        padding = [
            max((count - 1) * strides + extent + 1 - side, 0)
            for count, side in zip(sides, IMAGES.shape[1:3])
        ]
        before = [each // 2 for each in padding]
    kernel = values[0]
    if depthwise:  # the full kernel that does the same
        kernel = kernel * np.eye(3)
    want = correlate(IMAGES, kernel, before, strides, dilation, sides)
    np.testing.assert_allclose(got, want + (0 if depthwise else values[1]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_weights_are_cast_to_the_type_of_the_images(dtype):
    layer = lib.Sequential(
        [
            lib.Conv2D(4, 3, use_bias=True),
            lib.BatchNorm(epsilon=0.001, stateful=False),
            lib.DepthwiseConv2D(3),
        ]
    )
    layer.build(IMAGES.shape)
    exact = layer.apply(tf.constant(IMAGES), training=True)
    outputs = layer.apply(tf.cast(IMAGES, dtype), training=True)
    assert outputs.dtype == dtype
    variables = layer.trainable_variables()
    gradients = tf.gradients(tf.cast(outputs, tf.float32) ** 2, variables)
    wants = tf.gradients(exact**2, variables)
    assert {gradient.dtype for gradient in gradients} == {tf.float32}
    with nas_layers.session() as session:
        nas_layers.randomize(session, variables)
        got, want = session.run([[tf.cast(outputs, tf.float32), *gradients], [exact, *wants]])
    tolerance = {"float64": 1e-3, "bfloat16": 0.05}[dtype]
    for a, b in zip(got, want):
        np.testing.assert_allclose(
            a, b, atol=tolerance * np.abs(want[0]).max() * 10, rtol=tolerance
        )


class FirstChannels(lib.Layer):
    """Leaves the first channels, a number that is a tensor."""

    def __init__(self, count):
        super().__init__()
        self._count = count

    def _setup(self, input_shape):
        return input_shape

    def _call(self, inputs, run):
        return tf.slice(inputs, [0] * 4, tf.stack([-1, -1, -1, self._count]))


@pytest.mark.parametrize("counts_are_told", [False, True])
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 2), (2, 4), (3, 4), (3, 1)])
def test_masked_layers_are_those_of_a_part_of_the_kernel(inputs, outputs, counts_are_told):
    """A mask of a choices' width leaves the first channels; the others are 0, or not there."""
    input_mask = lib.create_mask([1, 2, 3], inputs - 1)
    output_mask = lib.create_mask([2, 4, 1], [2, 4, 1].index(outputs))
    square = {"kernel_regularizer": tf.nn.l2_loss}
    counts, count = None, None
    if counts_are_told:
        counts = [tf.constant(inputs), tf.constant(outputs)]
        count = counts[1]
    conv = lib.MaskedConv2D(3, input_mask, output_mask, counts, strides=2, use_bias=True, **square)
    depthwise = lib.MaskedDepthwiseConv2D(
        3, output_mask, count, depthwise_regularizer=tf.nn.l2_loss
    )
    norm = lib.MaskedStatelessBatchNorm(output_mask, epsilon=0.5, count=count)
    first = [FirstChannels(counts[0])] if counts_are_told else []
    masked = lib.Sequential([*first, conv, depthwise, norm])
    plain = lib.Sequential(
        [
            lib.Conv2D(outputs, 3, strides=2, use_bias=True, **square),
            lib.DepthwiseConv2D(3, depthwise_regularizer=tf.nn.l2_loss),
            lib.BatchNorm(epsilon=0.5, stateful=False),
        ]
    )
    masked.build(IMAGES.shape)
    plain.build([*IMAGES.shape[:3], inputs])
    x = tf.constant(IMAGES)  # No zeros in the channels out of use: the kernel is masked as well.
    fetches = []
    for layer, images in ((masked, x), (plain, x[..., :inputs])):
        y = layer.apply(images, training=True)
        loss = tf.reduce_sum(tf.sin(y)) + layer.regularization_loss()
        gradients = tf.gradients(loss, layer.trainable_variables())
        fetches.append([y, layer.regularization_loss(), gradients])
    with nas_layers.session() as session:
        nas_layers.randomize(session, masked.trainable_variables())
        full = session.run(masked.trainable_variables())
        parts = [
            tuple(slice(size) for size in variable.shape.as_list())
            for variable in plain.trainable_variables()
        ]
        values = [value[part] for value, part in zip(full, parts)]
        keys = [variable.ref() for variable in plain.trainable_variables()]
        nas_layers.load(session, dict(zip(keys, values)))
        got, want = session.run(fetches)
    np.testing.assert_allclose(got[0][..., :outputs], want[0], rtol=1e-4, atol=1e-5)
    assert got[0].shape[3] == (outputs if counts_are_told else 4)
    assert not got[0][..., outputs:].any()
    assert got[1] == pytest.approx(want[1], rel=1e-5)
    for a, b, part in zip(got[2], want[2], parts):
        np.testing.assert_allclose(a[part], b, rtol=1e-3, atol=1e-4)
        a[part] = 0
        assert not a.any()  # Unused parts get no gradient.


def test_an_input_mask_can_be_left_out():
    layer = lib.MaskedConv2D(
        1, None, tf.constant([1.0, 0.0]), kernel_initializer=tf.ones_initializer()
    )
    got = nas_layers.apply(layer, IMAGES)
    np.testing.assert_allclose(got[..., 0], IMAGES.sum(axis=3), rtol=1e-5)
    assert not got[..., 1].any()


@pytest.mark.parametrize(
    ("epsilon", "dtype"), [(0.25, "float32"), (0.25, "float64"), (0, "float32")]
)
def test_batch_norm_by_the_batch(epsilon, dtype):
    """With the fused operation, and without it where that could not do it."""
    layer = lib.BatchNorm(epsilon=epsilon, stateful=False)
    layer.build(IMAGES.shape)
    results = [layer.apply(tf.cast(IMAGES, dtype), training) for training in (True, False)]
    with nas_layers.session() as session:
        nas_layers.randomize(session, layer.trainable_variables())
        (gamma, beta), got = session.run([layer.trainable_variables(), results])
    mean, variance = IMAGES.mean((0, 1, 2)), IMAGES.var((0, 1, 2))
    want = (IMAGES - mean) / np.sqrt(variance + epsilon) * gamma + beta
    np.testing.assert_allclose(got[0], want, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(got[0], got[1])
    assert layer.updates() == []


@pytest.mark.parametrize("epsilon", [0.25, 1e-12])
def test_batch_norm_by_moving_averages(epsilon):
    layer = lib.BatchNorm(epsilon=epsilon, momentum=0.75)
    layer.build(IMAGES.shape)
    x = tf.constant(IMAGES)
    trained = layer.apply(x, training=True)
    updates = layer.updates()
    assert len(updates) == 2
    evaluated = layer.apply(x, training=False)
    assert layer.updates() == updates
    assert tf.get_collection(tf.GraphKeys.UPDATE_OPS) == updates
    moving = [layer.weight(name).variable for name in ("moving_mean", "moving_variance")]
    assert not any(variable.trainable for variable in moving)
    assert {variable.synchronization for variable in moving} == {tf.VariableSynchronization.ON_READ}
    mean, variance = IMAGES.mean((0, 1, 2)), IMAGES.var((0, 1, 2))
    unbiased = variance * 60 / 59  # of 2 · 5 · 6 pixels
    with nas_layers.session() as session:
        batch = session.run(trained)
        np.testing.assert_allclose(batch, (IMAGES - mean) / np.sqrt(variance + epsilon), rtol=1e-3)
        for _ in range(2):
            session.run(updates)
        # From 0 and 1, two steps that keep 0.75 each.
        got_mean, got_variance = session.run(moving)
        np.testing.assert_allclose(got_mean, (1 - 0.75**2) * mean, rtol=1e-4)
        want_variance = 0.75**2 + (1 - 0.75**2) * unbiased
        np.testing.assert_allclose(got_variance, want_variance, rtol=1e-4)
        want = (IMAGES - got_mean) / np.sqrt(got_variance + epsilon)
        np.testing.assert_allclose(session.run(evaluated), want, rtol=1e-3, atol=1e-5)


MASK = np.ones([2], np.float32)
BAD = {
    "dilated_and_strided": (
        lambda: lib.Conv2D(1, 3, strides=2, dilation_rates=2),
        "dilated or strided, not both, but `dilation_rates` is 2 and `strides` is 2.",
    ),
    "depthwise_dilated_and_strided": (
        lambda: lib.DepthwiseConv2D(3, strides=2, dilation_rates=[1, 2]),
        "`dilation_rates` is [1, 2]",
    ),
    "depthwise_strides": (
        lambda: lib.DepthwiseConv2D(3, strides=[1, 2]),
        "have the same stride in both directions, but `strides` is [1, 2].",
    ),
    "input_mask": (
        lambda: lib.MaskedConv2D(1, tf.constant(MASK), tf.constant(MASK)).build([1, 4, 4, 3]),
        "`input_mask` must have an entry for each channel of the inputs, but has 2 for 3 channels.",
    ),
    "depthwise_mask": (
        lambda: lib.MaskedDepthwiseConv2D(1, tf.constant(MASK)).build([1, 4, 4, 3]),
        "`mask` must have an entry for each channel of the inputs, but has 2 for 3 channels.",
    ),
    "norm_mask": (
        lambda: lib.MaskedStatelessBatchNorm(tf.constant(MASK)).build([1, 4, 4, 3]),
        "of shape (1, 4, 4, 3), but has shape (2,).",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_is_refused(case):
    make, message = BAD[case]
    with pytest.raises(ValueError, match=re.escape(message)):
        make()
