"""Packs small tensors: each that crosses devices costs time however small it is.

What is done to every element alike is done to a pack before it is parted: an operation for each
variable costs time, too.
"""

import contextlib

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
    """Returns one tensor of rank 1 that holds the values of all; of what `part` made, as it was."""
    whole, positions = wholes(tensors)[0]
    if whole.shape.rank == 1 and positions == [[i] for i in range(len(tensors))]:
        return whole
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


def wholes(tensors):
    """Finds the packs that all parts of are among tensors, by the operations that made them.

    Args:
        tensors: List of tensors and anything else.

    Returns:
        Pairs of a tensor and the positions in the list of what it holds the values of: of a pack
        those of its parts, in order, for each a list; of all else, its own. Eager tensors are never
        of a pack.
    """
    found, by_split = [], {}
    for position, tensor in enumerate(tensors):
        split, part_of = _origin(tensor)
        if split is None:
            found.append((tensor, [[position]]))
        else:
            parts = by_split.setdefault(id(split), (split, [[] for _ in split.outputs]))[1]
            parts[part_of].append(position)
    for split, parts in by_split.values():
        if all(parts) and all(_are_of_one_shape([tensors[i] for i in same]) for same in parts):
            found.append((split.inputs[0], parts))
        else:
            found += [(tensors[i], [[i]]) for positions in parts for i in positions]
    return found


def each(fn, tensors):
    """Calls a function of the elements of a tensor, on its device, with packs as they are.

    Args:
        fn: Function of a tensor, or of anything else in the list, that returns one of the same
            shape, each of whose elements depends on the same one of the given.
        tensors: List of what `wholes` takes.

    Returns:
        The list of what it returns for each.
    """
    made = [None] * len(tensors)
    for whole, positions in wholes(tensors):
        with _device_of(whole):
            parts = [fn(whole)]
            if whole is not tensors[positions[0][0]]:
                parts = part(parts[0], [tensors[same[0]].shape for same in positions])
        for same, value in zip(positions, parts):
            for position in same:
                made[position] = value
    return made


def _are_of_one_shape(tensors):
    return all(tensor.shape == tensors[0].shape for tensor in tensors)


def _device_of(tensor):
    """A scope of the device of a tensor or gradient; of what has none, of that which is current."""
    device = getattr(tensor, "device", None)
    return tf.device(device) if device else contextlib.nullcontext()


def _origin(tensor):
    """Returns the operation that parted a pack of which this is a part, and which one, or None."""
    if (
        isinstance(tensor, tf.Tensor)
        and hasattr(tensor, "graph")
        and tensor.shape.is_fully_defined()
    ):
        op, index = tensor.op, tensor.value_index
        if op.type == "Reshape":
            op, index = op.inputs[0].op, op.inputs[0].value_index
        if op.type == "SplitV" and op.inputs[0].shape.rank == 1:
            return op, index
    return None, None


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
