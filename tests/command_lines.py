"""Command lines, as documentation and programs show them: where they are, and how they are parsed.

A command is parsed by the program itself, up to where it would begin: modules, commands, flags and
their values are looked at as if somebody had typed it.
"""

import argparse
import ast
import html
import re
import runpy
import shlex
import sys
import warnings
from unittest import mock

import programs

ROOT = programs.ROOT
# Programs that parse twice: their own arguments, and those of a command or of their tasks.
_PARSES = {"examples.nas_search": 2, "examples.revnet": 2, "examples.cluster.local": 2}


class _ParsedError(Exception):
    """Ends a program once its arguments are parsed."""


def parse(words):
    """Returns the `argparse.Namespace` of `python -m MODULE ...`, a list of words.

    Raises:
        AssertionError: If the program refuses it.
    """
    while re.match(r"[A-Z_]+=", words[0]):
        words = words[1:]
    python, flag, module, *rest = words
    assert (python.rpartition("/")[2], flag) == ("python", "-m"), words
    left, original = [_PARSES.get(module, 1)], argparse.ArgumentParser.parse_args

    def parse_args(parser, *args, **kwargs):
        parsed = original(parser, *args, **kwargs)
        left[0] -= 1
        if not left[0]:
            raise _ParsedError(parsed)
        return parsed

    with mock.patch.multiple(argparse.ArgumentParser, parse_args=parse_args), mock.patch.object(
        sys, "argv", [module, *rest]
    ):
        try:
            with warnings.catch_warnings():  # Another test may have imported the module.
                warnings.filterwarnings("ignore", ".*found in sys.modules", RuntimeWarning)
                runpy.run_module(module, run_name="__main__")
        except _ParsedError as parsed:
            return parsed.args[0]
        except SystemExit as end:
            assert "--help" in rest and not end.code, f"{shlex.join(words)} is refused"
            return argparse.Namespace()
    raise AssertionError(f"{shlex.join(words)} parses nothing")


def names_alone(words):
    """Whether a command is but named in a sentence, without what it is given."""
    return not any(word.startswith("-") for word in words[words.index("-m") + 2 :])


def of_pages():
    """Yields name of the page and command, a list of words, of all that documentation shows."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    for folder in ("docs", "examples", "benchmarks"):
        pages += sorted((ROOT / folder).rglob("*.md"))
    for page in pages:
        text = page.read_text()
        for words in [*_in_blocks(text), *_in_sentences(text)]:
            yield page.relative_to(ROOT).as_posix(), words


def _in_blocks(text):
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for block in (block for language, block in fenced if language in ("", "sh")):
        line = ""
        for more in block.replace("\\\n", " ").splitlines(keepends=True):
            line += more
            if line.count("'") % 2:  # A quoted word continues.
                continue
            words, line = _words(line), ""
            if _is_command(words):
                yield words
        assert not line, f"a quote has no end: {line}"


def _in_sentences(text):
    text = re.sub(r"^```.*?^```$|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL)
    yield from in_backticks(re.sub(r"\s+", " ", text))


def in_backticks(text):
    """Yields the commands between backticks, lists of words."""
    for shown in re.findall(r"`((?:make|python -m) [^`{[]+)`", text):
        words = shlex.split(shown)
        is_named = words[0] == "python" and names_alone(words)
        yield [*words, "--help"] if is_named else words


def in_lines(text):
    """Yields the commands of a text that are lines of their own, lists of words."""
    for line in html.unescape(text).splitlines():
        shown = re.search(r"^(?: *|.*<pre\b[^>]*>)(python -m .*?)(?:  .*|</pre>.*)?$", line)
        if shown:
            yield _words(shown[1])


def _words(line):
    """Returns the words of a command line, without where its output goes."""
    words = shlex.split(line, comments=True)
    return words[: words.index(">")] if ">" in words else words


def _is_command(words):
    words = [word for word in words if not re.match(r"[A-Z_]+=", word)]
    return words[:1] == ["make"] or words[1:2] == ["-m"]


def of_sources(*folders):
    """Yields name of the file, and command, of all that docstrings and messages of modules show."""
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        text = path.read_text()
        if "python -m " not in text and "`make " not in text:
            continue  # Parsing all modules would take seconds each time tests are collected.
        tree = ast.parse(text)
        shown = [words for text in _docstrings(tree) for words in in_lines(text)]
        shown += [words for text in _texts(tree) for words in in_backticks(text)]
        for words in shown:
            yield path.relative_to(ROOT).as_posix(), words


def _docstrings(tree):
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    found = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, documented)]
    return filter(None, found)


def _texts(tree):
    """Yields the texts of a module, docstrings too; what a program would put into one is `x`."""
    inner = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inner.update(map(id, node.values))
            parts = [(isinstance(part, ast.Constant) and part.value) or "x" for part in node.values]
            yield "".join(parts)
        elif isinstance(node, ast.Constant) and id(node) not in inner:
            yield node.value if isinstance(node.value, str) else ""
