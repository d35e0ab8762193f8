"""Packs small tensors, since each transfer between devices costs time, however small it is."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, Sequence

import tensorflow.compat.v1 as tf

from replicate.reduction.options import Reduction

WEIGHTS_SCOPE = "replicate/packed_weights/"  # Name scope of the operations that pack weights.


def packs(
    items: Iterable[Any], describe: Callable[[Any], tuple[Any, int | None]], how: Reduction
) -> Iterator[list[Any]]:
    """Yields lists of items whose tensors cross devices together.

    Args:
        items: List of any objects.
        describe: Function of an item that returns a key and the size of its tensor in bytes, None
            if that crosses alone. Items with the same key can share a pack.
        how: The `Reduction`, which limits the sizes of tensors and packs.
    """
    begun: dict[Any, tuple[list[Any], int]] = {}  # Packs that are not full, by key.
    for item in items:
        key, size = describe(item)
        if size is None or not how.packs(size):
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


def size_of(tensor: Any) -> int | None:
    """Returns the size of a tensor in bytes; None unless it is a tensor of static shape."""
    if not isinstance(tensor, tf.Tensor) or not tensor.shape.is_fully_defined():
        return None
    return tensor.shape.num_elements() * tensor.dtype.size


def size_of_variable(variable: Any) -> int:
    """Returns the size of a variable in bytes, 0 if its shape is not static."""
    return (variable.shape.num_elements() or 0) * variable.dtype.base_dtype.size


def join(tensors: Sequence[Any]) -> Any:
    """Returns one tensor of rank 1 that holds the values of all `tensors`, of one type."""
    reshape = _Reshape()
    return tf.concat([reshape(tensor, [-1]) for tensor in tensors], axis=0)


def part(joined: Any, shapes: Sequence[Any]) -> list[Any]:
    """Returns the tensors, of the static `shapes`, that `join` was given."""
    reshape = _Reshape()
    parts = tf.split(joined, [shape.num_elements() for shape in shapes])
    return [reshape(value, shape.as_list()) for value, shape in zip(parts, shapes)]


def slices(joined: Any, shapes: Sequence[Any]) -> list[Any]:
    """Returns the same tensors as `part`, each as the first output of an operation.

    A model needs this: when TensorFlow's graph optimizer fuses a layer normalisation, it uses the
    first output of the operation that gives the scale or the offset, even if the model uses
    another one.
    """
    values, begin, sizes = part(joined, shapes), 0, {}
    for position, shape in enumerate(shapes):
        size = shape.num_elements()
        if shape.rank == 1:  # All others come from a reshape, which has one output.
            if size not in sizes:
                sizes[size] = tf.constant([size])
            values[position] = tf.slice(joined, [begin], sizes[size])
            values[position].set_shape(shape)
        begin += size
    return values


class _Reshape:
    """Reshapes tensors, with one constant for each shape."""

    def __init__(self) -> None:
        self._constants: dict[Any, Any] = {}

    def __call__(self, tensor: Any, shape: Any) -> Any:
        shape = tuple(shape)
        if tensor.shape.rank == len(shape) == 1:
            return tensor
        if shape not in self._constants:
            self._constants[shape] = tf.constant(shape, tf.int32)
        return tf.reshape(tensor, self._constants[shape])
