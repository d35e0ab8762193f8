"""Finds possible values of expressions, through names, attributes, and arguments of functions.

Only functions of the file are followed. Attributes are distinguished by name: assignments to
`self.rows` do not affect `self.fused`.
"""

from __future__ import annotations

import ast
from typing import Any, Iterator, NamedTuple

from replicate.migration.scan import scopes
from replicate.migration.scan.module import Module, constant, keyword

_MOST = 300  # Limit on the expressions that are followed for one: a file may be generated.


class Leaf(NamedTuple):
    """A possible value of an expression.

    Attributes:
        node: The expression of the value; for an argument whose value comes from callers, the
            function.
        call: The innermost call of a function of the file that passes the value; None if there is
            none.
        argument: The name of the argument whose value comes from callers; else "".
    """

    node: Any
    call: ast.Call | None
    argument: str = ""


def of(module: Module, node: ast.expr) -> Iterator[Leaf]:
    """Yields the possible values of an expression that the file shows, without duplicates."""
    yield from _explored(module, Leaf(node, None))


def of_argument(module: Module, function: Any, name: str) -> Iterator[Leaf]:
    """Yields the possible values of a function's argument, which may be one in its `**`."""
    yield from _explored(module, Leaf(function, None, name))


def _explored(module: Module, first: Leaf) -> Iterator[Leaf]:
    seen: set[Any] = set()
    pending: list[Leaf] = [first]
    while pending and len(seen) < _MOST:
        leaf = pending.pop()
        if (leaf.node, leaf.argument) in seen:
            continue
        seen.add((leaf.node, leaf.argument))
        if leaf.argument:
            yield leaf
            pending += _given(module, leaf.node, leaf.argument)
            continue
        further = _further(module, leaf)
        if further is None:
            yield leaf
        else:
            pending += further


def is_true(leaf: Leaf) -> bool:
    """Whether a leaf is the constant True."""
    return not leaf.argument and constant(leaf.node) is True


def _further(module: Module, leaf: Leaf) -> list[Leaf] | None:
    """Returns the values behind an expression; None if the expression itself is the value."""
    node = leaf.node
    if isinstance(node, ast.IfExp):
        return [leaf._replace(node=node.body), leaf._replace(node=node.orelse)]
    if isinstance(node, ast.Name):
        return _of_name(module, leaf)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        bindings = module.names.bindings(node.value.id, module.names.scopes[node.value])
        dicts = [one.value for one in bindings if isinstance(one.value, ast.Dict)]
        return [leaf._replace(node=value) for one in dicts for value in one.values]
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        owner = _owner(module, node.value)
        if owner is not None:
            return [leaf._replace(node=one) for one in _assigned(module, owner, node.attr)]
    return None


def _of_name(module: Module, leaf: Leaf) -> list[Leaf] | None:
    found = module.names.scopes[leaf.node].find(leaf.node.id)
    if found is None:
        return None
    further = []
    for binding in found.bindings[leaf.node.id]:
        if binding.kind == "import":
            return None
        if binding.kind == "value":
            further.append(leaf._replace(node=binding.value))
        elif binding.node is found.node and isinstance(binding.node, scopes.FUNCTIONS):
            further.append(leaf._replace(node=binding.node, argument=leaf.node.id))
    return further


def _owner(module: Module, node: ast.Name) -> ast.ClassDef | None:
    """Returns the class of a name that is `self`, `cls` or the like, or the class's name."""
    for binding in module.names.bindings(node.id, module.names.scopes[node]):
        if isinstance(binding.node, ast.ClassDef):
            return binding.node
        parent = module.names.parents.get(binding.node)
        is_method = isinstance(binding.node, scopes.FUNCTIONS) and isinstance(parent, ast.ClassDef)
        if is_method and _names(binding.node)[:1] == [node.id]:
            return parent
    return None


def _assigned(module: Module, owner: ast.ClassDef, name: str) -> Iterator[ast.expr]:
    """Yields the expressions that are assigned to an attribute of a class or of its instances."""
    for binding in module.names.inner[owner].bindings.get(name, ()):
        if binding.kind == "value":
            yield binding.value
    for target in module.names.stores(name):
        parent = module.names.parents[target]
        of = target.value
        if (
            isinstance(parent, ast.Assign)
            and isinstance(of, ast.Name)
            and _owner(module, of) is owner
        ):
            yield parent.value


def _names(function: Any) -> list[str]:
    """Returns the names of a function's positional arguments."""
    return [one.arg for one in [*getattr(function.args, "posonlyargs", []), *function.args.args]]


def places(module: Module, function: Any, name: str) -> list[str]:
    """Returns the keys of an argument in calls: its name, and its position, such as "1", if any."""
    names = _names(function)
    if name not in names:
        return [name]
    is_bound = isinstance(module.names.parents.get(function), ast.ClassDef)
    return [name, str(names.index(name) - is_bound)]


def _given(module: Module, function: Any, name: str) -> Iterator[Leaf]:
    """Yields an argument's default, and the values that calls in the file pass for it."""
    given, names = function.args, _names(function)
    if name in names[len(names) - len(given.defaults) :]:
        yield Leaf(given.defaults[names.index(name) - len(names)], None)
    for one, default in zip(given.kwonlyargs, given.kw_defaults):
        if one.arg == name and default is not None:
            yield Leaf(default, None)
    place = next((int(one) for one in places(module, function, name) if one.isdigit()), None)
    for call, skipped in module.calls_of(function):
        value = keyword(call, name, None if place is None else place + skipped)
        if value is not None:
            yield Leaf(value, call)


def outside(module: Module, leaf: Leaf) -> str:
    """Returns the key of a leaf's function, or of the class that it initializes; or ""."""
    function, names = leaf.node, module.names
    parent = names.parents.get(function)
    name = getattr(function, "name", "")
    if isinstance(parent, ast.ClassDef):
        name = parent.name if name == "__init__" else ""
        parent = names.parents.get(parent)
    return module.own(name) if name and parent is module.source.tree else ""


def truths(source: Any) -> Iterator[str]:
    """Yields names of a module, and of its classes, whose value is True."""
    for node in source.tree.body:
        yield from _true_names(node)
        for inner in node.body if isinstance(node, ast.ClassDef) else ():
            yield from (f"{node.name}.{name}" for name in _true_names(inner))


def _true_names(node: Any) -> Iterator[str]:
    targets: list[Any] = getattr(node, "targets", [getattr(node, "target", None)])
    is_given = isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
    if is_given and constant(node.value) is True:
        yield from (target.id for target in targets if isinstance(target, ast.Name))
