"""How the border of images is padded, by hand or alike for all sizes, against plain arithmetic."""

import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search.rematlib import layers as lib
from nas_search import nas_layers

IMAGES = nas_layers.images(2, 5, 6, 3) - 3  # Nearly all below 0, so that zeros would be largest.
PIXELS = [[0, 0], [1, 2], [0, 1], [0, 0]]


def pooled(images, size, strides, sides, function):
    """Applies a function to the pixels that each window has inside the image, slowly."""
    counts = [
        (length + sum(pads) - size) // strides + 1 for length, pads in zip(images.shape[1:3], sides)
    ]
    result = np.zeros([len(images), *counts, images.shape[3]])
    for y, x in np.ndindex(*counts):
        starts = [index * strides - pads[0] for index, pads in zip((y, x), sides)]
        rows, columns = (slice(max(start, 0), start + size) for start in starts)
        result[:, y, x] = function(images[:, rows, columns], axis=(1, 2))
    return result


@pytest.mark.parametrize(
    ("how", "sides"),
    [
        ({"padding": PIXELS}, PIXELS[1:3]),
        ({"padding": np.array(PIXELS)}, PIXELS[1:3]),
        ({"padding": "VALID"}, [[0, 0], [0, 0]]),
        ({"use_explicit_padding": True}, [[1, 1], [1, 1]]),
    ],
    ids=["pixels", "array", "valid", "alike"],
)
@pytest.mark.parametrize("strides", [1, 2])
@pytest.mark.parametrize(
    ("layer_class", "function"), [(lib.MaxPool, np.max), (lib.AveragePool, np.mean)]
)
def test_pools_take_no_notice_of_what_pads_the_border(layer_class, function, strides, how, sides):
    layer = layer_class(3, strides, **how)
    want = pooled(IMAGES, 3, strides, sides, function)
    assert layer.build(IMAGES.shape).as_list() == list(want.shape)
    assert layer.build([None, None, None, 3]).as_list() == [None, None, None, 3]
    outputs = layer.apply(tf.constant(IMAGES), training=True)
    np.testing.assert_allclose(nas_layers.evaluate(outputs), want, rtol=1e-5)
    rounded = layer.apply(tf.cast(IMAGES, tf.bfloat16), training=True)
    assert rounded.dtype == tf.bfloat16
    got = nas_layers.evaluate(tf.cast(rounded, tf.float32))
    np.testing.assert_allclose(got, want, rtol=0.03)


def test_gradients_of_padded_pools_are_finite():
    x = tf.constant(IMAGES)
    for layer in (lib.MaxPool(3, 2, padding=PIXELS), lib.AveragePool(3, 2, padding=PIXELS)):
        layer.build(IMAGES.shape)
        outputs = layer.apply(x, training=True)
        (gradient,) = tf.gradients(outputs, x)
        total, count = nas_layers.evaluate([tf.reduce_sum(gradient), tf.size(outputs)])
        assert total == pytest.approx(count)  # Each output is made of pixels of the image alone.


@pytest.mark.parametrize("depthwise", [False, True])
def test_convolutions_see_zeros_beside_the_image(depthwise):
    make = lib.DepthwiseConv2D if depthwise else lambda *args, **how: lib.Conv2D(4, *args, **how)
    layer, plain = make(3, strides=2, padding=PIXELS), make(3, strides=2, padding="VALID")
    padded = np.pad(IMAGES, PIXELS)
    shape = layer.build(IMAGES.shape)
    assert shape == plain.build(padded.shape)
    outputs = [
        layer.apply(tf.constant(IMAGES), training=True),
        plain.apply(tf.constant(padded), training=True),
    ]
    assert outputs[0].shape == shape
    with nas_layers.session() as session:
        for each in (layer, plain):
            nas_layers.randomize(session, each.trainable_variables())
        got, want = session.run(outputs)
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_masked_convolutions_are_padded_by_hand():
    mask = lib.create_mask([1, 2, 3], 1)
    for layer in (
        lib.MaskedConv2D(3, None, mask, padding=PIXELS),
        lib.MaskedDepthwiseConv2D(3, mask, padding=PIXELS),
    ):
        assert layer.build(IMAGES.shape).as_list() == [2, 6, 5, 3]


FORM = '`padding` must be "SAME", "VALID" or pixels, [[0, 0], [top, bottom], [left, right], [0, 0]]'
BAD = {
    "other_word": (lambda: lib.MaxPool(3, padding="FULL"), f"{FORM}, but is 'FULL'."),
    "two_pairs": (lambda: lib.MaxPool(3, padding=[[1, 1]] * 2), FORM),
    "ragged": (lambda: lib.Conv2D(1, 3, padding=[[0, 0], [1], [1, 1], [0, 0]]), FORM),
    "number": (lambda: lib.DepthwiseConv2D(3, padding=1), f"{FORM}, but is 1."),
    "negative": (lambda: lib.MaxPool(3, padding=[[0, 0], [-1, 1], [1, 1], [0, 0]]), FORM),
    "channels": (lambda: lib.AveragePool(3, padding=[[0, 0], [1, 1], [1, 1], [0, 1]]), FORM),
    "fractions": (lambda: lib.AveragePool(3, padding=np.full([4, 2], 0.5)), FORM),
    "two_ways": (
        lambda: lib.MaxPool(3, use_explicit_padding=True, padding=PIXELS),
        "padded in one way, but `use_explicit_padding` is true and `padding` is [[0, 0], [1, 2]",
    ),
    "all_padding": (
        lambda: lib.MaxPool([3, 1], padding=PIXELS),
        "`padding` must be less than the window's width, 1, but is [0, 1]: some windows",
    ),
    "small_image": (
        lambda: lib.MaxPool(3, padding="VALID").build([1, 4, 2, 1]),
        "must be as large as the window, of size (3, 3), but the inputs are of shape (1, 4, 2, 1)",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_is_refused(case):
    make, message = BAD[case]
    with pytest.raises(ValueError, match=re.escape(message)):
        make()
