"""Parts of a page that everybody can read: on a phone, by keyboard, and without seeing pictures.

Parts wider than a phone scroll in their own box, which the keyboard reaches. A picture has
words in its place, a table has a caption and headings of its rows and columns. The page loads
nothing, and its colours follow the reader's choice of dark or light. Texts are escaped here.
"""

import html
import pathlib
import string
from typing import NamedTuple

_PAGE = pathlib.Path(__file__).with_name("page.html")


class Html(str):
    """A text that is HTML already."""


class Column(NamedTuple):
    """A column of a table."""

    heading: str
    is_number: bool = False


def page(title, summary, sections):
    """Returns a page, HTML as a string.

    Args:
        title: Its title and first heading, a text.
        summary: `Html` that stands below the heading.
        sections: Pairs of a text, the heading, and an iterable of `Html`.
    """
    parts = [f"<header>\n<h1>{text(title)}</h1>\n{summary}\n</header>\n<main>"]
    for heading, contents in sections:
        parts += [f"<h2>{text(heading)}</h2>", *contents]
    template = string.Template(_PAGE.read_text(encoding="utf-8"))
    return template.substitute(title=text(title), body="\n".join([*parts, "</main>"]))


def text(value):
    """Returns what shows `value` as it is; `Html` stays what it is."""
    return value if isinstance(value, Html) else Html(html.escape(str(value)))


def paragraph(words, kind=""):
    """Returns a paragraph; `kind` "quiet" is for what explains."""
    return Html(f'<p class="{kind}">{text(words)}</p>' if kind else f"<p>{text(words)}</p>")


def unfolding(summary, contents, is_open=False):
    """Returns what a reader unfolds: contents, an iterable of `Html`, below a summary, a text."""
    opened = " open" if is_open else ""
    lines = "\n".join(contents)
    return Html(f"<details{opened}><summary>{text(summary)}</summary>\n{lines}\n</details>")


def scrolling(label, contents, kind=""):
    """Returns a box that scrolls where `contents` are too wide for it.

    Args:
        label: Text that says what is in it to those who do not see it.
        contents: `Html`.
        kind: "drawing" for contents with small letters, which must not become narrow.
    """
    return Html(
        f'<div class="wide {kind}" role="group" tabindex="0" aria-label="{text(label)}">\n'
        f"{contents}\n</div>"
    )


def preformatted(label, lines):
    """Returns a text whose lines stay as they are, in a box that scrolls."""
    return Html(f'<pre role="group" tabindex="0" aria-label="{text(label)}">{text(lines)}</pre>')


def table(caption, columns, rows):
    """Returns a table, in a box that scrolls.

    Args:
        caption: Text that says what it tells; no other table of the page has it.
        columns: The `Column`s.
        rows: Lists of texts or `Html`, one per column; the first one is the heading of the row.
    """
    kinds = [' class="number"' if column.is_number else "" for column in columns]
    headings = [
        f'<th scope="col"{kind}>{text(column.heading)}</th>' for column, kind in zip(columns, kinds)
    ]
    lines = []
    for first, *others in rows:
        cells = [f"<td{kind}>{text(cell)}</td>" for cell, kind in zip(others, kinds[1:])]
        lines.append(f'<tr><th scope="row"{kinds[0]}>{text(first)}</th>{"".join(cells)}</tr>')
    parts = [
        f"<table>\n<caption>{text(caption)}</caption>\n<thead><tr>{''.join(headings)}</tr></thead>",
        *("<tbody>", *lines, "</tbody>\n</table>"),
    ]
    return scrolling(caption, "\n".join(parts))


def code(words):
    """Returns a text of a file or a command, that may be broken anywhere."""
    return Html(f"<code>{text(words)}</code>")


def path(words):
    """Returns a path, such as `blocks/1/filters`, that may be broken at its slashes."""
    return Html(text(words).replace("/", "/<wbr>"))


def figures(entries):
    """Returns the most important numbers of a page, as a list of what they are.

    Args:
        entries: Triples of texts: the name, the number, and a note.
    """
    parts = [
        f"<div><dt>{text(name)}</dt><dd>{text(number)}<small>{text(note)}</small></dd></div>"
        for name, number, note in entries
    ]
    return Html("\n".join(['<dl class="figures">', *parts, "</dl>"]))
