"""Widths that are drawn, as numbers or relative to a width that is drawn itself."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search.basic_specs import FILTERS_TAG, FilterMultiplier
from examples.nas_search.rematlib import widths
from examples.nas_search.schema import OneOf
from examples.nas_search.search_space_utils import scale_filters

BASE = 2
RELATIVE = [FilterMultiplier(0.5), FilterMultiplier(1), FilterMultiplier(3)]


@pytest.mark.parametrize("count", [4, 6, 10])
@pytest.mark.parametrize("choices", [RELATIVE, [7, *RELATIVE, 1], [5, 20], [FilterMultiplier(3)]])
def test_each_choice_has_its_width(choices, count):
    inputs = widths.drawn(10, tf.constant(count))
    wanted = [
        scale_filters(count, each.scale, BASE) if isinstance(each, FilterMultiplier) else each
        for each in choices
    ]
    for index, want in enumerate(wanted):
        mask = tf.constant(np.eye(len(choices), dtype=np.float32)[index])
        width = widths.choose(OneOf(choices, FILTERS_TAG, mask), inputs, BASE)
        got_count, got_mask = tf.Session().run([tf.identity(width.count), width.full_mask()])
        assert got_count == want
        assert got_mask.tolist() == [1.0] * want + [0.0] * (width.largest - want)


def test_of_a_fixed_width_one_relative_choice_is_fixed():
    width = widths.choose(FilterMultiplier(3), widths.fixed(4), BASE)
    assert width == widths.fixed(12)


def test_nothing_is_relative_to_an_unknown_width():
    with pytest.raises(
        ValueError, match=r"stands in the first layer\. Give it a number of filters"
    ):
        widths.choose(OneOf([3, FilterMultiplier(1)], FILTERS_TAG, tf.ones([2])), None, BASE)
