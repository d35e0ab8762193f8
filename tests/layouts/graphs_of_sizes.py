"""Graphs that do not know some sizes, and what these are when the graph runs."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.layouts import Facts, symbol
from replicate.layouts.dims import ROWS, Dim, Monomial

# Sizes of n and of others, in turn: 0 and 1 are where broadcasts and divisions are special.
SIZES = ((4, 3, 5), (1, 0, 2), (3, 1, 1), (2, 2, 0), (5, 1, 0))


class Graph:
    """A graph of inputs that have n rows, and other sizes that are not known.

    Args:
        shapes: Of the inputs: integers, or `"n"`, `"t"` and `"u"`.
        is_static: Whether the graph knows all of these.
        which: Which of `SIZES` they are then.

    Attributes:
        inputs: The tensors.
        facts: What is known of the graph.
    """

    def __init__(
        self, shapes: Sequence[Sequence[Any]], is_static: bool = False, which: int = 0
    ) -> None:
        self._shapes = shapes
        self._is_static = is_static
        self._which = which
        rows = self.sizes(which)["n"]
        self.facts = Facts(rows if is_static else symbol(ROWS))
        known = [self._known(shape, which) for shape in shapes]
        self.inputs = [tf.placeholder(tf.float64, shape) for shape in known]
        for tensor, shape in zip(self.inputs, shapes):
            if not is_static and "n" in shape:
                self.facts.put(tensor, list(shape).index("n"), 1)
        config = tf.ConfigProto(device_count={"CPU": 1})
        # The graph optimizer mistakes some slices for whole tensors.
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        self._session = tf.Session(config=config)

    def _known(self, shape: Sequence[Any], which: int) -> list[int | None]:
        sizes = self.sizes(which)
        return [
            size if isinstance(size, int) else sizes[size] if self._is_static else None
            for size in shape
        ]

    def sizes(self, which: int) -> dict[str, int]:
        """Returns what n and the other sizes are."""
        return dict(zip("ntu", SIZES[which]))

    def feeds(self, which: int) -> dict[Any, np.ndarray]:
        """Returns inputs of these sizes."""
        sizes = self.sizes(which)
        return {
            tensor: np.ones([size if isinstance(size, int) else sizes[size] for size in shape])
            for tensor, shape in zip(self.inputs, self._shapes)
        }

    def turns(self) -> Sequence[int]:
        """Returns which of `SIZES` the inputs can have."""
        return [self._which] if self._is_static else range(len(SIZES))

    def run(self, tensors: Sequence[Any], which: int) -> list[np.ndarray | None]:
        """Returns the values of tensors, None of those that cannot be computed."""
        feeds = self.feeds(which)
        try:
            return list(self._session.run(list(tensors), feeds))
        except tf.errors.OpError:
            if len(tensors) == 1:
                return [None]
            half = len(tensors) // 2
            return self.run(tensors[:half], which) + self.run(tensors[half:], which)

    def number(self, dim: Dim, which: int) -> int | None:
        """Returns what a size is, None if it is one that cannot be computed."""
        if not isinstance(dim, Monomial):
            return dim
        made = dim.coefficient
        for name in dim.symbols:
            own = self._symbol(name, which)
            if own is None:
                return None
            made *= own
        return made

    def _symbol(self, name: str, which: int) -> int | None:
        if name == ROWS:
            return self.sizes(which)["n"]
        tensor, axis, is_entry, of_each = self.facts.symbols[name]
        assert not of_each  # Sizes are those of the whole batch.
        (value,) = self.run([tensor], which)
        if value is None:
            return None
        return int(value[axis] if is_entry else value.shape[axis])

    def integers(self, value: np.ndarray, which: int) -> np.ndarray:
        """Returns an array of sizes as numbers, with None for those that are not known."""
        made = np.empty(value.shape, object)
        for place, dim in np.ndenumerate(value):
            made[place] = None if dim is None else self.number(dim, which)
        return made

    def initialize(self) -> None:
        """Initializes variables."""
        self._session.run(tf.global_variables_initializer())

    def close(self) -> None:
        """Closes the session."""
        self._session.close()


def integer_tensors(graph: Any) -> list[Any]:
    """Returns all tensors of integers in a graph that are no references."""
    return [
        tensor
        for operation in sorted(graph.get_operations(), key=graph_lib.id_of)
        for tensor in operation.outputs
        if tensor.dtype.is_integer
    ]
