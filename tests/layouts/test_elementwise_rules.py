"""Rules hold where TensorFlow infers other shapes than there are, which cases cannot show."""

from __future__ import annotations

from typing import Any, Sequence

import pytest
import tensorflow.compat.v1 as tf

from replicate.layouts import Facts, rules
from replicate.layouts.layout import WHOLE, Layout, Shard, Strategy
from replicate.layouts.rule import rule_of

assert rules  # It fills the table.


def strategy(operation: Any, layouts: Sequence[Layout], rows: int = 4) -> Strategy | None:
    function = rule_of(operation.type)
    assert function is not None
    return function(Facts(rows).op_of(operation), layouts)


def compared(x: Sequence[int | None], y: Sequence[int | None], strict: bool) -> Strategy | None:
    with tf.Graph().as_default():
        made = tf.raw_ops.Equal(
            x=tf.placeholder(tf.float32, x),
            y=tf.placeholder(tf.float32, y),
            incompatible_shape_error=strict,
        )
        return strategy(made.op, [Shard(0), WHOLE])


@pytest.mark.parametrize("other", [[4, 3], [4, 1], [1, 3]])
def test_shapes_that_fit_are_compared_in_towers(other):
    found = compared([4, 3], other, strict=False)
    assert found is not None
    assert found == compared([4, 3], other, strict=True)


def test_shapes_that_may_not_fit_are_compared_once_if_that_makes_one_false_of_all():
    assert compared([4, 3], [4, None], strict=True) is not None
    assert compared([4, 3], [4, None], strict=False) is None


@pytest.mark.parametrize(
    ("labels", "demand"), [([1, 3], WHOLE), ([3], WHOLE), ([4, 3], Shard(0)), ([4, 1], Shard(0))]
)
def test_labels_that_are_broadcast_are_the_same_for_all_rows(labels, demand):
    with tf.Graph().as_default():
        made = tf.raw_ops.SoftmaxCrossEntropyWithLogits(
            features=tf.placeholder(tf.float32, [4, 3]), labels=tf.placeholder(tf.float32, labels)
        )
        found = strategy(made.loss.op, [Shard(0), WHOLE])
        of_classes = strategy(made.loss.op, [Shard(1), WHOLE], rows=3)
    assert found == Strategy((Shard(0), demand), (Shard(0), Shard(0)))
    assert of_classes is None
