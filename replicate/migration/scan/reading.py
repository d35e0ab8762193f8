"""A file as text and as a syntax tree, read as Python does (PEP 263), without importing it."""

from __future__ import annotations

import ast
import codecs
import io
import re
import tokenize
import warnings
from typing import Any, Iterable, NamedTuple

from replicate.migration.scan import python_2
from replicate.migration.scan.findings import Finding

# These take quadratic time, or are not encodings of source files.
_NO_ENCODINGS = ("punycode", "idna", "unicode_escape", "raw_unicode_escape", "undefined")
_IGNORE = re.compile(r"#\s*replicate:\s*ignore(-file)?\b(?:\[([\w\s,-]*)\])?")


class Source(NamedTuple):
    """A file that was read.

    Attributes:
        path: Path of the file, relative like the paths of the command line.
        data: Bytes of the file.
        text: The decoded text, with its original newlines.
        encoding: Encoding of the file, without `bom`.
        bom: The byte order mark at the beginning, or b"".
        starts: Positions of the beginning of each line in the text, in characters.
        tree: The syntax tree.
        ignored: Rules that `# replicate: ignore` names, by line; None for all rules.
        ignored_everywhere: Rules that `# replicate: ignore-file` names; None for all rules.
    """

    path: str
    data: bytes
    text: str
    encoding: str
    bom: bytes
    starts: list[int]
    tree: Any
    ignored: dict[int, set[str] | None]
    ignored_everywhere: set[str] | None

    def offset(self, line: int, column: int) -> int:
        """Converts a line and column of the syntax tree to a position in the text."""
        start = self.starts[line - 1]
        end = self.starts[line] if line < len(self.starts) else len(self.text)
        before = self.text[start:end].encode("utf-8", "surrogatepass")[:column]
        return start + len(before.decode("utf-8", "ignore"))

    def is_ignored(self, finding: Finding) -> bool:
        """Whether a comment suppresses a finding."""
        for rules in (self.ignored_everywhere, self.ignored.get(finding.line, set())):
            if rules is None or finding.rule in rules:
                return True
        return False


def source(path: str, data: bytes) -> Source | Finding:
    """Returns the `Source` of a file's bytes, or a `Finding` with the reason why there is none."""
    bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    if b"\0" in data:
        wide = data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        what = "UTF-16, which Python does not read" if wide else "null bytes: no Python"
        return unreadable(path, what, "Convert it to UTF-8, or leave it out by --skip.")
    try:
        lines = io.BytesIO(data.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
        encoding, _ = tokenize.detect_encoding(lines.readline)
        encoding = "utf-8" if bom else encoding
        if codecs.lookup(encoding).name.replace("-", "_") in _NO_ENCODINGS:
            raise SyntaxError(f"unknown encoding: {encoding}")
        text = data[len(bom) :].decode(encoding)
        if not isinstance(text, str):
            raise SyntaxError(f"unknown encoding: {encoding}")
    except (SyntaxError, LookupError, ValueError, TypeError, AssertionError) as error:
        what = f"not encoded as it says: {error}"
        return unreadable(path, what, "Save it as UTF-8, or name its encoding in line 1.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Such as warnings about escapes in strings.
            tree = ast.parse(text)
    except SyntaxError as error:
        return _syntax_error(path, text, error)
    except (RecursionError, MemoryError):
        return _too_deep(path)
    except ValueError as error:
        return unreadable(path, str(error), "Save it as a text of Python.")
    prints = _chevron(tree) if "print" in text and ">>" in text else None
    if prints:
        return Finding(path, prints, 1, "python-2", "a print statement", python_2.ADVICE)
    ends = [match.end() for match in re.finditer(r"\r\n|\r|\n", text)]
    ignored, everywhere = _ignored(text) if "replicate:" in text else ({}, set())
    return Source(path, data, text, encoding, bom, [0, *ends], tree, ignored, everywhere)


def unreadable(path: str, what: str, advice: str, line: int = 0) -> Finding:
    """Returns a finding on a file that is not read."""
    return Finding(path, line, min(line, 1), "unreadable", what, advice)


def _too_deep(path: str) -> Finding:
    return unreadable(path, "nested too deeply to be read", "Write generated code as data.")


def _syntax_error(path: str, text: str, error: SyntaxError) -> Finding:
    line = error.lineno or 0
    message = str(error.msg)
    if "nested" in message or "too complex" in message or "recursion" in message:
        return _too_deep(path)
    found = python_2.find(text, line)
    if found:
        return Finding(path, found.line, 1, "python-2", found.what, python_2.ADVICE)
    return unreadable(
        path,
        f"not of the Python that runs here: {message}",
        "Run the scan with the Python that runs this file, or correct it.",
        line,
    )


def _chevron(tree: ast.Module) -> int | None:
    """Returns the line of a `print >>file, text`, which Python 3 can parse, or None."""
    node: Any
    for node in ast.walk(tree):
        value = getattr(node, "value", None) if isinstance(node, ast.Expr) else None
        first: Any = value.elts[0] if isinstance(value, ast.Tuple) and value.elts else value
        is_shift = isinstance(first, ast.BinOp) and isinstance(first.op, ast.RShift)
        if is_shift and getattr(first.left, "id", "") == "print":
            return node.lineno
    return None


def _ignored(text: str) -> tuple[dict[int, set[str] | None], set[str] | None]:
    """Returns the rules that comments suppress: by line of their statement, and in the file."""
    lines: dict[int, set[str] | None] = {}
    everywhere: set[str] | None = set()
    first, here = 0, []
    # Python normalizes newlines for syntax trees, so the line numbers match.
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            first = first or token.start[0]
            match = _IGNORE.search(token.string) if token.type == tokenize.COMMENT else None
            if match is not None:
                here.append(match)
            if token.type != tokenize.NEWLINE:
                continue
            for match in here:
                named = None if match[2] is None else set(re.findall(r"[\w-]+", match[2]))
                if match[1]:
                    everywhere = _more(everywhere, named)
                else:
                    for line in range(first, token.end[0] + 1):
                        lines[line] = _more(lines.get(line, set()), named)
            first, here = 0, []
    except (tokenize.TokenError, SyntaxError):  # Code that only a newer tokenizer can read.
        pass
    return lines, everywhere


def _more(rules: set[str] | None, named: Iterable[str] | None) -> set[str] | None:
    return None if rules is None or named is None else {*rules, *named}
