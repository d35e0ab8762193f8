"""Parts of a page of Markdown. A text from outside is shown as it is, and does nothing else."""

import re

_LONGEST = 100  # characters of a text from outside


def code(value, longest=_LONGEST):
    """Returns a text as code within a line, whose format it cannot end.

    Args:
        value: A text from outside, or a value that `str` makes one of.
        longest: How many characters of it are shown at most.

    Returns:
        A code span. Characters that cannot be printed are question marks; an empty text is `""`;
        of a long one the start is shown.
    """
    text = "".join(each if each.isprintable() else "?" for each in str(value)) or '""'
    text = text if len(text) <= longest else f"{text[: longest - 3]}..."
    fence = "`" * (1 + _longest_run(text))
    # Of a text with spaces at both ends, Markdown would drop one each.
    padding = " " if text[0] in "` " or text[-1] in "` " else ""
    return f"{fence}{padding}{text}{padding}{fence}"


def block(language, lines):
    """Returns lines of a block of code that no line of it ends.

    Args:
        language: Its name, a word.
        lines: Texts without line ends.
    """
    fence = "`" * max(3, 1 + max(map(_longest_run, lines), default=0))
    return [f"{fence}{language}", *lines, fence]


def table(header, rows):
    """Returns the lines of a table of our own texts, which have no `|`."""
    ruled = ["---"] * len(header)
    return [f"| {' | '.join(cells)} |" for cells in (header, ruled, *rows)]


def _longest_run(text):
    return max(map(len, re.findall("`+", text)), default=0)
