"""Cases of rules of blocks: axes that have all rows several times."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from layouts.pointing_batch import Batch
from layouts.pointing_cases import case


def _views(batch: Batch, many: int) -> tuple[Any, Any]:
    """Returns rows, and so many views of them on one axis."""
    rows = batch.rows(2, 3, each=batch.one_of(1, 2))
    return rows, tf.concat([rows, -rows, rows * 2.0][:many], 0)


@case("ConcatV2")
def concat_views(batch: Batch, name: str) -> None:
    rows, views = _views(batch, batch.one_of(2, 3))
    tf.reduce_mean(tf.tanh(views), 0)
    tf.concat([tf.transpose(rows, [1, 0, 2])] * 2, 1) + 1.0


def _unequal(batch: Batch) -> tuple[Any, list[int], Any]:
    """Returns rows, how many entries of each block a row has, and blocks that differ in size."""
    each = batch.one_of((1, 3, 2), (2, 1, 4), (2, 6, 6), (3, 3, 1), (2, 4, 2))
    given = [batch.rows(3, each=one) for one in each]
    return batch.rows(3), list(each), tf.tanh(tf.concat(given, 0))


@case("ConcatV2")
def concat_unequal(batch: Batch, name: str) -> None:
    rows, _, blocks = _unequal(batch)
    more = tf.concat([blocks, rows, tf.zeros_like(rows), batch.one_of(blocks, rows)], 0)
    filled = tf.fill([tf.shape(more)[0], 1], tf.constant(2.0, tf.float64))
    tf.reduce_mean(more * more[:1] + filled, 0)


@case("SplitV")
def split_unequal(batch: Batch, name: str) -> None:
    rows, (a, b, c), blocks = _unequal(batch)
    n = tf.shape(rows)[0]
    last = batch.one_of(n * (b + c), -1)
    parts = batch.one_of(
        tf.split(blocks, [n * a, n * b, n * c]), tf.split(blocks, [n * a, last], num=2)
    )
    for part in parts:
        tf.gradients(tf.square(part), blocks)[0] + blocks


@case("StridedSlice", "StridedSliceGrad")
def slices_unequal(batch: Batch, name: str) -> None:
    rows, (a, b, _), blocks = _unequal(batch)
    n = tf.shape(rows)[0]
    first, last = blocks[: a * n], blocks[(a + b) * n :]
    taken = batch.one_of(first, last, blocks[a * n : (a + b) * n], blocks[a * n :])
    tf.gradients(tf.square(first) * 2.0, blocks)[0] + tf.gradients(tf.sin(taken), blocks)[0]


@case("Slice")
def slice_unequal(batch: Batch, name: str) -> None:
    rows, (a, b, c), blocks = _unequal(batch)
    n = tf.shape(rows)[0]
    first, many = batch.one_of((0, a), (a, b), (a, b + c), (a + b, c), (1, 1))
    tf.slice(blocks, tf.stack([first * n, 0]), tf.stack([n * many, 2])) * 2.0


@case("Tile")
def tile(batch: Batch, name: str) -> None:
    rows = batch.rows(2, each=batch.one_of(1, 2))
    repeated = tf.tile(rows, [batch.one_of(2, 3), 1])
    tf.reduce_max(repeated * 2.0, 0)


@case("Slice")
def slice_views(batch: Batch, name: str) -> None:
    rows, views = _views(batch, 3)
    n = tf.shape(rows)[0]
    first = batch.one_of(0, 1)
    tf.slice(views, tf.stack([first * n, 0, 0]), tf.stack([n * batch.one_of(1, 2), 2, 3])) * 2.0


@case("StridedSlice", "StridedSliceGrad")
def slices(batch: Batch, name: str) -> None:
    rows, views = _views(batch, 3)
    n = tf.shape(rows)[0]
    views = tf.sin(views)
    parts = views[:n], views[n : 2 * n], views[2 * n :], views[n:], views[n : 4 * n]
    taken = batch.one_of(*parts)
    tf.fill([n], tf.shape(taken)[0])
    tf.gradients(taken, views, grad_ys=tf.tanh(taken))[0] * 1.0


@case("Split")
def halves(batch: Batch, name: str) -> None:
    _, views = _views(batch, 2)
    one, other = tf.split(views, 2)
    one * other


@case("Reshape")
def time_first(batch: Batch, name: str) -> None:
    steps = tf.transpose(batch.rows(2, 3, each=batch.one_of(1, 2)), [1, 0, 2])
    flat = tf.reshape(steps, [-1, 3])
    tf.reshape(tf.tanh(flat), tf.shape(steps)) - steps


@case("Reshape")
def time_first_and_places_last(batch: Batch, name: str) -> None:
    """Rows between two axes with which they are merged, whole or with a part of the last one."""
    steps = tf.transpose(batch.rows(2, 6, 4, each=batch.one_of(1, 2)), [1, 0, 2, 3])
    flat = tf.reshape(steps, batch.one_of([-1, 4], [-1, 2], [-1, 3, 4], [-1]))
    tf.reshape(tf.tanh(flat), batch.one_of(tf.shape(steps), [2, -1, 4], [2, -1, 8])) * 2.0


@case("Reshape")
def time_to_batch(batch: Batch, name: str) -> None:
    """Dilated convolutions of WaveNet: every second step, or every third, is a row of its own."""
    batch.need_rows()  # Without any, TensorFlow may choose any number for -1.
    steps, many = batch.rows(6, 3, each=batch.one_of(1, 2)), batch.one_of(2, 3)
    n = tf.shape(steps)[0]
    apart = tf.transpose(tf.reshape(steps, [-1, many, 3]), [1, 0, 2])
    rows = tf.tanh(tf.reshape(apart, [n * many, -1, 3]))
    shorter = batch.one_of(rows, rows[:, 1:], tf.concat([rows, rows], 2))
    back = tf.reshape(shorter, [many, -1, shorter.shape[2]])
    flat = tf.reshape(tf.transpose(back, [1, 0, 2]), [n, -1, shorter.shape[2]])
    tf.gradients(tf.square(flat), steps)[0] * 2.0


def _images(batch: Batch) -> Any:
    each, size = batch.one_of(1, 1, 2), batch.one_of(4, 8)
    return batch.rows(size, 4, 3, each=each)


def _apart(given: Any, name: str) -> Any:
    """Returns parts of space as rows, by the type that does so if `name` does the reverse."""
    if name.endswith("ND"):
        return tf.raw_ops.SpaceToBatchND(input=given, block_shape=[2, 1], paddings=[[2, 2], [0, 0]])
    return tf.raw_ops.SpaceToBatch(input=given, paddings=[[0, 0], [2, 2]], block_size=2)


@case("SpaceToBatch", "SpaceToBatchND")
def apart(batch: Batch, name: str) -> None:
    made = _apart(_images(batch), name)
    twice = _apart(tf.nn.conv2d(made, tf.ones([2, 2, 3, 4], tf.float64), 1, "SAME"), name)
    tf.reduce_sum(tf.tanh(twice), [1, 2])


@case("BatchToSpace", "BatchToSpaceND")
def together(batch: Batch, name: str) -> None:
    given = _images(batch)
    two = tf.reshape(tf.stack([given * 2.0, -given], 1), [-1, *given.shape.as_list()[1:]])
    options = given, tf.concat([given, -given], 0), tf.concat([given, two], 0)
    made = tf.sin(_apart(batch.one_of(*options), name))
    if name.endswith("ND"):
        back = tf.raw_ops.BatchToSpaceND(input=made, block_shape=[2, 1], crops=[[1, 1], [0, 0]])
    else:
        back = tf.raw_ops.BatchToSpace(input=made, crops=[[0, 0], [1, 2]], block_size=2)
    tf.gradients(tf.square(back), given)[0] * 2.0


@case("IdentityN")
def identities(batch: Batch, name: str) -> None:
    rows, views = _views(batch, 2)
    _, _, blocks = _unequal(batch)
    found = tf.where(batch.rows(dtype=tf.bool))[:, 0]
    given = [rows, views, blocks, found, tf.gather(batch.rows(2), found), tf.ones([2, 3])]
    made = tf.identity_n(given)
    tf.gather(batch.rows(2), made[3]) * made[4]
    tf.reduce_sum(made[0], 0) + tf.reduce_mean(made[1] * 2.0, 0)
    tf.tanh(made[2]) + blocks


@case("SpaceToBatchND")
def dilated(batch: Batch, name: str) -> None:
    """A convolution of TensorFlow 1 with holes, of images whose size is known or not."""
    given = _images(batch)
    if batch.one_of(0, 1):
        given = tf.placeholder_with_default(given, [None, None, None, 3])
    filters = tf.sin(tf.reshape(tf.range(108, dtype=tf.float64), [3, 3, 3, 4]))
    tf.tanh(tf.nn.atrous_conv2d(given, filters, 2, "SAME"))
