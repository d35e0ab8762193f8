"""The program of one tower, in which towers meet only where it says so.

`model_fn` is called once, on the first tower's rows. While it is, it asks here for the values of
all towers: for a sum, for each of them, or for a value that another tower has another of. What it
gets are *marks*, operations that pass on what the first tower has. Once the program is complete,
the towers that it stands for are made, and marks get the values of all of them.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Callable, Iterator, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat import seeds, tpu
from replicate.layouts import MEAN, SUM, Layout, Shard
from replicate.partition.rows import Rows

SCOPE = "replicate/towers/"  # Name scope of marks.

_local = threading.local()


class PerTowerTensor(NamedTuple):
    """A tensor that each tower has another value of.

    Attributes:
        tensor: The first tower's, as the program has it.
        values: N tensors, the towers'.
    """

    tensor: Any
    values: tuple[Any, ...]


class OfTower(NamedTuple):
    """A mark that stands for what another tower has of a tensor."""

    mark: Any
    tensor: Any
    tower: int


def current() -> Program | None:
    """Returns the program that this thread builds, None if it builds none."""
    return getattr(_local, "program", None)


class Program:
    """What the program of one tower says of the others, while it is built.

    Args:
        devices: Device strings of the N towers.
        consolidation: The device string of what runs once.
        rows: The `Rows`.
        summed: Whether the towers' losses are added up, instead of averaged by rows.

    Attributes:
        merging: Whether what is built runs once, for all towers.
        layouts: By reference of a tensor whose towers' values are put together: how.
        per_tower: Tensors whose values differ among towers, each a `PerTowerTensor`.
        of_towers: Marks for the values of single towers, each an `OfTower`.
    """

    def __init__(
        self, devices: Sequence[str], consolidation: str, rows: Rows, summed: bool
    ) -> None:
        self.size = len(devices)
        self.devices = tuple(devices)
        self.consolidation = consolidation
        self.rows = rows
        self.summed = summed
        self.merging = False
        self.layouts: dict[Any, Layout] = {}
        self.per_tower: list[PerTowerTensor] = []
        self.of_towers: list[OfTower] = []
        self.graph = tf.get_default_graph()
        self._scopes = graph_lib.Scopes(self.graph)
        self._index: Any = None
        self._shares: dict[Any, Any] = {}
        self._once: list[tuple[int, int]] = []  # Where what runs once begins and ends in the graph.

    @property
    def index(self) -> Any:
        """The tower's index, an int32 scalar tensor."""
        if self._index is None:
            self._index = self._of_each(lambda index: tf.constant(index, tf.int32))
        return self._index

    @property
    def loss_layout(self) -> Layout:
        """How the towers' losses, and gradients, become those of the batch."""
        return SUM if self.summed else MEAN

    def share(self, dtype: Any) -> Any:
        """Returns the tower's share of the batch's rows, a scalar tensor; None if all are equal."""
        counts = self.rows.counts
        if self.rows.are_known and len(set(counts)) == 1:
            return None
        dtype = tf.as_dtype(dtype).base_dtype
        if dtype not in self._shares:

            def share_of(index: int) -> Any:
                total = tf.cast(tf.maximum(self.rows.total, 1), tf.float64)
                return tf.cast(tf.cast(counts[index], tf.float64) / total, dtype)

            self._shares[dtype] = self._of_each(share_of)
        return self._shares[dtype]

    def whole(self, tensor: Any, layout: Layout) -> Any:
        """Returns what the towers' values make together.

        Args:
            tensor: The first tower's.
            layout: How they are put together: a `Shard` or a `Partial`.
        """
        with seeds.uncounted(), tf.name_scope(SCOPE):
            shape = tensor.shape
            if isinstance(layout, Shard) and shape.rank is not None:
                known = shape.as_list()
                known[layout.axis] = None  # Of a tower alone.
                shape = tf.TensorShape(known)
            towers = tf.placeholder_with_default(tensor, shape)
            with self.running_once():
                mark = tf.identity(towers)
        self.layouts[graph_lib.reference(towers)] = layout
        return mark

    def sum(self, tensor: Any) -> Any:
        """Returns the sum of the towers' values."""
        return self.whole(tensor, SUM)

    def concatenated(self, tensor: Any) -> Any:
        """Returns the rows of all towers, on axis 0."""
        return self.whole(tensor, Shard(0))

    def whole_of(self, tensor: Any) -> Any:
        """Returns a result of the program for the batch.

        Rows are concatenated along axis 0, numbers are averaged by rows, and of all else there is
        the first tower's.
        """
        if tensor.shape.rank != 0:
            return self.concatenated(tensor)
        if tensor.dtype.is_floating:
            return self.whole(tensor, MEAN)
        return self.each(tensor)[0]

    def each(self, tensor: Any) -> list[Any]:
        """Returns what the N towers have of a tensor."""
        marks = []
        with seeds.uncounted(), self.running_once():
            for index, device in enumerate(self.devices):
                with tf.control_dependencies(None), tf.name_scope(SCOPE), tf.device(device):
                    marks.append(tf.identity(tensor, name=f"tower_{index}"))
                self.of_towers.append(OfTower(marks[-1].op, tensor, index))
        return marks

    def tower_has(self, values: Sequence[Any]) -> Any:
        """Returns a tensor of which each tower has one of N values, which run once."""
        alone, device = tf.control_dependencies(None), tf.device(self.devices[0])
        with seeds.uncounted(), self.running_once(), tf.name_scope(SCOPE), alone, device:
            # No constant: nothing static may follow from what others have another of.
            first = tf.placeholder_with_default(values[0], values[0].shape)
        self.per_tower.append(PerTowerTensor(first, (first, *values[1:])))
        return first

    @contextlib.contextmanager
    def running_once(self) -> Iterator[None]:
        """A scope whose operations run once, on the consolidation device."""
        begin = graph_lib.count(self.graph)
        with self._scopes.again(), tf.device(self.consolidation):
            yield
        self._once.append((begin, graph_lib.count(self.graph)))

    def once(self) -> set[Any]:
        """Returns the operations that were made in `running_once`."""
        made = self.graph.get_operations()
        return {operation for begin, end in self._once for operation in made[begin:end]}

    @contextlib.contextmanager
    def in_merge_function(self) -> Iterator[None]:
        """A scope in which the towers are one."""
        merging, self.merging = self.merging, True
        try:
            with seeds.counted(), self.running_once():
                yield
        finally:
            self.merging = merging

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        """The scope in which the program is built."""
        before, _local.program = current(), self
        try:
            with tpu.building_for(self.size):
                yield
        finally:
            _local.program = before

    def _of_each(self, make: Callable[[int], Any]) -> Any:
        values = []
        with seeds.uncounted(), tf.init_scope(), tf.name_scope(SCOPE):
            for index, device in enumerate(self.devices):
                with tf.device(device):
                    values.append(make(index))
        return self.tower_has(values)
