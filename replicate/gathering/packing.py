"""Packs small tensors: each that crosses devices costs time however small it is."""

import tensorflow.compat.v1 as tf


def packs(items, describe, how):
    """Yields lists of items whose tensors are to cross devices together.

    Args:
        items: List of anything.
        describe: Function of an item that returns a key, and the bytes of its tensor, None if that
            goes by itself. Those of one key can be packed.
        how: The `Gather`, which says what is small, and how much a pack holds.
    """
    begun = {}  # Those that are not full, by key.
    for item in items:
        key, size = describe(item)
        if not how.packs(size):
            yield [item]
            continue
        pack, total = begun.pop(key, ([], 0))
        pack.append(item)
        if total + size >= how.pack_bytes:
            yield pack
        else:
            begun[key] = pack, total + size
    for pack, _ in begun.values():
        yield pack


def size_of(tensor):
    """Returns the bytes of what can be packed, a tensor of known shape; of all else None."""
    if not isinstance(tensor, tf.Tensor) or not tensor.shape.is_fully_defined():
        return None
    return tensor.shape.num_elements() * tensor.dtype.size


def join(tensors):
    """Returns one tensor of rank 1 that holds the values of all."""
    return tf.concat([_reshape(tensor, [-1]) for tensor in tensors], axis=0)


def part(joined, shapes):
    """Returns the tensors, of these shapes, that `join` was given."""
    parts = tf.split(joined, [shape.num_elements() for shape in shapes])
    return [_reshape(value, shape) for value, shape in zip(parts, shapes)]


def _reshape(tensor, shape):
    rank = len(shape)
    return tensor if tensor.shape.rank == rank == 1 else tf.reshape(tensor, shape)
