"""Resolves names in a syntax tree: imports, aliases, and definitions that hide them.

A *path* is the full name behind a name: after `import tensorflow as tf`, the path of `tf.layers` is
`tensorflow.layers`. A name that may have another value as well has no path.
"""

from __future__ import annotations

import ast
from typing import Any, Iterator, NamedTuple, Sequence

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_DEEPEST = 1000
_LEAVES = (ast.expr_context, ast.operator, ast.cmpop, ast.unaryop, ast.boolop)
_SCOPES = (*FUNCTIONS, ast.ClassDef, *_COMPREHENSIONS)

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_OTHERS = (ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal, ast.ExceptHandler)
_BINDING = (*_DEFINITIONS, *_OTHERS)


class Binding(NamedTuple):
    """A statement that binds a name.

    Attributes:
        kind: "import", "value" if an expression is assigned, or "other".
        value: The path of an import, or the expression; None for others.
        node: The statement.
    """

    kind: str
    value: Any
    node: Any


class Use(NamedTuple):
    """A name with its attributes, such as `tf.layers.dense`.

    Attributes:
        node: The whole expression.
        root: The `ast.Name` in it.
        path: Its path.
        scope: The `Scope` of the root.
    """

    node: Any
    root: Any
    path: str
    scope: Any


class Scope:
    """The names of a module, a function, a class or a comprehension.

    Args:
        node: The node of the module, function, class or comprehension.
        parent: The `Scope` around it; None for the module.
    """

    def __init__(self, node: Any, parent: Scope | None) -> None:
        self.node = node
        self.parent = parent
        self.bindings: dict[str, list[Binding]] = {}
        self.outer: dict[str, bool] = {}
        """Names declared `global` (True) or `nonlocal` (False)."""

    def find(self, name: str) -> Scope | None:
        """Returns the `Scope` in which a name is found; None if there is none."""
        scope: Scope | None = self
        first = True
        while scope is not None:
            # Methods do not see the names of their class.
            visible = first or not isinstance(scope.node, ast.ClassDef)
            if visible and name in scope.bindings and name not in scope.outer:
                return scope
            scope, first = scope.parent, False
        return None


class Names:
    """The names of a module.

    Args:
        tree: The syntax tree of the module.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.parents: dict[Any, Any] = {}
        self.scopes: dict[Any, Scope] = {}
        """The `Scope`s around names, functions and classes, by node."""
        self.inner: dict[Any, Scope] = {}
        """The `Scope`s that functions, classes and comprehensions make, by node."""
        self.stars: list[Any] = []
        """Statements `from x import *`."""
        self.imports: list[Any] = []
        self.functions: list[Any] = []
        self.attributes: list[Any] = []
        self.calls: list[Any] = []
        self._chains: list[Any] = []
        self._known: dict[Any, str] = {}
        self._loads: Any = None
        self._stores: Any = None
        self.module = Scope(tree, None)
        self._read()

    def _read(self) -> None:
        pending: list[tuple[Any, Any, Scope, int]] = [(self.tree, None, self.module, 0)]
        unread = any(
            isinstance(node, ast.ImportFrom)
            and node.module == "__future__"
            and any(alias.name == "annotations" for alias in node.names)
            for node in self.tree.body
        )
        while pending:
            node, parent, scope, depth = pending.pop()
            kind = type(node)
            if depth > _DEEPEST:
                raise RecursionError  # As newer versions of Python do.
            self.parents[node] = parent
            inner = scope
            if kind is ast.Name:
                self._bind(node, scope)
                self.scopes[node] = scope
                if not isinstance(parent, ast.Attribute):
                    self._chains.append(node)
                continue  # It has no children.
            if kind is ast.Attribute:
                self.attributes.append(node)
                if not isinstance(parent, ast.Attribute):
                    self._chains.append(node)
            elif kind is ast.Call:
                self.calls.append(node)
            elif kind in _BINDING:
                self._bind(node, scope)
            if kind in _SCOPES:
                self.scopes[node] = scope
                inner = self.inner[node] = Scope(node, scope)
                if kind in FUNCTIONS:
                    self.functions.append(node)
                    self._bind_arguments(node, inner)
            of_comprehension = kind in _COMPREHENSIONS
            for field in node._fields:
                if unread and field in ("annotation", "returns"):
                    continue  # Python does not evaluate them, either.
                value = getattr(node, field, None)
                within = of_comprehension or field == "body"
                below = inner if within else scope
                for child in value if isinstance(value, list) else (value,):
                    if isinstance(child, ast.AST) and not isinstance(child, _LEAVES):
                        pending.append((child, node, below, depth + 1))
        for scope in self.inner.values():  # After all `global` statements were read.
            for name in scope.outer.keys() & scope.bindings.keys():
                home = None if scope.outer[name] else scope.find(name)
                found = (home or self.module).bindings.setdefault(name, [])
                found.extend(scope.bindings.pop(name))

    @staticmethod
    def _bind_arguments(node: Any, scope: Scope) -> None:
        given = node.args
        several = [*getattr(given, "posonlyargs", []), *given.args, *given.kwonlyargs]
        for argument in [*several, given.vararg, given.kwarg]:
            if argument is not None:
                scope.bindings.setdefault(argument.arg, []).append(Binding("other", None, node))

    def _bind(self, node: Any, scope: Scope) -> None:
        def bind(name: str, kind: str, value: Any = None, statement: Any = node) -> None:
            scope.bindings.setdefault(name, []).append(Binding(kind, value, statement))

        if isinstance(node, (ast.Import, ast.ImportFrom)):
            self.imports.append(node)
        if isinstance(node, ast.Import):
            for alias in node.names:
                # `import a.b` binds `a`.
                path = alias.name if alias.asname else alias.name.split(".")[0]
                bind(alias.asname or path, "import", path)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (f"{node.module}." if node.module else "")
            for alias in node.names:
                if alias.name == "*":
                    self.stars.append(node)
                else:
                    bind(alias.asname or alias.name, "import", f"{module}{alias.name}")
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bind(node.name, "other")
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            scope.outer.update(dict.fromkeys(node.names, isinstance(node, ast.Global)))
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bind(node.name, "other")
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            parent = self.parents[node]
            is_annotated = isinstance(parent, ast.AnnAssign) and parent.value is not None
            if is_annotated or (isinstance(parent, ast.Assign) and node in parent.targets):
                bind(node.id, "value", parent.value, parent)
            else:
                bind(node.id, "other")

    def uses(self) -> Iterator[Use]:
        """Yields a `Use` for each name that has a path, with all of its attributes."""
        for node in self._chains:
            root = root_of(node)
            if isinstance(root, ast.Name) and isinstance(root.ctx, ast.Load):
                path = self.path(node)
                if path:
                    yield Use(node, root, path, self.scopes[root])

    def path(self, node: Any) -> str:
        """Returns the path of an expression, "" if it has none."""
        if node not in self._known:
            paths = self._paths(node, frozenset())
            self._known[node] = max(paths, key=_preference) if paths else ""
        return self._known[node]

    def bindings(self, name: str, scope: Scope) -> list[Binding]:
        """Returns the bindings of a name that is used in a scope."""
        found = scope.find(name)
        return found.bindings[name] if found else []

    def is_used(self, name: str, scope: Scope) -> bool:
        """Whether a name of a scope is read anywhere."""
        return bool(self.loads(name, scope))

    def loads(self, name: str, scope: Scope) -> list[ast.Name]:
        """Returns the nodes that read a name of a scope."""
        if self._loads is None:  # Built once: there are many names.
            self._loads = {}
            for node in self.scopes:
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                    self._loads.setdefault(node.id, []).append(node)
        return [one for one in self._loads.get(name, ()) if self.scopes[one].find(name) is scope]

    def stores(self, name: str) -> Sequence[ast.Attribute]:
        """Returns the nodes that assign an attribute with that name, of any object."""
        if self._stores is None:
            self._stores = {}
            for node in self.attributes:
                if isinstance(node.ctx, ast.Store):
                    self._stores.setdefault(node.attr, []).append(node)
        return self._stores.get(name, ())

    def _paths(self, node: Any, seen: frozenset[Any]) -> set[str]:
        """Returns all possible paths of an expression; none if it may have another value."""
        attributes = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or len(seen) > 20:
            return set()
        scope = self.scopes.get(node)
        found = set()
        for binding in self.bindings(node.id, scope) if scope else ():
            if binding in seen:  # `tf = tf.compat.v1`
                continue
            if binding.kind == "import":
                found.add(binding.value)
            elif binding.kind == "value" and is_none(binding.value):
                continue  # `except ImportError: tf = None`
            elif binding.kind == "value":
                of_value = self._paths(binding.value, seen | {binding})
                if not of_value:
                    return set()
                found |= of_value
            else:
                return set()
        return {".".join([path, *reversed(attributes)]) for path in found}

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yields the nodes around a node, from the inside out."""
        outer = self.parents.get(node)
        while outer is not None:
            yield outer
            outer = self.parents.get(outer)

    def function_of(self, node: ast.AST) -> Any:
        """Returns the innermost function around a node, None if there is none."""
        return next((one for one in self.around(node) if isinstance(one, FUNCTIONS)), None)


def root_of(node: Any) -> Any:
    """Returns the innermost expression of a chain of attributes."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node


def is_none(node: ast.AST) -> bool:
    """Whether an expression is None."""
    return getattr(node, "value", 0) is None and type(node).__name__ in ("Constant", "NameConstant")


def last(path: str) -> str:
    """Returns the last name of a path."""
    return path.rpartition(".")[2]


def _preference(path: str) -> tuple[bool, bool, str]:
    # If an import depends on the version, prefer the newer name.
    return path.startswith("tensorflow.compat"), path.startswith("tensorflow"), path
