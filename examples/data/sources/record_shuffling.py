"""In which order records of files are seen: shuffled as far as reading in sequence allows.

The contract is that of `shuffling.py`: a stream is a function of its key, it can be entered at any
position, and worker w of W takes the positions p with p mod W = w.

In each epoch, the files are put in a random order, and the records, so lined up, are cut into 48
*lanes* of equal length. Position q of an epoch takes its record from lane q mod 48, where a window
of records is held and shuffled. A worker reads the lanes that its positions fall into: if W
divides 48, one in W; in general, one in gcd(W, 48). To enter an epoch, records are skipped unread,
except one window of each lane.
"""

import math
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from examples.data import shuffling

_LANES = 48  # many numbers of workers divide it
_WINDOWS_BYTES = 256 << 20  # of the windows of all lanes; a copy waits to be read
_SMALLEST_WINDOW = 16  # records
_READERS = 16
_END = tf.int64.max


class Shard(NamedTuple):
    """Consecutive records of a file."""

    path: str
    first: int  # their first record; the file's first is 0
    count: int


def window_size(num_bytes, num_records):
    """Returns the records of a lane's window, for files of so many bytes and records in all."""
    return max(_SMALLEST_WINDOW, _WINDOWS_BYTES * num_records // (num_bytes * _LANES))


def once(shards):
    """Returns a `tf.data.Dataset` of the records of shards, string [], each once, in order."""
    return _read(*_columns(shards))


def shuffled(shards, window, key, start=0, worker=(0, 1)):
    """Returns a worker's part of a stream, from a position on.

    Args:
        shards: List of `Shard`s, with a record at least.
        window: Records of a lane that are shuffled together, see `window_size`.
        key: Int, see `shuffling.stream_key`.
        start: Position >= 0 in the stream of all workers before which records are left out.
        worker: `(w, W)`.

    Returns:
        An endless `tf.data.Dataset` of `(record, position)`, string and int64 scalars.
    """
    columns = _columns(shards)
    num_records = sum(shard.count for shard in shards)
    index, workers = worker
    stride = math.gcd(_LANES, workers)

    def epoch(number):
        begin = number * num_records
        lined_up = _line_up(columns, key, number)
        entered = tf.maximum(start - begin, 0)  # where in the epoch

        def lane(first):
            """Returns the records at first, first + 48, ... of the epoch."""
            lane, seen = tf.math.floormod(first, _LANES), first // _LANES
            longer = num_records % _LANES  # lanes with a record more than the others
            low = lane * (num_records // _LANES) + tf.minimum(lane, longer)
            high = low + num_records // _LANES + tf.cast(lane < longer, tf.int64)
            skipped = seen // window * window
            records = _read(*_cut(lined_up, low + skipped, high))

            def shuffle(window_number, held):
                at = begin + lane + window_number * window * _LANES  # no other window's
                held = tf.gather(held, shuffling.permutation(tf.size(held), key ^ 2, at))
                return tf.data.Dataset.from_tensor_slices(held)

            windows = records.batch(window).enumerate(skipped // window)
            records = windows.flat_map(shuffle).skip(seen - skipped)
            positions = tf.data.Dataset.range(begin + first, _END, _LANES)
            return tf.data.Dataset.zip((records, positions))

        first = entered + tf.math.floormod(index - begin - entered, stride)
        lanes = tf.data.Dataset.range(first, tf.minimum(entered + _LANES, num_records), stride)
        return lanes.interleave(lane, _LANES // stride, 1, min(_READERS, _LANES // stride))

    stream = tf.data.Dataset.range(start // num_records, _END).flat_map(epoch)
    if workers == stride:
        return stream
    return stream.filter(
        lambda record, position: tf.equal(tf.math.floormod(position, workers), index)
    )


def _columns(shards):
    """Returns the paths, string [shards], and the first records and counts, int64 [shards]."""
    paths, firsts, counts = zip(*shards)
    return tf.constant(paths), tf.constant(firsts, tf.int64), tf.constant(counts, tf.int64)


def _line_up(columns, key, number):
    """Returns shards in a random order; the first of them begins anywhere, and ends the line."""
    paths, firsts, counts = (
        tf.gather(column, shuffling.permutation(column.shape[0], key, number)) for column in columns
    )
    # Without this, the lanes of a few files would have the same records in every epoch.
    cut = tf.random.stateless_uniform(
        [], seed=[key ^ 3, number], minval=0, maxval=counts[0], dtype=tf.int64
    )
    return (
        tf.concat([paths, paths[:1]], axis=0),
        tf.concat([firsts[:1] + cut, firsts[1:], firsts[:1]], axis=0),
        tf.concat([counts[:1] - cut, counts[1:], [cut]], axis=0),
    )


def _cut(columns, low, high):
    """Returns the shards of the records from `low` up to `high`, counted over all `columns`."""
    paths, firsts, counts = columns
    begins = tf.cumsum(counts, exclusive=True)
    left_out = tf.clip_by_value(low - begins, 0, counts)
    counts = tf.clip_by_value(high - begins, 0, counts) - left_out
    needed = counts > 0
    return tuple(tf.boolean_mask(x, needed) for x in (paths, firsts + left_out, counts))


def _read(paths, firsts, counts):
    return tf.data.Dataset.from_tensor_slices((paths, firsts, counts)).flat_map(
        lambda path, first, count: tf.data.TFRecordDataset(path).skip(first).take(count)
    )
