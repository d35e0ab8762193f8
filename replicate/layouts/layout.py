"""The vocabulary: how the towers hold a tensor, and what an operation in towers demands.

The words are those of GSPMD and DTensor. All of these are immutable, and equal if they say the
same.
"""

from __future__ import annotations

from typing import NamedTuple, Union


class Whole(NamedTuple):
    """One value, computed once on the consolidation device: variables, and what no row enters."""

    kind: str = "whole"


class Shard(NamedTuple):
    """Each tower has its rows, on `axis`: k entries for each row, in the order of the rows."""

    axis: int
    kind: str = "shard"


class Partial(NamedTuple):
    """Each tower has a part; `op` makes the whole of the parts.

    `op` is `'sum'`, `'mean'` (weighted by the towers' rows), `'max'`, `'min'`, `'prod'`, `'all'` or
    `'any'`. Every tower has at least one row, if the batch has any; see `partition.rows.Rows`.
    """

    op: str
    kind: str = "partial"


class Size(NamedTuple):
    """Integers that follow from the numbers of rows, by formulas that are known.

    The whole's and the towers' are both made from the formula, wherever one is needed.
    """

    kind: str = "size"


class Own(NamedTuple):
    """Each tower has its own, which cannot be put together, as reserved tensors of batch norm."""

    kind: str = "own"


class Share(NamedTuple):
    """A demand: the whole's integers, such as a shape, but with the tower's share at `axis`."""

    axis: int
    kind: str = "share"


Layout = Union[Whole, Shard, Partial, Size, Own]
Demand = Union[Layout, Share]

WHOLE = Whole()
SIZE = Size()
OWN = Own()
SUM = Partial("sum")
MEAN = Partial("mean")
MAX = Partial("max")
MIN = Partial("min")
PROD = Partial("prod")
ALL = Partial("all")
ANY = Partial("any")


class Strategy(NamedTuple):
    """How an operation runs in towers: what it demands of its inputs, and what comes out."""

    inputs: tuple[Demand, ...]
    outputs: tuple[Layout, ...]
