"""In which order images are seen: a function of the seed and the step, so that runs can resume.

A *stream* is an endless sequence of rows of a split: one epoch after another, each in an order of
its own. A *position* counts rows from the beginning of a stream. W workers share a stream: worker w
takes the positions p with p mod W = w.
"""

import hashlib

import tensorflow.compat.v1 as tf

_END = tf.int64.max


def stream_key(seed, name):
    """Returns a number in [0, 2⁶³) for the random choices of a stream.

    Args:
        seed: Int.
        name: String; streams of different names are independent of each other.
    """
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def shuffled(num_rows, key, start=0, worker=(0, 1)):
    """Returns a worker's part of a stream, from a position on.

    Args:
        num_rows: Rows of the split, > 0.
        key: Int, see `stream_key`.
        start: Position >= 0 in the stream of all workers before which rows are left out, as they
            have been seen.
        worker: `(w, W)`.

    Returns:
        An endless `tf.data.Dataset` of `(row, position)`, int64 scalars.
    """
    index, workers = worker

    def epoch(number):
        begin, end = number * num_rows, (number + 1) * num_rows
        first = tf.maximum(begin, start)
        first += tf.math.floormod(index - first, workers)
        positions = tf.range(tf.minimum(first, end), end, workers)
        rows = tf.gather(permutation(num_rows, key, number), positions - begin)
        return tf.data.Dataset.from_tensor_slices((rows, positions))

    return tf.data.Dataset.range(start // num_rows, _END).flat_map(epoch)


def permutation(size, key, number):
    """Returns the numbers from 0 to size - 1 in an order that is a function of `key` and `number`.

    Not `Dataset.shuffle`, whose order cannot be entered in its middle.

    Args:
        size: Int, or int scalar.
        key: Int, see `stream_key`.
        number: int64 scalar.

    Returns:
        int64 [size].
    """
    noise = tf.random.stateless_uniform(
        [size], seed=[key, number], minval=None, maxval=None, dtype=tf.int64
    )
    return tf.cast(tf.argsort(noise, stable=True), tf.int64)


def once(num_rows):
    """Returns a `tf.data.Dataset` of `(row, position)`: every row once, in a fixed order."""
    rows = tf.data.Dataset.range(num_rows)
    return tf.data.Dataset.zip((rows, rows))
