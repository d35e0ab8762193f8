"""Divides values as towers have them, in cuts, shares or parts, and makes them whole again."""

from __future__ import annotations

from typing import Any, Callable, List, Sequence, Tuple

import numpy as np

from replicate.layouts import layout as layouts
from replicate.layouts.layout import Layout, Own, Partial, Shard

Rows = Tuple[int, ...]
Parts = List[np.ndarray]

_KINDS = {
    "f": (layouts.SUM, layouts.MEAN, layouts.MAX, layouts.MIN, layouts.PROD),
    "c": (layouts.SUM, layouts.MEAN, layouts.PROD),
    "i": (layouts.SUM, layouts.MAX, layouts.MIN, layouts.PROD),
    "u": (layouts.SUM, layouts.MAX, layouts.MIN, layouts.PROD),
    "b": (layouts.ALL, layouts.ANY),
}


class UncuttableError(Exception):
    """A value has no whole number of entries for each row, or its parts have not."""


def kinds(dtype: np.dtype) -> tuple[Partial, ...]:
    """Returns the kinds of parts that numbers can have."""
    return _KINDS.get(dtype.kind, ())


def uneven(draw: np.random.RandomState, total: int, towers: int) -> Rows:
    """Draws how many rows each tower has: unequal numbers if possible, and no more towers."""
    holders = min(towers, total)
    while True:
        cuts = sorted(draw.choice(np.arange(1, total), holders - 1, False)) if holders > 1 else []
        rows = [int(high - low) for low, high in zip([0, *cuts], [*cuts, total])]
        if len(set(rows)) > 1 or total == holders or holders == 1:
            return tuple(rows)


def cut(value: np.ndarray, axis: int, rows: Rows) -> Parts:
    """Cuts a value up; a single entry is the same for all rows, where there are more."""
    total = sum(rows)
    if not 0 <= axis < value.ndim:
        raise UncuttableError(f"no axis {axis} of {value.shape}")
    size = value.shape[axis]
    if size == 1 and total != 1:
        return [value] * len(rows)
    if size % total:
        raise UncuttableError(f"{size} entries of axis {axis} for {total} rows")
    places = np.cumsum(rows)[:-1] * (size // total)
    return np.split(value, places, axis)


def own(value: np.ndarray, demand: Own, rows: Rows) -> Parts:
    """Cuts indices up, and counts them from each tower's first row."""
    made = []
    for part, start in zip(cut(value, 0, rows), np.cumsum([0, *rows])):
        column = np.arange(part.shape[-1]) == 0 if demand.is_matrix else 1
        made.append((part - start * demand.each * column).astype(value.dtype))
    return made


def share(value: np.ndarray, axis: int | None, rows: Rows) -> Parts:
    """Gives each tower the integers with its share at `axis`; -1 stays."""
    made = []
    axis = () if axis is None else axis
    for own in rows:
        part = np.array(value)
        if part[axis] != -1:
            if part[axis] % sum(rows):
                raise UncuttableError(f"{part[axis]} at {axis} for {sum(rows)} rows")
            part[axis] = part[axis] // sum(rows) * own
        made.append(part)
    return made


def partial(draw: np.random.RandomState, value: np.ndarray, kind: Partial, rows: Rows) -> Parts:
    """Draws parts whose reduction is `value`; none of them is like another."""
    with np.errstate(all="ignore"):
        made = _PARTS[kind.op](draw, value, rows)
    return [np.asarray(part, value.dtype) for part in made]


def _noise(draw: np.random.RandomState, value: np.ndarray) -> np.ndarray:
    if value.dtype.kind == "c":
        return draw.randn(*value.shape) + 1j * draw.randn(*value.shape)
    if value.dtype.kind == "f":
        return draw.randn(*value.shape)
    return draw.randint(0 if value.dtype.kind == "u" else -3, 4, value.shape)


def _sums(draw: np.random.RandomState, value: np.ndarray, rows: Sequence[int]) -> Parts:
    finite = np.isfinite(value)
    made, rest = [], value
    for _ in rows[1:]:
        part = (rest * draw.uniform(0.2, 0.8) + _noise(draw, value)).astype(value.dtype)
        made.append(np.where(finite, part, 0).astype(value.dtype))
        rest = np.where(finite, rest - made[-1], value)
    return [*made, rest]


def _means(draw: np.random.RandomState, value: np.ndarray, rows: Sequence[int]) -> Parts:
    made = [np.where(np.isfinite(value), value + _noise(draw, value), value) for _ in rows[1:]]
    rest = value * sum(rows) - sum(own * part for own, part in zip(rows, made))
    return [*made, np.where(np.isfinite(value), rest / rows[-1], value)]


def _extremes(sign: int) -> Callable[..., Parts]:
    """Returns a function that makes parts; at each place, another one has the extreme."""

    def make(draw: np.random.RandomState, value: np.ndarray, rows: Sequence[int]) -> Parts:
        owner = (np.arange(value.size).reshape(value.shape) + draw.randint(len(rows))) % len(rows)
        made = []
        for place in range(len(rows)):
            off = np.abs(_noise(draw, value)) + (0.1 if value.dtype.kind == "f" else 1)
            if value.dtype.kind == "u":
                room = value if sign > 0 else np.iinfo(value.dtype).max - value
                off = np.minimum(off, room)
            made.append(np.where(owner == place, value, value - sign * off))
        return made

    return make


def _products(draw: np.random.RandomState, value: np.ndarray, rows: Sequence[int]) -> Parts:
    made, rest = [], value
    for _ in rows[1:]:
        if value.dtype.kind in "fc":
            part = np.exp(_noise(draw, value)) * draw.choice([-1, 1], value.shape)
            rest = rest / part
        else:
            part = draw.choice([1] if value.dtype.kind == "u" else [-1, 1], value.shape)
            rest = rest * part
        made.append(part)
    return [*made, rest]


def _truths(all_of: bool) -> Callable[..., Parts]:
    """Returns a function that makes parts; they agree where they must, else one decides."""

    def make(draw: np.random.RandomState, value: np.ndarray, rows: Sequence[int]) -> Parts:
        owner = draw.randint(len(rows), size=value.shape)
        made = []
        for place in range(len(rows)):
            chance = (draw.rand(*value.shape) < 0.5) & (owner != place)
            made.append(value | chance if all_of else value & ~chance)
        return made

    return make


_PARTS: dict[str, Callable[..., Parts]] = {
    "sum": _sums,
    "mean": _means,
    "max": _extremes(1),
    "min": _extremes(-1),
    "prod": _products,
    "all": _truths(True),
    "any": _truths(False),
}


_REDUCE: dict[str, Callable[..., Any]] = {
    "sum": np.sum,
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
    "all": np.all,
    "any": np.any,
}


def join(layout: Layout, parts: Parts, rows: Rows) -> np.ndarray:
    """Makes the whole of what towers have, as `layout` says.

    Raises:
        UncuttableError: If the parts are not such as the layout says.
    """
    if isinstance(layout, Shard):
        return _concatenated(layout.axis, parts, rows)
    if not isinstance(layout, Partial) or any(part.shape != parts[0].shape for part in parts):
        raise UncuttableError(f"{layout} of shapes {[part.shape for part in parts]}")
    if layout not in kinds(parts[0].dtype):
        raise UncuttableError(f"{layout} of {parts[0].dtype}")
    with np.errstate(all="ignore"):
        if layout.op == "mean":
            return sum(part * (own / sum(rows)) for part, own in zip(parts, rows) if own)
        made = _REDUCE[layout.op](np.stack(parts), 0)
    return np.asarray(made, parts[0].dtype)


def _concatenated(axis: int, parts: Parts, rows: Rows) -> np.ndarray:
    if not all(0 <= axis < part.ndim == parts[0].ndim for part in parts):
        raise UncuttableError(f"no axis {axis} of {[part.shape for part in parts]}")
    found = [part.shape[axis] for part in parts]
    each = sum(found) // sum(rows)
    if found != [each * own for own in rows]:
        raise UncuttableError(f"{found} entries of axis {axis} for {list(rows)} rows")
    try:
        return np.concatenate(parts, axis)
    except ValueError as error:
        raise UncuttableError(str(error)) from error


_TOLERANCES = {"float64": 1e-9, "complex128": 1e-9, "float32": 1e-4, "complex64": 1e-4}


def tolerance(dtypes: Sequence[np.dtype]) -> float:
    """Returns how much results may differ: as the coarsest of floating-point numbers round."""
    return max(
        (_TOLERANCES.get(dtype.name, 2e-2) for dtype in dtypes if dtype.kind in "fcV"), default=0
    )


def same(a: np.ndarray, b: np.ndarray, within: float) -> bool:
    """Whether two results are equal except for rounding; NaN equals NaN, and -0 equals 0."""
    if a.shape != b.shape:
        return False
    if a.dtype.kind == "V" or b.dtype.kind == "V":  # bfloat16
        a, b = a.astype(np.float32), b.astype(np.float32)
    if b.dtype.kind in "fc":
        return bool(np.allclose(a, b, within, within, equal_nan=True))
    return bool(np.array_equal(a, b))
