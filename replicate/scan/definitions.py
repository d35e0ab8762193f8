"""Which function a name stands for, in whichever file of a codebase it is defined.

A *full name* is what an import says, with what is taken of it: `networks.Net.().forward` is a
method of what `networks.Net` makes. It begins with dots if the import is relative, with `:` if it
is of the same file.
"""

import ast
from typing import Any, NamedTuple, Optional

from replicate.scan.imports import Imports
from replicate.scan.module import Module
from replicate.scan.scopes import FUNCTIONS

_DEEPEST = 20  # Names that stand for one another.
_MOST = 40  # Files and names that are looked at to find one.
_METHODS = {"": ("__init__",), "()": ("__call__", "call")}


class Definition(NamedTuple):
    """A function.

    Attributes:
        module: Of its file.
        node: Its syntax tree.
    """

    module: Module
    node: Any


def full_name(module, node, depth=0):
    """Returns the full name of an expression, "" if it has none."""
    path = module.names.path(node)
    if path or depth > _DEEPEST:
        return path
    if isinstance(node, ast.Call):
        return _joined(full_name(module, node.func, depth + 1), "()")
    if isinstance(node, ast.Attribute):
        if _is_self(node.value):
            return _of_self(module, node, depth + 1)
        return _joined(full_name(module, node.value, depth + 1), node.attr)
    if not isinstance(node, ast.Name) or node not in module.names.scopes:
        return ""
    scope = module.names.scopes[node].find(node.id)
    if scope is None:
        return f":{node.id}" if module.names.stars else ""
    bindings = scope.bindings[node.id]
    if len(bindings) != 1:
        return ""
    (binding,) = bindings
    if binding.kind == "value" and not isinstance(binding.value, ast.Lambda):
        return full_name(module, binding.value, depth + 1)
    return f":{node.id}" if scope is module.names.module else ""


def _joined(name, rest):
    return f"{name}.{rest}" if name else ""


def _is_self(node):
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _class_around(module, node):
    return next((one for one in module.names.around(node) if isinstance(one, ast.ClassDef)), None)


def _of_self(module, node, depth):
    """Returns the full name of a method, or of what `self.net = Net()` has put in its place."""
    around = _class_around(module, node)
    if around is None:
        return ""
    values = [
        one.value
        for one in module.names.assigns
        for target in one.targets
        if isinstance(target, ast.Attribute)
        and target.attr == node.attr
        and _is_self(target.value)
        and _class_around(module, one) is around
    ]
    if values:
        made = len(values) == 1 and isinstance(values[0], ast.Call)
        return full_name(module, values[0], depth) if made else ""
    is_outside = module.names.parents.get(around) is module.source.tree
    return f":{around.name}.().{node.attr}" if is_outside else ""


class Definitions:
    """The functions of a codebase.

    Args:
        imports: Its `Imports`.
        load: Function of a path that returns its `Module`, None if it cannot be read.
    """

    def __init__(self, imports: Imports, load):
        self._imports = imports
        self._load = load

    def find(self, name, importer) -> Optional[Definition]:
        """Returns the `Definition` of a function by its full name, None if it is not known.

        Args:
            name: The full name.
            importer: The path of the file that says so.
        """
        return self._find(name, importer, set())

    def _find(self, name, importer, seen):
        # What imports one another in a circle, too.
        if not name or (name, importer) in seen or len(seen) > _MOST:
            return None
        seen.add((name, importer))
        own = [(importer, name[1:].split("."))] if name.startswith(":") else []
        for path, rest in own or self._imports.find(name, importer):
            module = self._load(path) if rest else None
            found = self._below(module, list(rest), seen) if module else None
            if found is not None:
                return found
        return None

    def _below(self, module, rest, seen):
        """Returns what a name of a file stands for."""
        first, after = rest[0], rest[1:]
        bindings = module.names.module.bindings.get(first, ())
        if not bindings:
            return self._by_stars(module, rest, seen)
        for binding in bindings:
            if binding.kind == "import":
                found = self._find(".".join([binding.value, *after]), module.source.path, seen)
                if found is not None:
                    return found
        if len(bindings) > 1:
            return None
        (binding,) = bindings
        if binding.kind == "value" and isinstance(binding.value, ast.Lambda) and not after:
            return Definition(module, binding.value)
        if binding.kind == "value":
            name = full_name(module, binding.value)
            return self._find(".".join([name, *after]) if name else "", module.source.path, seen)
        if isinstance(binding.node, ast.ClassDef):
            return self._method(module, binding.node, after, seen)
        is_function = isinstance(binding.node, FUNCTIONS) and not after
        return Definition(module, binding.node) if is_function else None

    def _by_stars(self, module, rest, seen):
        for star in module.names.stars:
            start = "." * star.level + (f"{star.module}." if star.module else "")
            found = self._find(start + ".".join(rest), module.source.path, seen)
            if found is not None:
                return found
        return None

    def _method(self, module, of_class, rest, seen):
        """Returns a method of a class, its constructor if nothing is taken of it."""
        wanted = [part for part in rest if part != "()"]
        if len(wanted) > 1 or rest.count("()") > 1:
            return None
        for name in wanted or _METHODS["".join(rest)]:
            for node in of_class.body:
                if isinstance(node, FUNCTIONS) and node.name == name:
                    return Definition(module, node)
            for base in of_class.bases:
                above = full_name(module, base)
                found = self._find(_joined(above, name), module.source.path, seen)
                if found is not None:
                    return found
        return None
