"""Looks for records that claim more bytes than their file has, before TensorFlow reads them.

It takes memory for a record as long as it claims to be: of one that claims a terabyte, the process
dies.
"""

import struct

import tensorflow.compat.v1 as tf

_HEADER = struct.Struct("<QI")  # of a record: its length and a checksum of it
_FOOTER = 4  # bytes of the checksum of its contents


def count_whole_records(path):
    """Returns how many records a TFRecord file has before it ends or one goes beyond its end.

    Only lengths are read, no contents and no checksums.

    Args:
        path: Path of the file, which is not compressed.

    Returns:
        The number of records, an int, and whether they are the whole file, a bool.
    """
    count, end = 0, 0
    with tf.io.gfile.GFile(path, "rb") as file:
        size = file.size()
        while end + _HEADER.size <= size:
            file.seek(end)
            length, _ = _HEADER.unpack(file.read(_HEADER.size))
            following = end + _HEADER.size + length + _FOOTER
            if following > size:
                break
            count, end = count + 1, following
    return count, end == size
