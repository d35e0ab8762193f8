"""Packs small tensors: each that crosses devices costs time however small it is."""

import tensorflow.compat.v1 as tf

WEIGHTS_SCOPE = "replicate/packed_weights/"  # Name scope of the operations that pack weights.


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


def size_of_variable(variable):
    """Returns the bytes of a variable, 0 if its shape is not static."""
    return (variable.shape.num_elements() or 0) * variable.dtype.base_dtype.size


def join(tensors):
    """Returns one tensor of rank 1 that holds the values of all."""
    reshape = _Reshape()
    return tf.concat([reshape(tensor, [-1]) for tensor in tensors], axis=0)


def part(joined, shapes):
    """Returns the tensors, of these shapes, that `join` was given."""
    reshape = _Reshape()
    parts = tf.split(joined, [shape.num_elements() for shape in shapes])
    return [reshape(value, shape.as_list()) for value, shape in zip(parts, shapes)]


def slices(joined, shapes):
    """Returns what `part` does, each the first output of an operation.

    For what a model takes: where TensorFlow's optimiser fuses a layer normalisation, it takes the
    first output of whatever gives the scale and the offset, though these be another one.
    """
    values, begin, sizes = part(joined, shapes), 0, {}
    for position, shape in enumerate(shapes):
        size = shape.num_elements()
        if shape.rank == 1:  # Others are given their shape by an operation of their own.
            if size not in sizes:
                sizes[size] = tf.constant([size])
            values[position] = tf.slice(joined, [begin], sizes[size])
            values[position].set_shape(shape)
        begin += size
    return values


class _Reshape:
    """Gives tensors other shapes, by one constant for each shape."""

    def __init__(self):
        self._constants = {}

    def __call__(self, tensor, shape):
        shape = tuple(shape)
        if tensor.shape.rank == len(shape) == 1:
            return tensor
        if shape not in self._constants:
            self._constants[shape] = tf.constant(shape, tf.int32)
        return tf.reshape(tensor, self._constants[shape])
