"""The program of one tower, in which towers only exchange values if it asks for that.

`model_fn` is called once, on the first tower's rows. Meanwhile it can ask for values of all towers:
a sum, the value of each of them, or a value that differs among towers. The result is a *mark*, an
operation that passes on the first tower's value. When the program is complete, the other towers are
made as copies, and marks get the values of all towers.
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
    """A tensor whose value differs among towers.

    Attributes:
        tensor: The first tower's, as the program has it.
        values: N tensors, the towers'.
    """

    tensor: Any
    values: tuple[Any, ...]


class OfTower(NamedTuple):
    """A mark that stands for the value of a tensor in one of the towers."""

    mark: Any
    tensor: Any
    tower: int


def current() -> Program | None:
    """Returns the program that this thread is building, None if there is none."""
    return getattr(_local, "program", None)


class Program:
    """Records the references of one tower's program to other towers, while it is built.

    Args:
        devices: Device strings of the N towers.
        consolidation: Device string of operations that run once.
        rows: The `Rows`.
        summed: Whether the towers' losses are added up, instead of averaged by rows.

    Attributes:
        merging: Whether a merge function is being called, which runs once for all towers.
        layouts: By reference of a tensor whose values in towers are reduced or concatenated: the
            layout that defines how.
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
        # Ranges of indices in the graph of operations that run once.
        self._once: list[tuple[int, int]] = []

    @property
    def index(self) -> Any:
        """The tower's index, an int32 scalar tensor."""
        if self._index is None:
            self._index = self._of_each(lambda index: tf.constant(index, tf.int32))
        return self._index

    @property
    def loss_layout(self) -> Layout:
        """The partial layout of the towers' losses and gradients."""
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
        """Returns a mark for the towers' values, reduced or concatenated.

        Args:
            tensor: The first tower's tensor.
            layout: A `Shard` or a `Partial`, by which they are joined.
        """
        with seeds.uncounted(), tf.name_scope(SCOPE):
            shape = tensor.shape
            if isinstance(layout, Shard) and shape.rank is not None:
                known = shape.as_list()
                known[layout.axis] = None  # The size of a single tower.
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
        """Returns the rows of all towers, concatenated on axis 0."""
        return self.whole(tensor, Shard(0))

    def whole_of(self, tensor: Any) -> Any:
        """Returns a result of the program for the whole batch.

        Tensors with axes are concatenated on axis 0, floating-point scalars are averaged by rows,
        and other scalars are the first tower's.
        """
        if tensor.shape.rank != 0:
            return self.concatenated(tensor)
        if tensor.dtype.is_floating:
            return self.whole(tensor, MEAN)
        return self.each(tensor)[0]

    def each(self, tensor: Any) -> list[Any]:
        """Returns marks for the N towers' values of a tensor."""
        marks = []
        with seeds.uncounted(), self.running_once():
            for index, device in enumerate(self.devices):
                with tf.control_dependencies(None), tf.name_scope(SCOPE), tf.device(device):
                    marks.append(tf.identity(tensor, name=f"tower_{index}"))
                self.of_towers.append(OfTower(marks[-1].op, tensor, index))
        return marks

    def tower_has(self, values: Sequence[Any]) -> Any:
        """Returns a tensor that has one of N values, which are computed once, in each tower."""
        alone, device = tf.control_dependencies(None), tf.device(self.devices[0])
        with seeds.uncounted(), self.running_once(), tf.name_scope(SCOPE), alone, device:
            # Not a constant, from which TensorFlow would infer static facts of the first tower.
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

    def operations_run_once(self) -> set[Any]:
        """Returns the operations that were made in `running_once`."""
        made = self.graph.get_operations()
        return {operation for begin, end in self._once for operation in made[begin:end]}

    @contextlib.contextmanager
    def in_merge_function(self) -> Iterator[None]:
        """A scope in which operations run once, for all towers."""
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
