"""Finds the rows of tensors that have more or fewer of them than the batch, by static shapes.

In one step, a model may take 64 labeled and 448 unlabeled examples, time-major sequences, and
weights of classes. One device takes any tensors, so towers do, too: however a tensor is split, its
values are the same. Only speed depends on it.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate.batch import splitting


class Leaf(NamedTuple):
    """A tensor of the batch that has an axis.

    Attributes:
        path: Its path in features and labels.
        tensor: The dense, sparse or ragged tensor.
        axis: Its axis of rows, counted from 0.
    """

    path: str
    tensor: Any
    axis: int

    @property
    def size(self) -> int | None:
        """The static size of that axis, None if it is unknown."""
        return splitting.known_rows(self.tensor, self.axis)

    @property
    def is_dense(self) -> bool:
        """Whether it is neither sparse nor ragged."""
        return isinstance(self.tensor, tf.Tensor)


class Rows(NamedTuple):
    """Where a tensor has the rows of the batch: its axis, and how many entries a row has there."""

    axis: int
    times: int = 1


def find(leaves: Sequence[Leaf]) -> list[Rows | None]:
    """Returns the `Rows` of each tensor; None if it has none, so that every tower gets all of it.

    Tensors of unknown size are taken to have one size. The batch has it if most labels do; if half
    of them do, or there are none, if most tensors do. Else, if static sizes differ, the batch has
    that of most labels, or without labels, of most features; among equals, the one with the most
    tensors of a multiple of it, and then the largest.

    A tensor whose size is a multiple has several entries for each row. Else, if another axis has
    the size of the batch, its rows are there. An axis of rows that a user names stays.
    """
    # A tensor without entries has no say; one with a single entry has it if no other tensor has.
    voters = [leaf for leaf in leaves if leaf.size != 0]
    voters = [leaf for leaf in voters if leaf.size != 1] or voters
    if _is_unknown(voters):
        return [_rows(leaf, None) for leaf in leaves]
    if len({leaf.size for leaf in leaves} - {None}) < 2:
        return [Rows(leaf.axis) for leaf in leaves]
    named = [leaf for leaf in voters if leaf.size is not None]
    votes = [leaf.size for leaf in _labels(named) or named]

    def support(size: Any) -> tuple[int, int, int]:
        multiples = sum(leaf.size % size == 0 for leaf in named)
        return votes.count(size), multiples, size

    size = max(votes, key=support)
    return [_rows(leaf, size) for leaf in leaves]


def _is_unknown(voters: Sequence[Leaf]) -> bool:
    """Whether the batch has the size of the tensors whose size is unknown."""
    for some in (_labels(voters), voters):
        dense = [leaf for leaf in some if leaf.is_dense]
        known = sum(leaf.size is not None for leaf in dense)
        if 2 * known != len(dense):
            return 2 * known < len(dense)
    return False


def _labels(leaves: Sequence[Leaf]) -> list[Leaf]:
    return [leaf for leaf in leaves if leaf.path.startswith("labels")]


def _rows(leaf: Leaf, size: int | None) -> Rows | None:
    """Returns the `Rows` of a tensor in a batch of `size` rows, None if that is unknown."""
    # Two sizes that are not both known are compared in each step.
    if leaf.axis or not leaf.is_dense or leaf.size in (None, size):
        return Rows(leaf.axis)
    if size is None:
        return None
    if size and leaf.size and leaf.size % size == 0:
        return Rows(leaf.axis, leaf.size // size)
    shape = leaf.tensor.shape.as_list()
    return Rows(shape.index(size)) if size in shape else None
