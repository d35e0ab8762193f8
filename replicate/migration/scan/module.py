"""A file that rules analyse: its names, and its facts on the whole codebase."""

from __future__ import annotations

import ast
import re
from typing import Any

from replicate.migration.scan import scopes, tensorflow_names
from replicate.migration.scan.findings import Finding
from replicate.migration.scan.imports import Imports, own_key
from replicate.migration.scan.reading import Source

_MISSING = ("AttributeError", "ImportError", "ModuleNotFoundError", "Exception", "NameError")
_VERSIONS = ("__version__", "VERSION", "version")
_VERSION_NAME = re.compile(r"(?i)^_?(is_|has_|use_|using_)?(tf|tensorflow)_?(v|version)?_?[12]")
_NOTHING = object()
_LONGEST = 100  # Characters of a name.


class Module:
    """A file that uses TensorFlow, with its names and facts.

    Args:
        source: The `Source`.
        imports: The codebase's `Imports`; None if names of other files are not needed.
    """

    def __init__(self, source: Source, imports: Imports | None = None) -> None:
        self.source = source
        self._imports = imports
        self._calls: Any = None
        self.names = scopes.Names(source.tree)
        self.uses = [
            (use, tensorflow_names.parse(use.path))
            for use in self.names.uses()
            if not use.path.startswith(".")
        ]
        self.uses.sort(key=lambda one: (one[0].root.lineno, one[0].root.col_offset))
        self.facts: set[str] = set()
        """Facts on the codebase, see `Finding.needs`."""
        self.links: set[tuple[str, str]] = set()
        """Pairs of facts: if the first holds for the codebase, so does the second."""
        self.of_version_1: dict[Any, Any] = {}
        """The `Edit`s of imports of `tensorflow` that mean version 1, by import; None: by hand."""
        self.unused: list[Any] = []
        """Imports that some `Edit`s make useless: pairs of the set of these, and of the removal."""
        self.is_entry = is_entry(source)
        """Whether it is run as a program."""

    def finding(self, node: Any, rule: str, name: str, message: str, **kwargs: Any) -> Finding:
        """Returns the `Finding` of a rule at a node."""
        column = self.source.offset(node.lineno, node.col_offset)
        column -= self.source.starts[node.lineno - 1]
        name = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
        made = Finding(self.source.path, node.lineno, column + 1, rule, name, message)
        return made._replace(**kwargs)

    def offset(self, node: Any) -> int:
        """Returns the position of a node's first character in the text."""
        return self.source.offset(node.lineno, node.col_offset)

    def spelled(self, use: scopes.Use) -> tuple[int, int] | None:
        """Returns the position of a name with its attributes in the text, (start, end).

        It is None if it cannot be found, e.g. in a formatted string, inside which older versions of
        Python give no positions.
        """
        attributes: list[str] = []
        node = use.node
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        pattern = r"[ \t]*\.[ \t]*".join(map(re.escape, [use.root.id, *reversed(attributes)]))
        try:
            start = self.offset(use.root)
        except IndexError:
            return None
        match = re.compile(pattern + r"(?!\w)").match(self.source.text, start)
        before = self.source.text[start - 1 : start]
        return match.span() if match and not re.match(r"[\w.]", before) else None

    def is_guarded(self, node: ast.AST) -> bool:
        """Whether the file handles that the name at a node is missing, by a test or a `try`."""
        inner: Any = node
        for outer in self.names.around(node):
            if isinstance(outer, (ast.If, ast.IfExp)):
                found = inner is not outer.test and _asks_for_version(outer.test)
            elif isinstance(outer, ast.Try) and inner in [*outer.body, *outer.handlers]:
                found = any(map(_is_of_missing, outer.handlers))
            else:
                found = False
            if found:
                return True
            inner = outer
        return False

    def own(self, name: str) -> str:
        """Returns the `Imports.key` of a name that the file defines."""
        return own_key(self.source.path, name)

    def key(self, node: ast.AST) -> str:
        """Returns the `Imports.key` of an expression; "" if no file of the codebase defines it."""
        path = self.names.path(node)
        if not path or self._imports is None or path.startswith("tensorflow."):
            return ""
        return self._imports.key(path, self.source.path)

    def calls_of(self, function: Any) -> list[tuple[ast.Call, int]]:
        """Returns the calls of a function of the file, including `functools.partial(function, 1)`.

        Returns:
            List of pairs: the call, and the number of its arguments before those of the function.
        """
        if self._calls is None:
            self._calls = {}
            for call in self.names.calls:
                partial = scopes.last(self.names.path(call.func)) == "partial" and call.args[:1]
                called = call.args[0] if partial else call.func
                name = getattr(called, "attr", getattr(called, "id", ""))
                self._calls.setdefault(name, []).append((call, called, 1 if partial else 0))
        parent = self.names.parents.get(function)
        name = getattr(function, "name", "")
        is_method = isinstance(parent, ast.ClassDef) and name != "__init__"
        defined = parent if name == "__init__" else function
        found = self._calls.get(getattr(defined, "name", ""), ())
        return [
            (call, before)
            for call, called, before in found
            if (isinstance(called, ast.Attribute) if is_method else self._is_of(called, defined))
        ]

    def _is_of(self, called: Any, defined: ast.AST | None) -> bool:
        """Whether a called name refers to a function or class of the file."""
        scope = self.names.scopes.get(called) if isinstance(called, ast.Name) else None
        bindings = self.names.bindings(called.id, scope) if scope is not None else ()
        return any(binding.node is defined for binding in bindings)

    def text(self, node: Any) -> str:
        """Returns the source of an expression, abbreviated."""
        return expression(node)


def is_entry(source: Source) -> bool:
    """Whether a file is run as a program, judging by its statements."""
    return any(map(_is_main, source.tree.body))


def _is_main(node: Any) -> bool:
    test = getattr(node, "test", None)
    if isinstance(node, ast.If) and isinstance(test, ast.Compare):
        return isinstance(test.left, ast.Name) and test.left.id == "__name__"
    call = getattr(node, "value", None)
    return isinstance(node, ast.Expr) and isinstance(call, ast.Call) and _is_run(call)


def _is_run(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "run"


def _asks_for_version(test: ast.expr) -> bool:
    for node in ast.walk(test):
        if getattr(node, "attr", "") in _VERSIONS:
            return True
        if isinstance(node, ast.Name) and (node.id == "hasattr" or _VERSION_NAME.match(node.id)):
            return True
        if _VERSION_NAME.match(getattr(node, "attr", None) or ""):
            return True
    return False


def _is_of_missing(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return any(getattr(node, "id", "") in _MISSING for node in ast.walk(handler.type))


def constant(node: Any) -> Any:
    """Returns the value of a constant expression; None for any other."""
    if type(node).__name__ == "UnaryOp" and isinstance(node.op, ast.USub):
        value = constant(node.operand)
        return -value if isinstance(value, (int, float)) else None
    for attribute in ("value", "s", "n"):  # Before Python 3.8, each kind had a separate class.
        if type(node).__name__ in ("Constant", "NameConstant", "Str", "Num", "Bytes"):
            value = getattr(node, attribute, _NOTHING)
            if value is not _NOTHING:
                return value
    return None


def index(node: Any) -> Any:
    """Returns the expression in the brackets of an `ast.Subscript`."""
    inner = node.slice
    return inner.value if type(inner).__name__ == "Index" else inner  # Before Python 3.9.


def keyword(call: ast.Call, name: str, place: int | None = None) -> ast.expr | None:
    """Returns an argument of a call by name or position; None if it is not given."""
    for one in call.keywords:
        if one.arg == name:
            return one.value
    if place is not None and place < len(call.args):
        before = call.args[: place + 1]
        return None if any(isinstance(one, ast.Starred) for one in before) else before[-1]
    return None


def expression(node: Any, depth: int = 0) -> str:
    """Returns the source of an expression, with `…` in place of long parts."""
    if depth > 12:
        return "…"
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{expression(node.value, depth + 1)}.{node.attr}"
    if isinstance(node, ast.Subscript):
        inside = index(node)
        text = "…" if isinstance(inside, ast.Slice) else expression(inside, depth + 1)
        return f"{expression(node.value, depth + 1)}[{text}]"
    if isinstance(node, ast.Call):
        return f"{expression(node.func, depth + 1)}({'…' if node.args or node.keywords else ''})"
    value = constant(node)
    return repr(value)[:40] if value is not None else "…"
