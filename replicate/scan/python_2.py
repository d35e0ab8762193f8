"""What of Python 2 is in a text that Python 3 cannot read."""

import re
from typing import NamedTuple, Optional

ADVICE = (
    "Convert the file to Python 3 first, with 2to3, futurize or python-modernize, then scan again."
)
# Lines that Python 3 cannot read, and Python 2 can.
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
_LONGEST = 400  # Characters of a line: what is longer is data.


class Sign(NamedTuple):
    """What tells of Python 2, and in which line."""

    line: int
    what: str


def find(text, line) -> Optional[Sign]:
    """Returns what tells that a text is of Python 2, None if nothing does.

    Args:
        text: That Python 3 cannot read.
        line: Where it stopped, from 1 on. What is there is looked at first, then what was before.
    """
    bare = _STRINGS.sub(_blank, text)
    lines = re.split(r"\r\n|\r|\n", bare)
    near = [number for number in (line, line - 1) if 1 <= number <= len(lines)]
    # Without it, what follows the error says nothing: a text may be broken anywhere.
    for number in [*near, *range(1, min(line, len(lines)) + 1)]:
        what = _sign(lines[number - 1])
        if what:
            return Sign(number, what)
    return None


def _blank(match):
    """Returns what stays of a string or a comment: its quotes and line ends, so that lines stay."""
    text = match[0]
    if text.startswith("#"):
        return ""
    return "''" + "".join(re.findall(r"\r\n|\r|\n", text))


def _sign(line):
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
