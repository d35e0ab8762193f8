"""A random operation of a case, which can be built in several ways, and run on what towers have."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, Callable, Iterator, NamedTuple, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from layouts import parts
from layouts.cases import Arguments, Fixed, Made
from replicate.compat import graph as graph_lib


@dataclasses.dataclass(frozen=True)
class Operand:
    """An input: its value, None if the graph makes it, and whether it is a constant there."""

    value: np.ndarray | None
    fixed: bool = False
    build: Callable[[], Any] | None = None

    def __str__(self) -> str:
        if self.value is None:
            return "made"
        if self.fixed:
            return f"fixed {self.value.tolist()}"
        return f"{self.value.dtype}{list(self.value.shape)}"

    @property
    def dtype(self) -> tf.DType:
        assert self.value is not None
        return tf.as_dtype(self.value.dtype)

    def placeholder(self, shape: Any) -> Any:
        """Returns a new tensor; the graph knows its type, and `shape`."""
        return tf.placeholder(self.dtype, shape)


@dataclasses.dataclass(frozen=True)
class _Place:
    index: int


class Draw(NamedTuple):
    """Values of the inputs, and what the operation gives for them."""

    values: Sequence[np.ndarray | None]
    outputs: list[np.ndarray]


class Operation:
    """An operation of a type, in the default graph.

    Args:
        name: The type.
        arguments: What a case has drawn.
        draw: Source of random numbers.

    Attributes:
        operands: The inputs, in the order in which the graph has them.
        draws: What it gives for the case's values, and for others of the same shapes.
        is_random: Whether it gives other results each time.
        within: How much its results may differ by rounding.
    """

    def __init__(self, name: str, arguments: Arguments, draw: np.random.RandomState) -> None:
        self.name = name
        self.operands: list[Operand] = []
        attributes = _attributes(name)
        self._keywords: dict[str, Any] = {
            key: _plain(argument) if key in attributes else self._keyword(argument)
            for key, argument in arguments.items()
        }
        self._order = list(range(len(self.operands)))
        self._feeds = [
            operand.placeholder(None) if operand.build is None else operand.build()
            for operand in self.operands
        ]
        self._tower = self.build(self._feeds)
        self._sort()
        self._session = _session()
        self._session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        self.draws = list(self._drawn(draw))
        first = self.draws[0]
        again = self.run(first.values)
        self.is_random = not all(parts.same(a, b, 0) for a, b in zip(again, first.outputs))
        values = [value for value in first.values if value is not None]
        self.within = parts.tolerance([array.dtype for array in [*values, *first.outputs]])

    def _keyword(self, argument: Any) -> Any:
        if isinstance(argument, list):
            return [self._keyword(entry) for entry in argument]
        if isinstance(argument, Made):
            self.operands.append(Operand(None, build=argument.build))
        elif isinstance(argument, Fixed):
            self.operands.append(Operand(_array(argument.array), fixed=True))
        elif isinstance(argument, (np.ndarray, np.generic, float)):
            self.operands.append(Operand(_array(argument)))
        else:
            raise ValueError(f"{self.name}: {argument!r} is neither an array nor `Fixed`.")
        return _Place(len(self.operands) - 1)

    def _sort(self) -> None:
        """Brings operands into the order that the graph has, which is not that of arguments."""
        places = {graph_lib.reference(tensor): i for i, tensor in enumerate(self._feeds)}
        found = [places.get(graph_lib.reference(tensor)) for tensor in self._tower.inputs]
        self._order = [found.index(i) for i in range(len(found))]
        self.operands = [self.operands[i] for i in found]  # type: ignore[index]
        self._feeds = list(self._tower.inputs)

    def build(self, tensors: Sequence[Any]) -> Any:
        """Returns the operation of these inputs, as the default graph makes it."""

        def filled(argument: Any) -> Any:
            if isinstance(argument, list):
                return [filled(entry) for entry in argument]
            return (
                tensors[self._order[argument.index]] if isinstance(argument, _Place) else argument
            )

        keywords = {key: filled(argument) for key, argument in self._keywords.items()}
        made = tf.nest.flatten(getattr(tf.raw_ops, self.name)(**keywords))[0]
        return made if isinstance(made, tf.Operation) else made.op

    def run(self, values: Sequence[np.ndarray | None]) -> list[np.ndarray]:
        """Returns the outputs for values of the inputs."""
        feeds = {
            tensor: value
            for tensor, value, operand in zip(self._feeds, values, self.operands)
            if operand.build is None
        }
        return [_array(made) for made in self._session.run(list(self._tower.outputs), feeds)]

    def _drawn(self, draw: np.random.RandomState) -> Iterator[Draw]:
        """Yields what the case has drawn, and others of the same shapes, if they may be."""
        given = [operand.value for operand in self.operands]
        first = Draw(given, self.run(given))
        yield first
        for _ in range(4):
            values = [
                operand.value
                if operand.value is None or operand.fixed
                else _like(operand.value, draw)
                for operand in self.operands
            ]
            with contextlib.suppress(tf.errors.OpError):
                made = self.run(values)
                # NaN often comes from values for which the result is not defined.
                if any(map(_has_nan, first.outputs)) or not any(map(_has_nan, made)):
                    yield Draw(values, made)

    def close(self) -> None:
        """Closes its session."""
        self._session.close()

    def attributes(self) -> dict[str, Any]:
        """Returns the arguments that are no inputs."""
        return {
            key: argument
            for key, argument in self._keywords.items()
            if not any(isinstance(x, _Place) for x in tf.nest.flatten(argument))
        }


def _session() -> tf.Session:
    """Returns a session that runs small operations one after the other, as they are."""
    config = tf.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)
    config.device_count["CPU"] = 1
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    return tf.Session(config=config)


def _attributes(name: str) -> set[str]:
    """Returns the names of a type's attributes, for which there is no public function."""
    graph = tf.get_default_graph()
    look_up = graph._get_op_def if hasattr(graph, "_get_op_def") else graph.op_def_for_type
    names = {attribute.name for attribute in look_up(name).attr}
    return names | {"axis"} if "squeeze_dims" in names else names  # As `Squeeze` calls it.


def message(error: Exception) -> str:
    """Returns what an error says, in a line; TensorFlow tells where an operation was made first."""
    lines = str(getattr(error, "message", error)).strip().split("\n")
    node = [index for index, line in enumerate(lines[:-1]) if line.startswith("Node: ")]
    return lines[node[0] + 1 if node else 0][:200]


def _plain(argument: Any) -> Any:
    return argument.item() if isinstance(argument, np.generic) else argument


def _has_nan(value: np.ndarray) -> bool:
    return value.dtype.kind in "fc" and bool(np.any(np.isnan(value)))


def _like(value: np.ndarray, draw: np.random.RandomState) -> np.ndarray:
    """Draws other entries, such as they may be where those of `value` may."""
    if not value.size:
        return value
    if value.dtype.kind == "f" and np.any(value < 0):
        return np.asarray(draw.randn(*value.shape), value.dtype)
    if value.dtype.kind == "b":
        return np.asarray(draw.rand(*value.shape) < 0.5)
    if value.ndim == 1 and value.dtype.kind in "iu" and np.all(np.diff(value) >= 0):
        return np.sort(draw.choice(value, value.shape))
    return draw.permutation(value.ravel()).reshape(value.shape)


def _array(value: Any) -> np.ndarray:
    made = np.asarray(value)
    if made.dtype.kind in "US":  # As TensorFlow has strings.
        return made.astype(object)
    if not isinstance(value, (np.ndarray, np.generic)) and made.dtype == np.int64:
        return made.astype(np.int32)
    return made
