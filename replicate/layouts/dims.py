"""Sizes of axes: integers, or products of an integer and of sizes that are known at run time.

A batch has n rows. If the graph does not know n, it is a symbol, as is every other unknown size,
such as the length of sequences. Only products are represented. Another size, such as n - 1, counts
as unknown, and operations that would need it stay whole.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import Iterable, Union

ROWS = "n"  # The number of rows, at least 1, as in every batch that is trained.
ROWS_OR_NONE = "n or 0"  # The number of rows of a batch that may have none.
IN_LOOP = " in a loop"  # Ends the name of a size that may differ in each round of a loop.


@dataclasses.dataclass(frozen=True)
class Monomial:
    """`coefficient` times symbols, at least one; a symbol may occur twice."""

    coefficient: int
    symbols: tuple[str, ...]

    def __repr__(self) -> str:
        return "·".join([str(self.coefficient), *self.symbols])


Dim = Union[int, Monomial]


def symbol(name: str) -> Monomial:
    """Returns the size that is called `name`."""
    return Monomial(1, (name,))


def name_of(dim: Dim) -> str:
    """Returns the name of a size that is a single symbol, "" if it is a number or a product."""
    return dim.symbols[0] if isinstance(dim, Monomial) and dim == symbol(dim.symbols[0]) else ""


def _parts(dim: Dim) -> tuple[int, tuple[str, ...]]:
    return (dim.coefficient, dim.symbols) if isinstance(dim, Monomial) else (int(dim), ())


def _make(coefficient: int, symbols: Iterable[str]) -> Dim:
    # Sorted, so that equal products compare equal; 0 times a size is the number 0.
    symbols = tuple(sorted(symbols))
    return Monomial(coefficient, symbols) if symbols and coefficient else coefficient


def times(a: Dim, b: Dim) -> Dim:
    """Returns a · b."""
    (x, p), (y, q) = _parts(a), _parts(b)
    return _make(x * y, p + q)


def product(dims: Iterable[Dim]) -> Dim:
    """Returns the product of sizes, 1 of none."""
    made: Dim = 1
    for dim in dims:
        made = times(made, dim)
    return made


def over(a: Dim, b: Dim) -> Dim | None:
    """Returns a / b if that is exact for all values of the symbols, else None."""
    (x, p), (y, q) = _parts(a), _parts(b)
    rest = list(p)
    for name in q:
        if name not in rest:
            return None
        rest.remove(name)
    if not y or x % y:
        return None
    return _make(x // y, rest)


def is_at_most(a: Dim, b: Dim) -> bool:
    """Whether a ≤ b for all values of the symbols that are at least 1."""
    (x, p), (y, q) = _parts(a), _parts(b)
    return x <= y and not collections.Counter(p) - collections.Counter(q)


def added(a: Dim, b: Dim) -> Dim | None:
    """Returns a + b if that is a product, else None."""
    (x, p), (y, q) = _parts(a), _parts(b)
    if not x or not y:
        return b if not x else a
    return _make(x + y, p) if p == q else None


def total(dims: Iterable[Dim | None]) -> Dim | None:
    """Returns the sum of sizes, None if one is not known, or if that is no product."""
    made: Dim | None = 0
    for dim in dims:
        made = None if made is None or dim is None else added(made, dim)
    return made


def holds(dim: Dim, name: str) -> bool:
    """Whether a size depends on a symbol."""
    return isinstance(dim, Monomial) and name in dim.symbols


def is_rows(name: str) -> bool:
    """Whether a symbol is the number of rows."""
    return name in (ROWS, ROWS_OR_NONE)


def is_of_loop(dim: Dim | None) -> bool:
    """Whether a size may differ in each round of a loop, so that no formula can use it."""
    return isinstance(dim, Monomial) and any(name.endswith(IN_LOOP) for name in dim.symbols)


def holds_rows(dim: Dim) -> bool:
    """Whether a size depends on the number of rows, which the graph does not know."""
    return isinstance(dim, Monomial) and any(is_rows(name) for name in dim.symbols)
