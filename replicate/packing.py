"""Many tensors as one, in few operations: building each operation costs time, in every tower."""

import numpy as np
import tensorflow.compat.v1 as tf


class Packing:
    """How tensors of known shapes are put into one.

    Tensors with rows of one shape form a *block*, in which they follow each other along axis 0.

    Args:
        shapes: List of `tf.TensorShape`, fully defined.
    """

    def __init__(self, shapes):
        self._shapes = [shape.as_list() for shape in shapes]
        self._blocks = {}  # Positions of the tensors, by the shape of their rows.
        for position, shape in enumerate(self._shapes):
            self._blocks.setdefault(tuple(shape[1:]), []).append(position)

    def join(self, tensors):
        """Returns one tensor that holds `tensors`, a list of one type; `part` undoes it."""
        blocks = [
            _concat([_reshape(tensors[i], self._shapes[i] or [1]) for i in block])
            for block in self._blocks.values()
        ]
        return _concat([_reshape(block, [-1]) for block in blocks] if len(blocks) > 1 else blocks)

    def part(self, joined):
        """Returns the list of the tensors that a tensor like those of `join` holds."""
        rows = [[(self._shapes[i] or [1])[0] for i in block] for block in self._blocks.values()]
        sizes = [sum(each) * int(np.prod(row)) for each, row in zip(rows, self._blocks)]
        tensors = {}
        for block, each, row in zip(_split(joined, sizes), rows, self._blocks):
            parts = _split(_reshape(block, [sum(each), *row]), each)
            tensors.update(zip(self._blocks[row], parts))
        return [_reshape(tensors[i], shape) for i, shape in enumerate(self._shapes)]


def _concat(tensors):
    return tensors[0] if len(tensors) == 1 else tf.concat(tensors, axis=0)


def _split(tensor, sizes):
    return [tensor] if len(sizes) == 1 else tf.split(tensor, sizes)


def _reshape(tensor, shape):
    known = tensor.shape.as_list()
    flat = shape == [-1] and len(known) == 1
    return tensor if flat or known == shape else tf.reshape(tensor, shape)
