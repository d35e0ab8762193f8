"""Pruning keeps what was chosen, and drops paths at the rate it is told."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search import search_space_utils as utils
from examples.nas_search.basic_specs import FILTERS_TAG, OP_TAG, ZeroSpec
from examples.nas_search.mobile_search_space_v3 import GlobalAveragePoolSpec
from examples.nas_search.schema import OneOf


def small_space(mask=None):
    """Choices in visiting order: kernel, skip, width, pool or not, and one of another tag."""
    return {
        "1": OneOf([{"kernel": OneOf([3, 5], OP_TAG, mask)}, ZeroSpec()], OP_TAG),
        "2": OneOf([8, 16, 24], FILTERS_TAG),
        "3": OneOf([GlobalAveragePoolSpec(), 7], OP_TAG),
        "4": OneOf(["x", "y"], "other"),
    }


@pytest.mark.parametrize(
    ("genotype", "by_value"),
    [
        ([1, 0, 2, 1, 0], False),
        ([1, 0, 2, 1, 0], True),  # which does not concern flat lists
        ((1, 0, 2, 1, 0), False),
        (np.array([1, 0, 2, 1, 0]), False),
        ({OP_TAG: [1, 0, 1], FILTERS_TAG: [2], "other": [0]}, False),
        ({OP_TAG: [1, 0, 1], FILTERS_TAG: [24], "other": [0]}, True),
    ],
    ids=["list", "values of a list", "tuple", "array", "dict", "dict of values"],
)
def test_pruning_leaves_the_chosen_branches(genotype, by_value):
    pruned = utils.prune_model_spec(small_space(), genotype, prune_filters_by_value=by_value)
    assert pruned == {
        "1": OneOf([{"kernel": OneOf([5], OP_TAG)}], OP_TAG),
        "2": OneOf([24], FILTERS_TAG),
        "3": OneOf([7], OP_TAG),
        "4": OneOf(["x"], "other"),
    }


def test_a_skipped_layer_still_has_its_indices():
    pruned = utils.prune_model_spec(small_space(), [1, 1, 0, 0, 0])
    assert pruned["1"] == OneOf([ZeroSpec()], OP_TAG)
    assert pruned["2"] == OneOf([8], FILTERS_TAG)


def test_tags_that_are_not_named_stay_open_with_their_masks():
    mask = tf.constant([1.0, 0.0])
    space = small_space(mask)
    pruned = utils.prune_model_spec(space, {FILTERS_TAG: [1]})
    assert pruned == {**space, "2": OneOf([16], FILTERS_TAG)}
    assert pruned["1"].choices[0]["kernel"].mask is mask
    assert utils.prune_model_spec(space, {}) == space


def test_pruned_choices_lose_their_masks():
    pruned = utils.prune_model_spec(small_space(tf.constant([1.0, 0.0])), [0, 0, 0, 0, 0])
    assert pruned["1"].choices[0]["kernel"].mask is None


@pytest.mark.parametrize(
    ("genotype", "by_value", "message"),
    [
        ([0, 0, 0, 0], False, r"an index for each of the 5 choices of the space, but has 4"),
        ([0] * 6, False, r"an index for each of the 5 choices of the space, but has 6"),
        ({OP_TAG: [0, 0]}, False, r"`genotype\['op_indices'\]` must.*3 choices.*but has 2"),
        ({"ops": [0]}, False, r"has the tag 'ops', but the space \['filters_indices', 'op_"),
        ([0, 2, 0, 0, 0], False, r"choose one of \[0, 1\] at 1, but chooses 2"),
        ([-1, 0, 0, 0, 0], False, r"one of \[0, 1\] at 1/choices/0/kernel, but chooses -1"),
        ({FILTERS_TAG: [2]}, True, r"choose one of \[8, 16, 24\] at 2, but chooses 2"),
        ({FILTERS_TAG: [24]}, False, r"choose one of \[0, 1, 2\] at 2, but chooses 24"),
        ([0, 0, 8, 0, 0], True, r"choose one of \[0, 1, 2\] at 2, but chooses 8"),
    ],
)
def test_genotypes_of_other_spaces_are_refused(genotype, by_value, message):
    with pytest.raises(ValueError, match=message):
        utils.prune_model_spec(small_space(), genotype, prune_filters_by_value=by_value)


# The published program always passed a flat list, which its pruning refused at any rate but 0.
@pytest.mark.parametrize("genotype", [[1, 0, 2, 0, 0], {OP_TAG: [1, 0, 0]}])
def test_operations_that_could_have_been_skipped_are_dropped_at_the_given_rate(genotype):
    tf.set_random_seed(3)
    pruned = utils.prune_model_spec(small_space(), genotype, path_dropout_rate=0.2, training=True)
    mask = pruned["1"].mask
    assert mask.dtype == tf.float32
    assert mask.shape == [1]
    # Nothing else can be skipped; the pool is no ZeroSpec although both have no fields.
    assert pruned["1"].choices[0]["kernel"].mask is None
    assert pruned["3"].mask is None
    assert pruned["2"].mask is None
    with tf.Session() as session:
        draws = np.concatenate([session.run(mask) for _ in range(500)])
    np.testing.assert_allclose(np.unique(draws), [0, 1 / 0.8], rtol=1e-6)
    # The mean of 500 draws has a standard deviation of sqrt(0.8 · 0.2 / 500) / 0.8 = 0.022.
    assert abs(draws.mean() - 1) < 5 * 0.022


def test_the_rate_may_change_from_run_to_run():
    rate = tf.placeholder(tf.float64, [])
    pruned = utils.prune_model_spec(small_space(), [1, 0, 2, 0, 0], rate, training=True)
    mask = pruned["1"].mask
    assert (mask.dtype, mask.shape.as_list()) == (tf.float32, [1])
    with tf.Session() as session:
        for value in (0.0, 0.5):
            draws = np.concatenate([session.run(mask, {rate: value}) for _ in range(50)])
            np.testing.assert_allclose(np.unique(draws), [0, 2] if value else [1], rtol=1e-6)
    assert utils.prune_model_spec(small_space(), [1, 0, 2, 0, 0], rate, False)["1"].mask is None
    for wrong in (tf.constant([0.5]), tf.constant(1)):
        with pytest.raises(ValueError, match="must be a number or a floating scalar tensor"):
            utils.prune_model_spec(small_space(), [1, 0, 2, 0, 0], wrong, training=True)


@pytest.mark.parametrize(("rate", "training"), [(0.2, False), (0.0, True), (0.0, None)])
def test_nothing_is_dropped_outside_training_or_at_rate_zero(rate, training):
    pruned = utils.prune_model_spec(small_space(), [0] * 5, rate, training)
    assert pruned["1"].mask is None
    assert not tf.get_default_graph().get_operations()


@pytest.mark.parametrize(
    ("genotype", "rate", "training", "message"),
    [
        ({FILTERS_TAG: [0]}, 0.1, True, r"no operation.*only \['filters_indices'\]. Give it 'op_i"),
        ([0] * 5, 0.1, None, r"`training` must be given with a `path_dropout_rate` of 0.1"),
        ([0] * 5, 1.0, True, r"`path_dropout_rate` must lie in \[0, 1\), but is 1.0"),
        ([0] * 5, -0.1, True, r"`path_dropout_rate` must lie in \[0, 1\), but is -0.1"),
    ],
)
def test_impossible_path_dropout_is_refused(genotype, rate, training, message):
    with pytest.raises(ValueError, match=message):
        utils.prune_model_spec(small_space(), genotype, rate, training)
