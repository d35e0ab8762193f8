"""What expressions may be, behind names, attributes, and arguments of a file's own functions.

Attributes are told apart: of `self.fused`, what is assigned to `self.rows` says nothing.
"""

from __future__ import annotations

import ast
from typing import Any, Iterator, NamedTuple

from replicate.scan import scopes
from replicate.scan.module import Module, constant, keyword

_MOST = 300  # Expressions that are looked at for one: a file may be generated.


class Leaf(NamedTuple):
    """What an expression may be.

    Attributes:
        node: The expression that says so; of an argument that is given from outside, its function.
        call: The innermost call of an own function that gives it, None if none does.
        argument: The name of such an argument, "" if it is none.
    """

    node: Any
    call: ast.Call | None
    argument: str = ""


def of(module: Module, node: ast.expr) -> Iterator[Leaf]:
    """Yields what an expression may be, as far as the file tells, each once."""
    yield from _explored(module, Leaf(node, None))


def of_argument(module: Module, function: Any, name: str) -> Iterator[Leaf]:
    """Yields what an argument of a function may be, one that its `**` takes among them."""
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
    """Returns what an expression stands for, None if it says all itself."""
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
    """Returns the class that a name such as `self`, or the class's own, stands for."""
    for binding in module.names.bindings(node.id, module.names.scopes[node]):
        if isinstance(binding.node, ast.ClassDef):
            return binding.node
        parent = module.names.parents.get(binding.node)
        is_method = isinstance(binding.node, scopes.FUNCTIONS) and isinstance(parent, ast.ClassDef)
        if is_method and _names(binding.node)[:1] == [node.id]:
            return parent
    return None


def _assigned(module: Module, owner: ast.ClassDef, name: str) -> Iterator[ast.expr]:
    """Yields what is assigned to one attribute of a class, or of its instances."""
    for binding in module.names.inner[owner].bindings.get(name, ()):
        if binding.kind == "value":
            yield binding.value
    for target in module.names.stores(name):
        parent = module.names.parents[target]
        is_given = isinstance(parent, ast.Assign) and isinstance(target.value, ast.Name)
        if is_given and _owner(module, target.value) is owner:
            yield parent.value


def _names(function: Any) -> list[str]:
    """Returns the names of a function's arguments that have places."""
    return [one.arg for one in [*getattr(function.args, "posonlyargs", []), *function.args.args]]


def places(module: Module, function: Any, name: str) -> list[str]:
    """Returns how callers name an argument: by its name, and by its place, "1", if it has one."""
    names = _names(function)
    if name not in names:
        return [name]
    is_bound = isinstance(module.names.parents.get(function), ast.ClassDef)
    return [name, str(names.index(name) - is_bound)]


def _given(module: Module, function: Any, name: str) -> Iterator[Leaf]:
    """Yields an argument's default, and what calls in the file give for it."""
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
    """Returns how other files name a leaf's function, or the class that it makes, "" if not."""
    function, names = leaf.node, module.names
    parent = names.parents.get(function)
    name = getattr(function, "name", "")
    if isinstance(parent, ast.ClassDef):
        name = parent.name if name == "__init__" else ""
        parent = names.parents.get(parent)
    return module.own(name) if name and parent is module.source.tree else ""


def truths(source: Any) -> Iterator[str]:
    """Yields names of a file that are True, alone or in a class."""
    for node in source.tree.body:
        yield from _true_names(node)
        for inner in node.body if isinstance(node, ast.ClassDef) else ():
            yield from (f"{node.name}.{name}" for name in _true_names(inner))


def _true_names(node: Any) -> Iterator[str]:
    targets: list[Any] = getattr(node, "targets", [getattr(node, "target", None)])
    is_given = isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
    if is_given and constant(node.value) is True:
        yield from (target.id for target in targets if isinstance(target, ast.Name))
