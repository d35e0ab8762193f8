"""Random graphs in which indices point at their own row, or only seem to.

Each makes row numbers and places by idioms of models, picks or writes entries by these, and takes
gradients. A graph is described by the indices of the choices that were made.
"""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import tensorflow.compat.v1 as tf

from layouts.pointing_batch import Batch

PLACES, DEPTH = 4, 2
Numbers = Callable[[Any, Any, int], Any]

# Row numbers of shape [n, k], from n, from integers of that shape, and from k.


def _times_ones(n: Any, like: Any, k: int) -> Any:
    return tf.expand_dims(tf.range(n), 1) * tf.ones([n, k], tf.int32)


def _tiled(n: Any, like: Any, k: int) -> Any:
    return tf.tile(tf.range(0, n)[:, tf.newaxis], [1, k])


def _plus_zeros(n: Any, like: Any, k: int) -> Any:
    return tf.zeros_like(like) + tf.reshape(tf.range(n), [-1, 1])


def _of_a_mesh(n: Any, like: Any, k: int) -> Any:
    return tf.meshgrid(tf.range(n), tf.range(k), indexing="ij")[0]


def _repeated(n: Any, like: Any, k: int) -> Any:
    return tf.reshape(tf.repeat(tf.range(n), k), [n, k])


def _by_matmul(n: Any, like: Any, k: int) -> Any:
    ones = tf.cast(tf.transpose(tf.expand_dims(tf.ones([k]), 1), [1, 0]), tf.int32)
    return tf.matmul(tf.reshape(tf.range(n), [-1, 1]), ones)


def _cast(n: Any, like: Any, k: int) -> Any:
    return tf.cast(tf.broadcast_to(tf.range(tf.cast(n, tf.int64))[:, None], [n, k]), tf.int32)


def _known(n: Any, like: Any, k: int) -> Any:
    if not isinstance(n, int):
        return _tiled(n, like, k)
    return tf.constant(np.repeat(np.arange(n, dtype=np.int32), k).reshape(n, k))


NUMBERS = (
    _times_ones, _tiled, _plus_zeros, _of_a_mesh, _repeated, _by_matmul, _cast, _known,
)  # fmt: skip


def _next(n: Any, like: Any, k: int) -> Any:
    return (_tiled(n, like, k) + 1) % n


def _backwards(n: Any, like: Any, k: int) -> Any:
    return n - 1 - _tiled(n, like, k)


def _in_blocks(n: Any, like: Any, k: int) -> Any:
    return tf.reshape(tf.tile(tf.range(n), [k]), [n, k])


def _transposed(n: Any, like: Any, k: int) -> Any:
    return tf.reshape(tf.transpose(_tiled(n, like, k)), [n, k])


def _of_data(n: Any, like: Any, k: int) -> Any:
    return tf.minimum(_tiled(n, like, k) + like % 2, n - 1)


def _halved(n: Any, like: Any, k: int) -> Any:
    return tf.tile(tf.range(0, 2 * n, 2)[:, tf.newaxis], [1, k]) // 3


WRONG_NUMBERS = (_next, _backwards, _in_blocks, _transposed, _of_data, _halved)

# Places within a row, from 0 to `PLACES`, from integers.


def _remainders(data: Any) -> Any:
    return data % PLACES


def _clipped(data: Any) -> Any:
    return tf.clip_by_value(data - 1, 0, PLACES - 1)


def _bounded(data: Any) -> Any:
    return tf.maximum(tf.minimum(PLACES - 1, data - 2), 0)


def _of_most(data: Any) -> Any:
    scores = tf.cast(tf.stack([data, data % 3, 2 - data, data % 2], -1), tf.float64)
    return tf.argmax(scores, -1, output_type=tf.int32)


def _of_top(data: Any) -> Any:
    scores = tf.cast(tf.stack([data, data % 3, 2 - data, data % 2], -1), tf.float64)
    return tf.nn.top_k(scores, 2).indices[..., 1]


def _constant(data: Any) -> Any:
    return tf.zeros_like(data) + (PLACES - 1)


IN_ROW = (_remainders, _clipped, _bounded, _of_most, _of_top, _constant)


def _one_too_far(data: Any) -> Any:
    return data % (PLACES + 1)


def _before(data: Any) -> Any:
    return tf.minimum(data - 1, PLACES - 1)


def _unknown(data: Any) -> Any:
    return tf.abs(data)


OUT_OF_ROW = (_one_too_far, _before, _unknown)


def picks(numbers: Any, places: Any) -> Callable[[Batch, str], None]:
    """Returns the case in which entries are picked by row numbers and places."""

    def case(batch: Batch, name: str) -> None:
        batch.need_rows()
        k = batch.one_of(1, 2, 3)
        given, data = batch.rows(PLACES, DEPTH), batch.rows(k, dtype=tf.int32)
        n = given.shape.as_list()[0] or tf.shape(given)[0]
        rows, at = batch.one_of(*numbers)(n, data, k), batch.one_of(*places)(data)
        _USES[name](batch, tf.tanh(given), rows, at, n)

    return case


def _limited(flat: Any, n: Any) -> Any:
    """Bounds indices by those of all rows, so that kernels do not fail."""
    return tf.clip_by_value(flat, 0, n * PLACES - 1)


def _gather(batch: Batch, given: Any, rows: Any, at: Any, n: Any) -> None:
    flat, dtype = tf.reshape(given, [-1, DEPTH]), batch.one_of(tf.int32, tf.int64)
    index = tf.cast(rows * PLACES + at, dtype)
    index = batch.one_of(index, tf.reshape(index, [-1]))
    _gradients(tf.gather(flat, index), given)


def _gather_nd(batch: Batch, given: Any, rows: Any, at: Any, n: Any) -> None:
    index = batch.one_of(
        tf.stack([rows, at], -1), tf.concat([rows[..., tf.newaxis], at[..., tf.newaxis]], 2)
    )
    index = batch.one_of(index, tf.reshape(index, [-1, 2]))
    _gradients(tf.gather_nd(given, index), given)
    _gradients(tf.gather_nd(given[:, 0], rows[..., tf.newaxis]), given)


def _scatter_nd(batch: Batch, given: Any, rows: Any, at: Any, n: Any) -> None:
    made = tf.scatter_nd(tf.stack([rows, at], -1), given[:, : rows.shape[1]], [n, PLACES, DEPTH])
    _gradients(made, given)


def _tensor_scatter(batch: Batch, given: Any, rows: Any, at: Any, n: Any) -> None:
    updates = tf.square(given[:, : rows.shape[1]])
    _gradients(tf.tensor_scatter_add(given, tf.stack([rows, at], 2), updates), given)


def _segments(batch: Batch, given: Any, rows: Any, at: Any, n: Any) -> None:
    reduce = batch.one_of(tf.unsorted_segment_sum, tf.unsorted_segment_max)
    data = tf.square(given[:, : rows.shape[1]])
    _gradients(reduce(data, rows * PLACES + at, n * PLACES), given)


def _crop(batch: Batch, given: Any, rows: Any, at: Any, n: Any) -> None:
    # Multiples of powers of 2, so that the kernel's float32 rounds nothing.
    images = tf.cast(tf.reshape(tf.round(given * 4), [n, 2, 2, DEPTH]), tf.float32)
    corners = tf.cast(tf.reshape(at, [-1, 1]), tf.float32) * [[0.0, 0.25, 0.25, 0.0]]
    boxes = corners + [[0.0, 0.0, 0.25, 0.75]]
    # Older releases know the numbers of images by another name only.
    made = tf.image.crop_and_resize(images, boxes, tf.reshape(rows, [-1]), crop_size=[2, 2])
    tf.gradients(tf.reduce_sum(tf.square(made)), [images, boxes])


_USES: dict[str, Callable[..., None]] = {
    "GatherV2": _gather,
    "GatherNd": _gather_nd,
    "ScatterNd": _scatter_nd,
    "TensorScatterAdd": _tensor_scatter,
    "UnsortedSegmentSum": _segments,
    "CropAndResize": _crop,
}
TYPES = tuple(_USES)


def _gradients(made: Any, given: Any) -> None:
    # No products: with one row, TensorFlow 1.15 names fewer axes of those that are broadcast.
    tf.gradients(tf.reduce_sum(tf.sin(made)) + tf.reduce_sum(tf.square(made[..., 0])), given)
