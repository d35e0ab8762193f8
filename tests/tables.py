"""Tables of the documentation whose figures commands write: `--page` of what measures them.

The first cell of a row says in words what the row is, and ends with its name in code: (`name`).
Words and order are the page's, the other cells are what was measured.
"""

import pathlib
import re
from typing import Dict, List, NamedTuple


class Table(NamedTuple):
    """A table of a page.

    Attributes:
        first: The page's line that holds its titles, from 0.
        titles: Those of all columns.
        rows: The cells of each row, by its name.
    """

    first: int
    titles: List[str]
    rows: Dict[str, List[str]]


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def row(values):
    return f"| {' | '.join(values)} |"


def find(text):
    """Returns the table of a page that has named rows."""
    lines = text.splitlines()
    named = [re.match(r"\| .*\(`(\w+)`\) \|", line) for line in lines]
    numbers = [number for number, match in enumerate(named) if match]
    first = numbers[0] - 2
    assert numbers == list(range(numbers[0], numbers[-1] + 1)), "one table has named rows"
    rows = {named[number][1]: cells(lines[number]) for number in numbers}
    return Table(first, cells(lines[first]), rows)


def write(path, measured, same=lambda title: title):
    """Writes what was measured into the table of a page.

    Args:
        path: The page's.
        measured: For each row that was measured, its cells by the titles of their columns.
        same: What is the same of two titles if one takes the other's place; by default all of it.

    Raises:
        KeyError: If the page lacks a row or a column.
    """
    path = pathlib.Path(path)
    lines = path.read_text().splitlines()
    table = find(path.read_text())
    columns = {same(title): number for number, title in enumerate(table.titles)}
    for name, values in measured.items():
        for title, value in values.items():
            table.titles[columns[same(title)]] = title
            table.rows[name][columns[same(title)]] = value
    lines[table.first] = row(table.titles)
    start = table.first + 2
    lines[start : start + len(table.rows)] = map(row, table.rows.values())
    path.write_text("\n".join(lines) + "\n")
