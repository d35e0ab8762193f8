"""The vocabulary of layouts: how the towers hold a tensor, and what an operation demands of them.

The words are those of GSPMD and DTensor. All classes are immutable, and compare by value.
"""

from __future__ import annotations

from typing import NamedTuple, Union

from replicate.layouts.dims import ROWS, Dim, symbol, times


class Whole(NamedTuple):
    """One value, computed once on the consolidation device: variables, and values without rows."""

    kind: str = "whole"


class Blocks(NamedTuple):
    """An axis with `many` blocks, each with all rows, such as two concatenated views of a batch.

    `[time, n, d]` reshaped to `[time * n, d]` is another case. A tower has its rows of every block.

    If blocks differ in size, `parts` has how many entries of each block a row has, without a common
    divisor, and `many` is their sum: (1, 3) for rows before three candidates of each row.
    """

    many: Dim
    parts: tuple[int, ...] = ()
    kind: str = "blocks"


class Even(NamedTuple):
    """Entries in an order of their own, such as the half of a batch that an operation selects.

    They are joined where they are selected. From there on, each tower has an equal share of them,
    whatever rows they come from. A tower may have none.

    Attributes:
        size: How many there are in the batch.
    """

    size: Dim
    kind: str = "even"


Unit = Union[str, Blocks, Even]
"""An axis counts `ROWS`, a ragged unit, by its name, `Blocks` or `Even` entries; see `Shard`."""


def count(unit: Unit, rows: Dim) -> Dim:
    """Returns how many of a `Unit` there are in a batch of `rows`."""
    if isinstance(unit, Blocks):
        return times(rows, unit.many)
    if isinstance(unit, Even):
        return unit.size
    return rows if unit == ROWS else symbol(unit)


class Shard(NamedTuple):
    """Each tower has its rows, on `axis`: k entries for each row, in the order of the rows.

    `unit` says what the axis counts: `ROWS` of the batch, `Blocks` of them, `Even` entries, or a
    ragged unit, such as the values of a sparse tensor. A row has any number of a ragged unit, so a
    tower may have none. A ragged unit is named by the symbol for its number in the batch.
    """

    axis: int
    unit: Unit = ROWS
    kind: str = "shard"


class Indices(NamedTuple):
    """Each tower has integers that index its own entries; they are split like `Shard(0, unit)`.

    The indices of one device are these plus the number of entries of the towers before.

    Attributes:
        unit: The unit that axis 0 counts.
        within: The unit that is indexed, as in `Shard.unit`.
        each: The number of entries per element of `within`, on the axis that is indexed.
        is_matrix: Whether only column 0 is an index, as in those of a sparse tensor, [m, rank].
        is_full: Whether they are in ascending order and every entry is indexed.
    """

    unit: str
    within: str = ROWS
    each: Dim = 1
    is_matrix: bool = False
    is_full: bool = False
    kind: str = "indices"


class Partial(NamedTuple):
    """Each tower has a partial value; reducing them by `op` gives the whole.

    `op` is `'sum'`, `'mean'` (weighted by the towers' rows), `'max'`, `'min'`, `'prod'`, `'all'` or
    `'any'`. Every tower has at least one row if the batch has any; see `partition.rows.Rows`. But a
    tower may have none of another unit. Then `unit` names it, if `op` has no neutral value, such
    as a mean.
    """

    op: str
    unit: Unit = ROWS
    kind: str = "partial"


class Size(NamedTuple):
    """Integers that follow from the number of rows, by a known formula.

    Both the whole batch's value and the towers' are made from the formula where they are needed.
    """

    kind: str = "size"


class Grown(NamedTuple):
    """Axis 0 begins the same in all towers, and each round of a loop appends a tower's entries.

    This is how a loop of TensorFlow 1 collects the slices of the gradient of table look-ups.

    Attributes:
        begin: How many entries there were before the first round.
        each: How many each row adds in a round.
    """

    begin: int
    each: Dim
    kind: str = "grown"


class PerTowerLayout(NamedTuple):
    """Each tower has its own value, and these cannot be joined: TensorArrays, for example.

    The tensors that fused batch norm reserves for its gradient have this layout, too.
    """

    kind: str = "per_tower"


class Share(NamedTuple):
    """A demand: integers of the whole batch, such as a shape, with the tower's share at `axis`.

    If `axis` is None, all of them are the tower's shares.
    """

    axis: int | None
    unit: Unit = ROWS
    kind: str = "share"


class Own(NamedTuple):
    """A demand: indices of which each points at its own row, counted from the tower's first one.

    Those of one device are these plus the number of entries of the towers before; see `own_rows`.

    Attributes:
        unit: The unit that both axis 0 and the axis that is indexed count.
        each: The number of entries per element of `unit`, on the axis that is indexed.
        is_matrix: Whether they are coordinates, of which only the first one is an index.
    """

    unit: Unit = ROWS
    each: Dim = 1
    is_matrix: bool = False
    kind: str = "own"


Layout = Union[Whole, Shard, Indices, Partial, Size, Grown, PerTowerLayout]
Demand = Union[Layout, Share, Own]

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


# Partials that can be reduced in each round of a loop. A tower without rows computes the last row
# of the batch once more, which changes none of these, but would change a sum.
IN_ROUNDS = frozenset([MAX, MIN, ALL, ANY])


def meets_in_round(layout: Layout | Demand, demand: Demand) -> bool:
    """Whether a value in a loop is reduced in each round for an operation that demands it whole."""
    return layout in IN_ROUNDS and isinstance(demand, Whole)


class Strategy(NamedTuple):
    """How an operation runs in towers: the layouts that inputs must have, and those of outputs.

    Attributes:
        inputs: A demand for each input.
        outputs: A layout for each output.
        sizes: For each output, the size of its axis of rows, or None if its shape is known
            otherwise; () if all are.
    """

    inputs: tuple[Demand, ...]
    outputs: tuple[Layout, ...]
    sizes: tuple[Dim | None, ...] = ()


def adds_offset(layout: Layout, demand: Demand) -> bool:
    """Whether towers convert their indices by offsets, without those of other towers.

    `Indices` plus offsets are a shard of one device's, and these less offsets are `Own`.
    """
    unit = layout.unit if isinstance(layout, Indices) else None
    if isinstance(demand, Own):
        return unit == demand.unit or layout == Shard(0, demand.unit)
    return unit is not None and demand == Shard(0, unit)
