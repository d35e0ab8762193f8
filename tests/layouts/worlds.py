"""Builds an operation in graphs that know everything of it before they run, or less and less."""

from __future__ import annotations

from typing import Any, Collection, Iterator, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from layouts.operations import Operation
from replicate.compat import graph as graph_lib
from replicate.layouts import Facts, symbol, values
from replicate.layouts.dims import ROWS, Dim, Monomial, times
from replicate.layouts.layout import Layout, Shard

Shape = Optional[Tuple[Dim, ...]]
Integers = Optional[np.ndarray]

# So many ways in which integers follow from the number of rows are tried.
MASKS = 4


class Known(Facts):
    """Facts of an operation's outputs, where those of its inputs are given."""

    def __init__(self, rows: Dim, shapes: dict[Any, Shape], integers: dict[Any, Integers]) -> None:
        super().__init__(rows)
        self._shapes = shapes
        self._integers = integers

    def count(self, unit: str) -> Dim:
        return self.rows  # Whatever it is that is split.

    def dims(self, tensor: Any) -> Shape:
        key = graph_lib.reference(tensor)
        return self._shapes[key] if key in self._shapes else super().dims(tensor)

    def value(self, tensor: Any) -> Integers:
        key = graph_lib.reference(tensor)
        return self._integers[key] if key in self._integers else super().value(tensor)


class World(NamedTuple):
    """An operation as a graph has it.

    Attributes:
        name: Its description in reports.
        total: The number of rows.
        operation: The `tf.Operation`.
        is_static: Whether the graph knows the number of rows.
        values: Of each input: its value.
        integers: Of each input that is `Fixed`: what is known of it.
        shapes: What has been found to be known of shapes.
    """

    name: str
    total: int
    operation: Any
    is_static: bool
    values: tuple[np.ndarray | None, ...]
    integers: dict[Any, Integers]
    shapes: dict[Any, Shape]

    @property
    def rows(self) -> Dim:
        return self.total if self.is_static else symbol(ROWS)

    def facts(self, combination: Sequence[Layout], how: str, draw: np.random.RandomState) -> Known:
        """Returns the facts about the operation if its inputs have these layouts.

        Args:
            combination: The layouts.
            how: What is known of sizes that the graph does not know, and that are not those of
                rows: they are a multiple of n by inference, `'rows'`, or an integer, `'sizes'`, or
                any of these, or not known at all, `'any'`.
            draw: Where `how` is `'any'`.
        """
        shapes: dict[Any, Shape] = {}
        for index, (tensor, layout) in enumerate(zip(self.operation.inputs, combination)):
            value = self.values[index]
            if value is None:
                continue
            if tensor.shape.rank is None:
                shapes[graph_lib.reference(tensor)] = None
                continue
            axis = layout.axis if isinstance(layout, Shard) else None
            key = index, axis, how
            made = self.shapes.get(key)
            if made is None:
                made = tuple(
                    self._size(f"{index}[{place}]", place == axis, size, static, how, draw)
                    for place, (size, static) in enumerate(zip(value.shape, tensor.shape.as_list()))
                )
            if how != "any":
                self.shapes[key] = made
            shapes[graph_lib.reference(tensor)] = made
        return Known(self.rows, shapes, self.integers)

    def _size(
        self,
        name: str,
        has_rows: bool,
        size: int,
        static: int | None,
        how: str,
        draw: np.random.RandomState,
    ) -> Dim:
        if static is not None:
            return static
        fits = size > 0 and size % self.total == 0
        forms = ["rows", "sizes", "symbol"] if fits else ["sizes", "symbol"]
        form = forms[draw.randint(len(forms))] if how == "any" else how
        if has_rows:  # The number of entries of each row may be unknown.
            return times(self.rows, symbol(name) if form == "symbol" else size // self.total)
        if form == "rows":
            return times(self.rows, size // self.total) if fits else symbol(name)
        return size if form == "sizes" else symbol(name)

    def names(self, combination: Sequence[Layout]) -> dict[str, int]:
        """Returns the numbers that symbols of sizes of inputs stand for."""
        made = {ROWS: self.total}
        for index, (value, layout) in enumerate(zip(self.values, combination)):
            for place, size in enumerate(() if value is None else value.shape):
                each = isinstance(layout, Shard) and layout.axis == place
                made[f"{index}[{place}]"] = size // self.total if each else size
        return made


def agrees(dim: Dim, size: int, names: dict[str, int]) -> bool:
    """Whether a size can be what is known of it; of symbols without a name, nothing is known."""
    if not isinstance(dim, Monomial):
        return int(dim) == size
    known = dim.coefficient * int(np.prod([names.get(name, 1) for name in dim.symbols], dtype=int))
    if all(name in names for name in dim.symbols):
        return known == size
    return size % known == 0 if known else size == 0


def static(operation: Operation, total: int) -> World:
    """Returns the world where the graph knows all sizes."""
    return _world("static", operation, total, True, _static_shapes(operation))


def _static_shapes(operation: Operation) -> list[Any]:
    return [
        None if operand.value is None else list(operand.value.shape)
        for operand in operation.operands
    ]


def unknown(operation: Operation, total: int, draw: np.random.RandomState) -> Iterator[World]:
    """Yields worlds where the graph does not know the number of rows.

    In the first, the integers of `Fixed` inputs are what they are; in others, some that are
    multiples of the number of rows follow from it.
    """
    shapes = [_loosened(shape, total, 0.0, draw) for shape in _static_shapes(operation)]
    yield _world("unknown rows", operation, total, False, shapes)
    for mask in list(_masks(operation, total))[:MASKS]:
        name = f"unknown rows, integers of them at {sorted(mask)}"
        yield _world(name, operation, total, False, shapes, mask=mask)


def are_all(operation: Operation, total: int) -> bool:
    """Whether `unknown` has all ways in which integers can follow from the number of rows."""
    return len(list(_masks(operation, total))) <= MASKS


def _masks(operation: Operation, total: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Yields which integers follow from the number of rows: those of one input, each alone, all."""
    everything: list[tuple[int, int]] = []
    alone: list[tuple[tuple[int, int], ...]] = []
    for index, operand in enumerate(operation.operands):
        if operand.fixed and operand.value is not None and operand.value.dtype.kind in "iu":
            own = [
                (index, place)
                for place, entry in enumerate(operand.value.ravel())
                if entry > 0 and entry % total == 0
            ]
            alone += [(one,) for one in own]
            if len(own) > 1:
                yield tuple(own)
            everything += own
    yield from alone
    if len({index for index, _ in everything}) > 1:
        yield tuple(everything)


def _loosened(
    shape: list[int] | None, total: int, chance: float, draw: np.random.RandomState
) -> list[int | None] | None:
    """Returns a shape without sizes that may be those of rows, and without some others."""
    if shape is None:
        return None
    return [
        None if (size > 0 and size % total == 0) or draw.rand() < chance else size for size in shape
    ]


def anything(operation: Operation, total: int, draw: np.random.RandomState) -> World:
    """Returns a world where of anything it may be known or not."""
    shapes: list[Any] = [_loosened(shape, total, 0.4, draw) for shape in _static_shapes(operation)]
    ranked = [
        index for index, operand in enumerate(operation.operands) if operand.value is not None
    ]
    unranked = list(shapes)
    if draw.rand() < 0.2:
        unranked[draw.choice(ranked)] = None
    fixed = {index for index in ranked if operation.operands[index].fixed}
    hidden = {index for index in sorted(fixed) if draw.rand() < 0.2}
    seen = {index for index in ranked if index not in fixed and draw.rand() < 0.5}
    masks = [(), *_masks(operation, total)]
    is_static = bool(draw.rand() < 0.3)
    mask = () if is_static else masks[draw.randint(len(masks))]
    name = f"{'static' if is_static else 'unknown'} rows, shapes {unranked}"
    if mask or hidden:
        name += f", integers of rows at {sorted(mask)}, unknown ones of {sorted(hidden)}"
    try:
        return _world(name, operation, total, is_static, unranked, mask, hidden, seen)
    except ValueError:  # Some operations want to know all ranks, or axes.
        return _world(name, operation, total, is_static, shapes, mask, (), seen)


def _world(
    name: str,
    operation: Operation,
    total: int,
    is_static: bool,
    shapes: Sequence[Any],
    mask: Collection[tuple[int, int]] = (),
    hidden: Collection[int] = (),
    seen: Collection[int] = (),
) -> World:
    """Builds an operation in a world.

    Args:
        name: Of the world.
        operation: The operation.
        total: The number of rows.
        is_static: Whether the graph knows it.
        shapes: What the graph knows of shapes of inputs.
        mask: Inputs and places of `Fixed` integers that follow from the number of rows.
        hidden: `Fixed` inputs that are unknown to the graph.
        seen: Other inputs, which the graph knows if they are integers.
    """
    tensors: list[Any] = []
    integers: dict[Any, Integers] = {}
    for index, operand in enumerate(operation.operands):
        if operand.build is not None:
            tensors.append(operand.build())
            continue
        value = operand.value
        assert value is not None
        known: Integers = None
        places = [place for masked, place in mask if masked == index]
        if index in hidden:
            tensor = operand.placeholder(value.shape)
        elif places:
            tensor, known = _of_rows(value, places, total)
        elif operand.fixed:
            tensor = tf.constant(value)
        else:
            tensor = operand.placeholder(shapes[index])
            if index in seen and value.dtype.kind in "iu":
                known = values.array([int(entry) for entry in value.ravel()], value.shape)
        tensors.append(tensor)
        if known is not None:
            integers[graph_lib.reference(tensor)] = known
    given = tuple(operand.value for operand in operation.operands)
    return World(name, total, operation.build(tensors), is_static, given, integers, {})


def _of_rows(value: np.ndarray, places: Sequence[int], total: int) -> tuple[Any, np.ndarray]:
    """Returns integers as a tensor and as sizes; some follow from the number of rows."""
    known: list[Dim] = []
    entries: list[Any] = []
    for place, entry in enumerate(value.ravel()):
        if place in places:
            known.append(times(symbol(ROWS), int(entry) // total))
            entries.append(tf.placeholder(value.dtype, []))
        else:
            known.append(int(entry))
            entries.append(tf.constant(entry, value.dtype))
    return _packed(entries, value.shape), values.array(known, value.shape)


def _packed(entries: list[Any], shape: Sequence[int]) -> Any:
    if not shape:
        return tf.identity(entries[0])
    each = len(entries) // shape[0]
    return tf.stack(
        [_packed(entries[i * each : (i + 1) * each], shape[1:]) for i in range(shape[0])]
    )
