"""Selects the cells of a table for `make test`; others are marked for `make test-thorough`."""

import pytest


def cell(*values, is_quick, marks=(), **kwargs):
    """Returns `pytest.param(*values)`, marked `thorough` unless it is one that `make test` runs."""
    marks = list(marks) if isinstance(marks, (list, tuple)) else [marks]
    return pytest.param(
        *values, marks=marks if is_quick else [*marks, pytest.mark.thorough], **kwargs
    )


def on_diagonal(row, column, every):
    """Whether a cell is one of those that show all of a table without running all of it.

    Cells of a row make one statement of several engines, and those of a column several statements
    of one engine: with every `every`-th cell, shifted by one from row to row, no row and no column
    is without one, if the table has as many rows and columns as that.
    """
    return (row + column) % every == 0
