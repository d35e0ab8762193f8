"""Packs small tensors, since each transfer between devices costs time, however small it is."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat.node_builder import NodeBuilder
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


class Packing(NodeBuilder):
    """A `NodeBuilder` that also packs tensors, and takes packs apart, on any devices."""

    def join(self, tensors: Sequence[Any], device: str) -> str:
        """Returns the name of a tensor of rank 1 that holds the values of `tensors`, of one type.

        Args:
            tensors: At least one tensor.
            device: Device string of the operations.
        """
        flat = []
        for tensor in tensors:
            shape = tensor.shape.as_list()
            flat.append(self._reshape(self.name_of(tensor), tensor.dtype, shape, [-1], device))
        inputs = [*flat, self.constant(0, device)]
        return self.add("ConcatV2", inputs, tensors[0].dtype, device, N=len(flat), Tidx=tf.int32)

    def part(self, joined: Any, dtype: Any, shapes: Sequence[Any], device: str) -> list[str]:
        """Returns the names of the tensors of which a pack was made.

        Args:
            joined: A pack: a tensor of the graph, or the name that `join` returned.
            dtype: Its type.
            shapes: The static shapes of the tensors.
            device: Device string of the operations.
        """
        sizes = [shape.num_elements() for shape in shapes]
        inputs = [self.name_of(joined), self.constant(sizes, device), self.constant(0, device)]
        parted = self.add("SplitV", inputs, dtype, device, num_split=len(sizes), Tlen=tf.int32)
        return [
            self._reshape(f"{parted}:{index}", dtype, [size], shape.as_list(), device)
            for index, (size, shape) in enumerate(zip(sizes, shapes))
        ]

    def slices(self, joined: Any, dtype: Any, shapes: Sequence[Any], device: str) -> list[str]:
        """Returns the same tensors as `part`, each as the first output of an operation.

        A model needs this: when TensorFlow's graph optimizer fuses a layer normalisation, it uses
        the first output of the operation that gives the scale or the offset, even if the model
        uses another one.
        """
        made, begin = self.part(joined, dtype, shapes, device), 0
        for position, shape in enumerate(shapes):
            size = shape.num_elements()
            if shape.rank == 1:  # All others come from a reshape, which has one output.
                place = [self.constant([begin], device), self.constant([size], device)]
                inputs = [self.name_of(joined), *place]
                made[position] = self.add("Slice", inputs, dtype, device, Index=tf.int32)
            begin += size
        return made

    def _reshape(
        self, name: str, dtype: Any, shape: list[int], wanted: list[int], device: str
    ) -> str:
        """Returns the name of a tensor of the shape `wanted`; vectors stay as they are."""
        if len(shape) == len(wanted) == 1:
            return name
        inputs = [name, self.constant(wanted, device)]
        return self.add("Reshape", inputs, dtype, device, Tshape=tf.int32)
