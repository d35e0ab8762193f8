"""Phrases that the documentation, docstrings, comments and messages must not hold.

Each has a plainer way to say it. `python3 tests/plain_english.py PATH...` prints where they are, as
`file:line: pattern: advice`. It needs no TensorFlow. `test_plain_english.py` refuses them.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from pathlib import Path
from typing import Iterator, NamedTuple

_BE = r"(?:is|are|was|were|be|been|being)"
_HAVE = r"(?:is|are|was|were|has|have|had)"


class Pattern(NamedTuple):
    """A phrase to avoid.

    Attributes:
        name: how a report names it.
        regex: a regular expression; a space in it also matches the end of a line.
        advice: how to say the same plainly.
        any_case: whether capitals do not matter.
    """

    name: str
    regex: str
    advice: str
    any_case: bool = True


# A docstring is looked at from its first letter.
DOCSTRING = Pattern(
    "docstring starts with 'What', 'Which', 'Whoever', 'Whose' or 'Of'",
    r"\A(?:What|Which|Whoever|Whose|Of)\b",
    "begin with a verb ('Returns the towers that ...') or a noun ('Settings of a run')",
    any_case=False,
)
PATTERNS = (
    Pattern(
        "sentence starts with 'What', and is no question",
        r"(?:\A|(?<=[.;?!] ))What\b(?! if\b)(?:[^.?]|\.(?=\w))*\.(?=[ )]|\Z)",
        "name the thing: 'Operations that ...', 'Values that ...'",
        any_case=False,
    ),
    Pattern(
        "sentence starts with 'Of'",
        r"(?:\A|(?<=[.;] ))Of (?!course\b)(?:what|which|whom|each|all|the|these|those|several)\b",
        "begin with the subject: 'Only ... of these', 'The plan knows ... of each tensor'",
        any_case=False,
    ),
    Pattern(
        "'what is ... is'",
        rf"\bwhat {_HAVE}\b[^.,;:?()`]{{1,50}} {_HAVE}\b(?![^.]*\?)",
        "name the thing: 'tensors that are fetched are ...'",
    ),
    Pattern(
        "'what no', 'what nothing'",
        r"\bwhat (?:no|nothing|none|nobody)\b",
        "name the thing: 'values that do not depend on the batch'",
    ),
    Pattern(
        "'that what', 'so what'",
        r"\b(?:that|so) what\b",
        "name the thing: 'that the values ...'",
    ),
    Pattern(
        "'of which nothing', 'of which that'",
        r"\bof which (?:nothing|none|no|nobody|one|that|this|it)\b",
        "use two sentences, or 'whose', or 'without'",
    ),
    Pattern(
        "'taken for', 'takes it for'",
        r"\b(?:taken|(?:take|takes|took) (?:it|them|this|one|losses)) for\b(?! all\b)",
        "say 'treated as', 'assumed to be' or 'mistaken for'",
    ),
    Pattern("'besides'", r"\bbesides\b", "say 'also', 'as well as', 'in addition' or 'other than'"),
    Pattern("'whoever'", r"\bwhoever\b", "say 'users who', 'a caller that' or 'code that'"),
    Pattern(
        "'the heart of', 'the house', 'room'",
        r"\bheart of\b|\b(?:in|of|by) the house\b|\brooms?\b(?! for\b)",
        "say 'the core tests of', 'in this repository', 'package'",
    ),
    Pattern(
        "'is of', 'are of'",
        rf"\b{_BE} of\b(?! (?:course|shape|type|rank|size|length|use|interest|known|unknown|equal"
        r"|unequal|different|another|several|one|this|the same)\b)",
        "say 'belongs to', 'has', 'comes from' or name the relation",
    ),
    Pattern(
        "'says so'",
        r"\b(?:says|tells) so\b",
        "say who says what: 'a warning is logged', 'the error names it'",
    ),
    Pattern(
        "'knows nothing of', 'nothing of'",
        r"\bnothing of\b",
        "say 'does not know', 'does not mention' or 'none of'",
    ),
    Pattern(
        "'tells of', 'is said of'",
        r"\b(?:tell|tells|told|say|says|said) of\b",
        "say 'reports', 'describes' or 'lists'",
    ),
    Pattern("'but for'", r"\bbut for\b", "say 'except'"),
    Pattern("'anew'", r"\banew\b", "say 'again'"),
    Pattern("'stands on'", r"\bstands? on\b|\bstood on\b", "say 'needs' or 'depends on'"),
    Pattern("'goes round'", r"\b(?:go|goes|went) round\b", "say 'iterates' or 'runs its rounds'"),
)


class Finding(NamedTuple):
    line: int
    pattern: Pattern


class Text(NamedTuple):
    """Words of a file, with the line of each, and whether they begin a docstring."""

    words: list[tuple[str, int]]
    is_docstring: bool = False


def findings_in(text: Text) -> Iterator[Finding]:
    """Yields each phrase to avoid in a text: at most one per pattern and line."""
    joined, starts = "", []
    for word, line in text.words:
        starts.append((len(joined), line))
        joined += word.replace("*", "") + " "
    joined, begin = joined.strip(), 0
    if text.is_docstring and re.match(DOCSTRING.regex, joined):
        yield Finding(text.words[0][1], DOCSTRING)
        begin = 1  # One finding is enough.
    for pattern in PATTERNS:
        found: set[int] = set()
        regex = re.compile(pattern.regex, re.IGNORECASE * pattern.any_case)
        for match in regex.finditer(joined, begin):
            found.add(max(line for start, line in starts if start <= match.start()))
        yield from (Finding(line, pattern) for line in sorted(found))


def words_of(text: str, line: int) -> list[tuple[str, int]]:
    """Returns the words of a text that begins in a line, each with its own line."""
    return [(w, line + i) for i, row in enumerate(text.splitlines()) for w in row.split()]


def of_markdown(source: str) -> Iterator[Text]:
    """Yields paragraphs, headings, list items and cells of tables; no blocks of code."""

    def blank(match):
        return "\n" * match[0].count("\n")

    prose = re.sub(r"^```.*?^```$|<!--.*?-->", blank, source, flags=re.MULTILINE | re.DOTALL)
    words: list[tuple[str, int]] = []
    for number, row in enumerate(prose.splitlines(), 1):
        if re.match(r"\s*$|#|\||\s*(?:[-*+]|\d+\.) ", row):
            yield Text(words)
            words = []
        for i, cell in enumerate(row.split("|")):
            if i:
                yield Text(words)
                words = []
            words += words_of(re.sub(r"^\s*(?:#+|[-*+]|\d+\.) ", "", cell), number)
    yield Text(words)


def of_python(source: str) -> Iterator[Text]:
    """Yields docstrings, blocks of comments, and strings of at least four words."""
    yield from _comments(source)
    docstrings, parts = set(), set()
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node):
            docstrings.add(node.body[0].value)
        if isinstance(node, ast.JoinedStr):
            parts.update(node.values)
    for node in ast.walk(tree):
        if node in docstrings:
            yield Text(words_of(node.value, node.lineno), is_docstring=True)
        elif isinstance(node, ast.JoinedStr):
            values = (v.value if isinstance(v, ast.Constant) else "{}" for v in node.values)
            yield from _message("".join(values), node.lineno)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in parts:
            yield from _message(node.value, node.lineno)


def _comments(source: str) -> Iterator[Text]:
    words: list[tuple[str, int]] = []
    last = (0, 0)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            if (row - 1, column) != last:
                yield Text(words)
                words = []
            words += words_of(token.string.lstrip("# "), row)
            last = (row, column)
    yield Text(words)


def _message(value: str, line: int) -> Iterator[Text]:
    if len(value.split()) >= 4:
        # Strings that are put together have no lines of their own here.
        yield Text([(word, line) for word in value.split()])


def findings(path: Path) -> list[Finding]:
    """Returns the phrases to avoid in a Markdown or Python file."""
    source = path.read_text(encoding="utf-8")
    texts = of_python(source) if path.suffix == ".py" else of_markdown(source)
    return sorted(each for text in texts for each in findings_in(text))


def files(paths: list[str]) -> Iterator[Path]:
    """Yields the files named, and the Markdown and Python files of the folders named."""
    for path in map(Path, paths):
        below = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (each for each in below if each.suffix in (".md", ".py"))


def main(paths: list[str]) -> int:
    count = 0
    for path in files(paths):
        for line, pattern in findings(path):
            print(f"{path}:{line}: {pattern.name}: {pattern.advice}")
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
