"""Detects Python 2 in a text that Python 3 cannot parse."""

from __future__ import annotations

import re
from typing import NamedTuple

ADVICE = (
    "Convert the file to Python 3 first, with 2to3, futurize or python-modernize, then scan again."
)
# Patterns of statements that Python 2 can parse, but Python 3 cannot.
_SIGNS = (
    (r"^print\s+(?![=(.,)\]:])\S", "a print statement"),
    (r"^print\s*>>", "a print statement"),
    (r"^print\s*\(.*\)\s*%|^print$", "a print statement"),
    (r"^except\s+[^:(]+,\s*\w+\s*:", "`except X, e:`"),
    (r"^except\s*\([^)]*\)\s*,\s*\w+\s*:", "`except X, e:`"),
    (r"^exec\s+(?![=(.,)\]:])\S", "an exec statement"),
    (r"^raise\s+[\w.]+\s*,\s*\S", "`raise X, text`"),
    (r"<>", "`<>`"),
    (r"`[^`]+`", "backticks"),
    (r"(?<![\w.])0[0-7]*[1-7][0-7]*(?![\w.])", "an octal number such as 0777"),
    (r"(?<![\w.])(?:0[xX][0-9a-fA-F]+|\d+)[lL]\b", "a long number such as 10L"),
    (r"(?<!\w)[uU][rR]['\"]", "a string such as ur''"),
    (r"^def\s+\w+\s*\(.*\((?:\s*\w+\s*,)+[^=]*\).*\)\s*:", "a tuple among arguments"),
    (r"\blambda\s*\(", "a tuple among arguments"),
)
_STRINGS = re.compile(
    r"('''|\"\"\")[\s\S]*?(?:\1|\Z)|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|#[^\r\n]*"
)
_LONGEST = 400  # Limit on the characters of a line: longer lines are data.


class Sign(NamedTuple):
    """A sign of Python 2, and its line."""

    line: int
    what: str


def find(text: str, line: int) -> Sign | None:
    """Returns a sign that a text is written for Python 2; None if there is none.

    Args:
        text: A text that Python 3 cannot parse.
        line: Line of the syntax error, from 1 on. It is searched first, then the lines before.
    """
    bare = _STRINGS.sub(_blank, text)
    lines = re.split(r"\r\n|\r|\n", bare)
    near = [number for number in (line, line - 1) if 1 <= number <= len(lines)]
    # Lines after the error are not searched: they may be broken for other reasons.
    for number in [*near, *range(1, min(line, len(lines)) + 1)]:
        what = _sign(lines[number - 1])
        if what:
            return Sign(number, what)
    return None


def _blank(match: re.Match[str]) -> str:
    """Returns a string without its content, or an empty comment; keeps line ends."""
    text = match[0]
    if text.startswith("#"):
        return ""
    return "''" + "".join(re.findall(r"\r\n|\r|\n", text))


def _sign(line: str) -> str | None:
    line = line.strip()
    if len(line) > _LONGEST:
        return None
    for statement in line.split(";"):
        # After a colon, as in `if x: print y`.
        for part in (statement.strip(), statement.rpartition(": ")[2].strip()):
            for pattern, what in _SIGNS:
                if re.search(pattern, part):
                    return what
    return None
