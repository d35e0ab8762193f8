"""Tables of the documentation that commands write: what stands between two comments of a page.

<!-- made by benchmarks.towers -->
The machine, the versions, and the table.
<!-- end -->
"""

import pathlib


def write(path, name, text):
    """Writes what a command has measured into a page.

    Args:
        path: The page's.
        name: The command's, which the first comment of its part of the page says.
        text: Markdown that takes the place of what is there.

    Raises:
        ValueError: If the page has no such part, or several.
    """
    path = pathlib.Path(path)
    first, last = f"<!-- made by {name} -->\n", "<!-- end -->\n"
    before, *rest = path.read_text(encoding="utf-8").split(first)
    if len(rest) != 1 or last not in rest[0]:
        found = f"{len(rest)} of the first line and {''.join(rest).count(last)} of the other"
        raise ValueError(
            f"{path} must have one part that begins with the line '{first.strip()}' and ends with "
            f"'{last.strip()}', but it has {found}. Make one where the table is to stand."
        )
    _, _, after = rest[0].partition(last)
    path.write_text(f"{before}{first}\n{text}\n\n{last}{after}", encoding="utf-8")


def measured_on(records):
    """Returns in words where and how records were measured, as one line.

    Args:
        records: Some with the fields of `harness.machine()`, versions, `rounds`, and
            `load_average_max`, the largest of which is told.
    """
    record = max(records, key=lambda record: record["load_average_max"])
    return (
        f"TensorFlow {record['tf']}, Python {record['python']}, {record['cpu']}, "
        f"{record['cores']} cores, {record['date']}; rounds: {record['rounds']}; load of the "
        f"machine up to {record['load_average_max']:.1f}."
    )
