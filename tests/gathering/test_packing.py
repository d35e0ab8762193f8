"""What is done to every element of a pack is done to the pack, if all of its parts are there."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python.eager import context

from replicate.gathering import packing

VALUES = [np.arange(6.0).reshape(2, 3), np.arange(4.0) - 2, np.array(9.0), np.array([[1.0, 5.0]])]


def parts(values=VALUES):
    """Returns tensors that were packed, and are parts of a pack."""
    joined = packing.join([tf.constant(value) for value in values])
    return joined, packing.part(joined, [tf.TensorShape(np.shape(value)) for value in values])


def halved(tensors):
    """Returns halves by `each`, and of what they were made."""
    given = []

    def half(tensor):
        given.append(tensor)
        return None if tensor is None else tensor / 2

    return packing.each(half, tensors), given


def check(made, values):
    with tf.Session() as session:
        for got, want in zip(session.run(list(made)), values):
            np.testing.assert_array_equal(got, np.asarray(want) / 2)
            assert got.shape == np.shape(want)


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1, 0, 2]])
def test_a_pack_whose_parts_are_all_there_is_one(order, fresh_graph):
    joined, tensors = parts()
    made, given = halved([tensors[i] for i in order])
    assert given == [joined]
    check(made, [VALUES[i] for i in order])
    again, given = halved(made)  # Halves are of a pack, too.
    assert [tensor.op.type for tensor in given] == ["RealDiv"]
    check(again, [VALUES[i] / 2 for i in order])


def test_what_is_there_twice_is_made_once(fresh_graph):
    joined, tensors = parts()
    made, given = halved([*tensors, tensors[1]])
    assert given == [joined] and made[1] is made[4]
    check(made, [*VALUES, VALUES[1]])


def test_what_is_there_in_two_shapes_keeps_both(fresh_graph):
    _, tensors = parts()
    flat = tf.reshape(tensors[0].op.inputs[0], [3, 2])
    made, given = halved([*tensors, flat])
    assert {id(tensor) for tensor in given} == {id(tensor) for tensor in [*tensors, flat]}
    check(made, [*VALUES, VALUES[0].reshape(3, 2)])


@pytest.mark.parametrize("missing", range(4))
def test_parts_of_a_pack_are_themselves_if_one_is_missing_or_changed(missing, fresh_graph):
    _, tensors = parts()
    rest = [tensor for i, tensor in enumerate(tensors) if i != missing]
    made, given = halved(rest)
    assert given == rest
    check(made, [value for i, value in enumerate(VALUES) if i != missing])
    changed = [tf.identity(tensor) if i == missing else tensor for i, tensor in enumerate(tensors)]
    made, given = halved(changed)
    assert {id(tensor) for tensor in given} == {id(tensor) for tensor in changed}
    check(made, VALUES)


def test_packs_lie_beside_each_other_and_beside_all_else(fresh_graph):
    first, one = parts()
    second, other = parts(VALUES[::-1])
    alone = tf.constant(7.0)
    made, given = halved([one[0], other[3], None, *one[1:], alone, *other[:3]])
    assert len(given) == 4 and all(any(x is y for y in given) for x in (first, second, None, alone))
    assert made.pop(2) is None
    values = [VALUES[0], VALUES[0], *VALUES[1:], 7.0, *VALUES[:0:-1]]
    check(made, values)


@pytest.mark.parametrize(
    "split",
    [
        lambda x: tf.split(x, [1, 1], axis=0),
        lambda x: tf.split(x, [2, 1], axis=1),
        lambda x: tf.split(x, 2),
        lambda x: tf.split(x, tf.constant([1, 1]) * tf.size(tf.zeros(1))),
        tf.unstack,
    ],
)
def test_other_splits_are_no_packs(split, fresh_graph):
    """Of more than one axis, in equal parts or of unknown sizes: `packing.part` makes none."""
    tensors = split(tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    _, given = halved(tensors)
    assert given == tensors


def test_eager_tensors_are_no_packs():
    with context.eager_mode():
        tensors = tf.split(tf.constant([1.0, 2.0, 3.0]), [1, 2])
        made, given = halved(tensors)
        assert [id(x) for x in given] == [id(x) for x in tensors]
        assert [value.numpy().tolist() for value in made] == [[0.5], [1.0, 1.5]]


def test_what_is_made_is_where_the_pack_is(fresh_graph):
    with tf.device("/cpu:2"):
        _, tensors = parts()
    alone = tf.constant(1.0)
    with tf.device("/cpu:1"):
        made, _ = halved([*tensors, alone])
    assert [tensor.device for tensor in made] == ["/device:CPU:2"] * 4 + ["/device:CPU:1"]
