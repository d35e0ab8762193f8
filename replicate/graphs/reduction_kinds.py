"""How values made from rows become those of all towers' rows; see `extents`."""

from typing import NamedTuple

WHOLE, ROWS, MEAN, SUM = "whole", "rows", "mean", "sum"
LARGEST, SMALLEST = "largest", "smallest"
REDUCED = "reduced"  # Computed of such values alone, and so again of those of all rows.

OF_ALL_ROWS = (MEAN, SUM, LARGEST, SMALLEST, REDUCED)


class RowsOn(NamedTuple):
    """Of what has its rows on another axis than 0, as what `ROWS` has."""

    axis: int


def axis_of(kind):
    """Returns the axis of rows of what is of a kind, None if it has none that is known."""
    return kind.axis if isinstance(kind, RowsOn) else (0 if kind == ROWS else None)


def rows_on(axis):
    """Returns the kind of what has its rows on an axis; None if that is None."""
    return RowsOn(axis) if axis else (None if axis is None else ROWS)
