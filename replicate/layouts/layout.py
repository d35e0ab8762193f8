"""The vocabulary: how the towers hold a tensor, and what an operation in towers demands.

The words are those of GSPMD and DTensor. All of these are immutable, and equal if they say the
same.
"""

from __future__ import annotations

from typing import NamedTuple, Union

from replicate.layouts.dims import ROWS, Dim, symbol, times


class Whole(NamedTuple):
    """One value, computed once on the consolidation device: variables, and what no row enters."""

    kind: str = "whole"


class Blocks(NamedTuple):
    """An axis with `many` blocks, each of all rows: two views of a batch that are concatenated.

    `[time, n, d]` as `[time * n, d]` is another case. Each tower has its rows of every block.
    """

    many: Dim
    kind: str = "blocks"


Unit = Union[str, Blocks]


def count(unit: Unit, rows: Dim) -> Dim:
    """Returns how many of a `Unit` there are in a batch of `rows`."""
    if isinstance(unit, Blocks):
        return times(rows, unit.many)
    return rows if unit == ROWS else symbol(unit)


class Shard(NamedTuple):
    """Each tower has its rows, on `axis`: k entries for each row, in the order of the rows.

    `unit` says what the axis counts: `ROWS` of the batch, `Blocks` of them, or a ragged unit, such
    as the values of a sparse tensor. A row has any number of a ragged unit, so a tower may have
    none. Its name is the symbol of how many there are in the batch.
    """

    axis: int
    unit: Unit = ROWS
    kind: str = "shard"


class Indices(NamedTuple):
    """Each tower has integers that point to its own entries, like `Shard(0, unit)` otherwise.

    Added to what the towers before it have, they are those of one device.

    Attributes:
        unit: The unit that axis 0 counts.
        within: The unit that they point to, as in `Shard.unit`.
        each: How many entries each of these has, on the axis that is pointed to.
        is_matrix: Whether column 0 alone points, as in the indices of a sparse tensor, [m, rank].
        is_full: Whether they are in ascending order, and each entry is pointed to.
    """

    unit: str
    within: str = ROWS
    each: Dim = 1
    is_matrix: bool = False
    is_full: bool = False
    kind: str = "indices"


class Partial(NamedTuple):
    """Each tower has a part; `op` makes the whole of the parts.

    `op` is `'sum'`, `'mean'` (weighted by the towers' rows), `'max'`, `'min'`, `'prod'`, `'all'` or
    `'any'`. Every tower has at least one row if the batch has any; see `partition.rows.Rows`. If
    `unit` is a ragged unit, a tower may have no part: a mean or maximum of nothing has no value.
    """

    op: str
    unit: str = ROWS
    kind: str = "partial"


class Size(NamedTuple):
    """Integers that follow from the numbers of rows, by formulas that are known.

    The whole's and the towers' are both made from the formula, wherever one is needed.
    """

    kind: str = "size"


class Grown(NamedTuple):
    """Axis 0 begins the same in all towers, and has grown with each round of a loop.

    A loop of TensorFlow 1 whose rounds look up rows of a table collects the gradient's slices so.

    Attributes:
        begin: How many entries there were before the first round.
        each: How many each row adds in a round.
    """

    begin: int
    each: Dim
    kind: str = "grown"


class PerTowerLayout(NamedTuple):
    """Each tower has its own, which cannot be put together, as reserved tensors of batch norm."""

    kind: str = "per_tower"


class Share(NamedTuple):
    """A demand: the whole's integers, such as a shape, but with the tower's share at `axis`."""

    axis: int
    unit: Unit = ROWS
    kind: str = "share"


Layout = Union[Whole, Shard, Indices, Partial, Size, Grown, PerTowerLayout]
Demand = Union[Layout, Share]

WHOLE = Whole()
SIZE = Size()
PER_TOWER = PerTowerLayout()
SUM = Partial("sum")
MEAN = Partial("mean")
MAX = Partial("max")
MIN = Partial("min")
PROD = Partial("prod")
ALL = Partial("all")
ANY = Partial("any")


def is_shard(layout: Layout | Demand) -> bool:
    """Whether each tower has its own entries."""
    return isinstance(layout, (Indices, Shard))


# Parts that towers can put together in each round of a loop: those of a tower without rows of its
# own, which computes the last row once more, change nothing.
IN_ROUNDS = frozenset([MAX, MIN, ALL, ANY])


def meets_in_round(layout: Layout | Demand, demand: Demand) -> bool:
    """Whether a value in a loop is put together in each round for what demands it so."""
    return layout in IN_ROUNDS and isinstance(demand, Whole)


class Strategy(NamedTuple):
    """How an operation runs in towers: what it demands of its inputs, and what comes out.

    Attributes:
        inputs: A demand for each input.
        outputs: A layout for each output.
        sizes: Of each output, how long the axis of its rows is, None where shapes tell; () if that
            is so of all.
    """

    inputs: tuple[Demand, ...]
    outputs: tuple[Layout, ...]
    sizes: tuple[Dim | None, ...] = ()
