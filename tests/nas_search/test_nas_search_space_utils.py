"""Rounding and scaling of widths, counting of networks, and reading of index lists."""

import doctest
import itertools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search import search_space_utils as utils
from examples.nas_search.basic_specs import (
    FILTERS_TAG,
    OP_TAG,
    ConvTowerSpec,
    FilterMultiplier,
    ZeroSpec,
    block,
)
from examples.nas_search.schema import OneOf


def run(tensors):
    with tf.Session() as session:
        return session.run(tensors)


@pytest.mark.parametrize(
    ("strides", "pair"), [(2, (2, 2)), ((1, 2), (1, 2)), ([2, 1], (2, 1)), ((3, 3), (3, 3))]
)
def test_strides_become_a_pair(strides, pair):
    assert utils.normalize_strides(strides) == pair


@pytest.mark.parametrize("strides", [(1,), (1, 2, 3), "12", None, 1.5])
def test_other_strides_are_refused(strides):
    with pytest.raises(ValueError, match="`strides` must be an int or a pair, but is"):
        utils.normalize_strides(strides)


@pytest.mark.parametrize(
    ("filters", "multiplier", "base", "expected"),
    [
        (32, 1.0, 8, 32),
        (32, 0.5, 8, 16),
        (36, 1.0, 8, 40),  # 4.5 bases; halves go up
        (35, 1.0, 8, 32),  # 4.375 bases
        (16, 0.625, 8, 8),  # 10 is 1.25 bases
        (16, 0.75, 8, 16),  # 12 is 1.5 bases
        (16, 0.1, 8, 8),  # never below the base
        (0, 1.0, 8, 8),
        (24, 6, 8, 144),
        (10, 1.0, 1, 10),
    ],
)
def test_widths_scale_to_the_nearest_multiple_of_the_base(filters, multiplier, base, expected):
    assert utils.scale_filters(filters, multiplier, base) == expected
    tensor = utils.tf_scale_filters(tf.constant(filters), tf.constant(float(multiplier)), base)
    assert tensor.dtype == tf.int32
    assert tensor.shape == []
    assert run(tensor) == expected


def test_tensors_of_widths_scale_as_numbers_do():
    cases = list(
        itertools.product(
            [*range(4, 129, 4), 320, 1024, 2048],
            [0.25, 0.35, 0.5, 0.625, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 6.0],
            [1, 4, 8, 32],
        )
    )
    filters, multipliers, bases = map(np.array, zip(*cases))
    # The function is elementwise, so that all cases fit into one run.
    tensor = utils.tf_scale_filters(
        tf.constant(filters, tf.int32), tf.constant(multipliers, tf.float32), bases
    )
    np.testing.assert_array_equal(run(tensor), [utils.scale_filters(*case) for case in cases])


@pytest.mark.parametrize(
    ("value", "divisor", "expected"),
    [
        (64, 8, 64),
        (18, 8, 24),  # nearest is 16 < 0.9 · 18 = 16.2, so the next one
        (17, 8, 16),  # 16 >= 15.3
        (20, 8, 24),  # halves go up
        (0.25 * 72, 8, 24),  # the squeezed width of an expansion to 72
        (0.25 * 120, 8, 32),
        (0.25 * 184, 8, 48),
        (80 / 9 * 10, 8, 88),
        (3, 8, 8),
        (0, 8, 8),
        (7.5, 5, 10),
        (10, 1, 10),
    ],
)
def test_values_become_divisible_and_lose_at_most_a_tenth(value, divisor, expected):
    assert utils.make_divisible(value, divisor) == expected
    assert utils.make_divisible(value, divisor) >= 0.9 * value


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64, tf.float32, tf.float64])
@pytest.mark.parametrize("divisor", [1, 3, 4, 8, 32])
def test_tensors_become_divisible_as_numbers_do(dtype, divisor):
    step = 1 if dtype.is_integer else 0.25
    values = np.arange(0, 700, step)
    tensor = utils.tf_make_divisible(tf.constant(values, dtype), divisor)
    assert tensor.dtype == dtype
    expected = [utils.make_divisible(value, divisor) for value in values.tolist()]
    np.testing.assert_array_equal(run(tensor), expected)


def tower(filters, layers=()):
    return ConvTowerSpec([block(list(layers), filters)], filters_base=8)


@pytest.mark.parametrize(
    ("filters", "multipliers", "base", "expected"),
    [
        (24, 1.0, None, [24]),
        (24, 0.5, None, [16]),  # 12 is 1.5 bases
        (24, 0.0, None, [8]),
        (24, 0.5, 4, [12]),
        (24, [2, 0.5, 1], None, [16, 24, 48]),
        ([16, 32], [1, 2], None, [16, 32, 64]),  # 32 comes from both, and counts once
    ],
)
def test_widths_of_a_tower_scale(filters, multipliers, base, expected):
    choices = filters if isinstance(filters, list) else [filters]
    scaled = utils.scale_conv_tower_spec(tower(OneOf(choices, FILTERS_TAG)), multipliers, base)
    assert scaled.filters_base == (base or 8)
    assert scaled.blocks[0].filters == OneOf(expected, FILTERS_TAG)


def test_only_absolute_widths_scale():
    mask = tf.constant([1.0, 0.0])
    relative = OneOf([FilterMultiplier(6), FilterMultiplier(3)], FILTERS_TAG, mask)
    operation = OneOf([64, 32], OP_TAG, mask)
    absolute = OneOf([64, 32], FILTERS_TAG, mask)
    scaled = utils.scale_conv_tower_spec(tower(16, [relative, operation, absolute]), 2)
    relative_after, operation_after, absolute_after = scaled.blocks[0].layers
    assert relative_after == OneOf(relative.choices, FILTERS_TAG)
    assert operation_after == operation
    # Their number may have changed, so that the mask would not fit.
    assert absolute_after == OneOf([64, 128], FILTERS_TAG)


@pytest.mark.parametrize("multipliers", [[], -1, [1, -0.5]])
def test_impossible_multipliers_are_refused(multipliers):
    with pytest.raises(ValueError, match=r"`multipliers` must be numbers >= 0, at least one, not"):
        utils.scale_conv_tower_spec(tower(16), multipliers)


@pytest.mark.parametrize(
    ("space", "naive", "distinct"),
    [
        (3, 1, 1),
        ([], 1, 1),
        (OneOf([7], "t"), 1, 1),
        ([OneOf([1, 2], "t"), OneOf([1, 2, 3], "t")], 6, 6),
        # 3 kernels in one of two branches, the other of which is fixed.
        (OneOf([OneOf([3, 5, 7], "k"), ZeroSpec()], "t"), 6, 4),
        # 3 kernels times 2 widths in one branch, 5 settings in the other.
        (
            OneOf(
                [{"k": OneOf([3, 5, 7], "k"), "w": OneOf([8, 16], "w")}, OneOf(list("abcde"), "o")],
                "t",
            ),
            60,
            11,
        ),
        # Two layers that can be skipped, each one of 3 + 1 things.
        ([OneOf([OneOf([3, 5, 7], "k"), ZeroSpec()], "t")] * 2, 36, 16),
        # Beyond what floats can count.
        ([OneOf([1, 2, 3], "t")] * 100, 3**100, 3**100),
    ],
)
def test_cardinality(space, naive, distinct):
    assert utils.cardinality(space) == (naive, distinct)


def test_cardinality_refuses_foreign_types():
    with pytest.raises(ValueError, match="A structure consists of"):
        utils.cardinality([None])


def test_what_was_drawn_is_read_off_the_masks():
    space = [
        OneOf([1, 2, 3], "t", tf.constant([0.0, 0.0, 1.0])),
        OneOf([OneOf([1, 2], "t", tf.constant([0.25, 0.75]))], "t"),
    ]
    indices = utils.tf_indices(space)
    assert indices.dtype == tf.int32
    assert run(indices).tolist() == [2, 1, 0]
    empty = utils.tf_indices([3])
    assert (empty.dtype, empty.shape.as_list()) == (tf.int32, [0])


def test_an_undrawn_choice_has_no_index():
    assert run(utils.tf_argmax_or_zero(OneOf([5], "t"))) == 0
    with pytest.raises(ValueError, match=r"one must have been drawn, but OneOf.* has no mask"):
        utils.tf_argmax_or_zero(OneOf([5, 6], "t"))


@pytest.mark.parametrize(
    ("text", "fn", "values"),
    [
        ("3:1:4", int, [3, 1, 4]),
        ("3", int, [3]),
        ("0.5:1", float, [0.5, 1.0]),
        ("a:b", str, ["a", "b"]),
        ("", int, []),
        ("  ", int, []),
    ],
)
def test_lists_are_read_from_text(text, fn, values):
    assert utils.parse_list(text, fn) == values


@pytest.mark.parametrize("text", ["1,2", "1::2", "1:x"])
def test_unreadable_lists_are_refused(text):
    with pytest.raises(ValueError, match=f"Expected values separated by colons, but got '{text}'"):
        utils.parse_list(text, int)


def test_examples_of_the_docstrings():
    result = doctest.testmod(utils)
    assert result.attempted > 0
    assert result.failed == 0
