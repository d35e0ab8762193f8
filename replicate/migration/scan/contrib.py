"""Finds names of `tf.contrib`, and their replacements, some by `replicate.compat.install()`."""

from __future__ import annotations

import ast
import re
from typing import Any, Iterator, Mapping

from replicate.migration.contrib import Place, find
from replicate.migration.scan import scopes, tensorflow_names
from replicate.migration.scan.findings import Edit, Finding
from replicate.migration.scan.module import Module

INSTALL = "replicate.compat.install()"
_EXTRA = "replicate-estimator[contrib]"


def place(name: str) -> Place:
    """Returns the `replicate.migration.contrib.Place` of a name of `tf.contrib`."""
    if not name:
        return Place("", "own", "", "", "")  # `tf.contrib` itself.
    found = _find(name)
    above = _find(name.partition(".")[0])
    if found.kind == "own" and above.kind == "package":
        # Modules of a package need the package.
        return found._replace(package=above.package)
    return found


def _find(name: str) -> Place:
    return find(name)


def names(module: Module) -> Iterator[Finding]:
    """Yields names of `tf.contrib`, at their uses or at their imports."""
    found = [(use, name.rest) for use, name in module.uses if name.api == "contrib"]
    taken = set()  # Bindings of modules: names with attributes.
    for use, _ in found:
        if isinstance(use.node, ast.Attribute):
            taken.update(module.names.bindings(use.root.id, use.scope))
    fixed: dict = {}  # Edits of all uses, by binding; None if a use cannot be edited.
    for use, name in found:
        bindings = module.names.bindings(use.root.id, use.scope)
        gives = _given(module, use.node)
        if isinstance(use.node, ast.Name) or (gives is not None and gives in taken):
            if isinstance(use.node, ast.Name):
                fixed.update((binding, None) for binding in bindings)
            continue
        if module.is_guarded(use.node):
            fixed.update((binding, None) for binding in bindings)
            continue
        found_place = place(_of_class(name))
        edits = _edits(module, use, found_place)
        for binding in bindings:
            before = fixed.get(binding, ())
            fixed[binding] = None if not edits or before is None else (*before, *edits)
        yield _finding(module, use.node, _of_class(name), found_place, edits)
    yield from _imports(module, taken)
    module.unused = _unused(module, fixed)


def _given(module: Module, node: ast.AST) -> scopes.Binding | None:
    """Returns the binding of a name to which only this expression is assigned; else None."""
    parent = module.names.parents[node]
    if not isinstance(parent, ast.Assign) or len(parent.targets) != 1:
        return None
    target = parent.targets[0]
    if not isinstance(target, ast.Name):
        return None
    scope = module.names.scopes[target]
    return next((b for b in scope.bindings.get(target.id, ()) if b.node is parent), None)


def _of_class(name: str) -> str:
    """Returns a name up to its class: the table has no attributes of classes."""
    parts = name.split(".")
    count = next((i for i, part in enumerate(parts) if re.match(r"_*[A-Z]", part)), len(parts))
    return ".".join(parts[: count + 1])


def _imports(module: Module, taken: set[scopes.Binding]) -> Iterator[Finding]:
    for node in module.names.imports:
        if module.is_guarded(node):
            continue
        base = getattr(node, "module", None)
        if getattr(node, "level", 0):
            continue
        for alias in node.names:
            path = f"{base}.{alias.name}" if base else alias.name
            name = tensorflow_names.parse(path)
            if name.api == "contrib" and alias.name == "*":
                yield star(module, node, base)
            elif name.api == "contrib" and name.rest:
                bindings = module.names.bindings(
                    alias.asname or alias.name.split(".")[0], _scope(module, node)
                )
                mine = [binding for binding in bindings if binding.node is node]
                if not any(binding in taken for binding in mine):
                    known = place(name.rest)
                    if not _is_used(module, node, alias, path):
                        yield _unused_import(module, node, name.rest, known)
                        continue
                    edit = _import_edit(module, node, alias, known)
                    yield _finding(module, node, name.rest, known, (edit,) if edit else ())


def _scope(module: Module, node: ast.AST) -> scopes.Scope:
    return module.names.inner.get(module.names.function_of(node), module.names.module)


def _is_used(module: Module, node: Any, alias: ast.alias, path: str) -> bool:
    """Whether a file uses an import, or may offer it to other files."""
    if "__all__" in module.source.text or module.source.path.endswith("__init__.py"):
        return True
    if isinstance(node, ast.Import) and not alias.asname:  # It binds `tensorflow`.
        return any(f"{use.path}.".startswith(f"{path}.") for use, _ in module.uses)
    return module.names.is_used(alias.asname or alias.name, _scope(module, node))


def _unused_import(module: Module, node: Any, name: str, found: Place) -> Finding:
    """Returns the finding of an unused import, by the kind of its name."""
    rules = {"none": "contrib-none", "package": "contrib-package"}
    return module.finding(
        node,
        rules.get(found.kind, "contrib-name"),
        f"tf.contrib.{name}",
        "nothing in this file uses it. Delete the import, unless another file takes it from here.",
        needs=None if found.kind in rules else "no install",
    )


def star(module: Module, node: Any, base: str | None) -> Finding:
    """Returns the finding of `from base import *`."""
    return module.finding(
        node,
        "star-import",
        f"from {base} import *",
        "its names are not followed. Import by name, then scan again.",
    )


def stars(module: Module) -> Iterator[Finding]:
    """Yields `from tensorflow import *` and its like."""
    for node in module.names.stars:
        if re.match(r"tensorflow(\.compat\.v[12])?$", node.module or "") and not node.level:
            yield star(module, node, node.module)


def _finding(
    module: Module, node: Any, name: str, found: Place, edits: tuple[Edit, ...]
) -> Finding:
    shown = f"tf.contrib.{name}".rstrip(".")
    if found.kind == "alias":
        message = f"`{found.target}` of `tensorflow.compat.v1` is the same. Write that, or call "
        message += f"`{INSTALL}` in the file that runs first."
        return module.finding(
            node,
            "contrib-name",
            shown,
            message,
            replacement=found.target,
            edits=edits,
            needs="no install",
        )
    if found.kind == "own" and not found.package:
        message = f"`{INSTALL}` in the file that runs first brings it."
        return module.finding(node, "contrib-name", shown, message, needs="no install")
    if found.package:
        message = (
            f"`{found.package}` has it: `pip install '{_EXTRA}'`, and call `{INSTALL}` in the "
        )
        message += "file that runs first."
        return module.finding(node, "contrib-package", shown, message, replacement=found.target)
    return module.finding(
        node, "contrib-none", shown, found.advice or "Nothing replaces it. Do without it."
    )


def _root(module: Module, scope: scopes.Scope) -> tuple[str, tuple[Edit, ...]]:
    """Finds a name that means `tensorflow.compat.v1` in a scope, maybe after edits.

    Returns:
        The name, "" if there is none, and a tuple of the `Edit`s that it needs.
    """
    for name, bindings in module.names.module.bindings.items():
        if scope.find(name) is not module.names.module or len(bindings) > 1:
            continue
        (binding,) = bindings
        if binding.kind == "import" and binding.value == "tensorflow.compat.v1":
            return name, ()
        moved = module.of_version_1.get(binding.node)
        if binding.kind == "import" and binding.value == "tensorflow" and moved:
            return name, (moved,)
    return "", ()


def _edits(module: Module, use: scopes.Use, found: Place) -> tuple[Edit, ...]:
    """Returns the `Edit`s that replace a name by its exact alias; () if that is not possible."""
    span = module.spelled(use)
    if found.kind != "alias" or not found.target.startswith("tf.") or span is None:
        return ()
    name = tensorflow_names.parse(use.path).rest
    if _of_class(name) != name:
        return ()  # The name has attributes of a class, which the span includes.
    root, others = _root(module, use.scope)
    if not root and tensorflow_names.parse(use.path[: -len(name)]).api == "contrib":
        # If version 2 has the same object, any name of TensorFlow will do.
        same = tensorflow_names.known(found.target[3:]) is None
        plain = module.names.module.bindings.get(use.root.id, ())
        is_one = [b.value for b in plain if b.kind == "import"] == ["tensorflow"]
        if same and is_one and use.scope.find(use.root.id) is module.names.module:
            root = use.root.id
    start, end = span
    return (Edit(start, end, root + found.target[2:]), *others) if root else ()


def _import_edit(module: Module, node: Any, alias: ast.alias, found: Place) -> Edit | None:
    """Returns the `Edit` of an import of a single name with an exact alias, or None."""
    if found.kind != "alias" or not isinstance(node, ast.ImportFrom) or len(node.names) > 1:
        return None
    _, _, target = found.target.partition("tf.")
    if not target or "." in target:  # Not all modules of `tf` can be imported.
        return None
    text, start = module.source.text, module.offset(node)
    pattern = rf"from[ \t]+{re.escape(node.module or '')}[ \t]+import[ \t]+{re.escape(alias.name)}"
    pattern += rf"([ \t]+as[ \t]+{re.escape(alias.asname)})?" if alias.asname else ""
    match = re.compile(pattern + r"(?=[ \t]*(#|;|\r|\n|\Z))").match(text, start)
    if match is None:
        return None
    bound = alias.asname or alias.name
    new = target if bound == target else f"{target} as {bound}"
    return Edit(*match.span(), f"from tensorflow.compat.v1 import {new}")


def _unused(
    module: Module, fixed: Mapping[scopes.Binding, tuple[Edit, ...] | None]
) -> list[tuple[frozenset[Edit], Edit]]:
    """Returns imports, and aliases such as `slim = tf.contrib.slim`, that edits make useless.

    Returns:
        List of pairs: the set of these edits, and the edit that removes the statement.
    """
    found = []
    for binding, edits in fixed.items():
        node = binding.node
        if not edits or node not in module.source.tree.body or "__all__" in module.source.text:
            continue
        if binding.kind == "import" and len(node.names) == 1:
            name, path = node.names[0].asname or node.names[0].name, binding.value
            pattern = r"(from|import)[ \t][^\r\n;#\\()]*(\r\n|\r|\n|\Z)"
        elif binding.kind == "value" and isinstance(node, ast.Assign):
            name, path = getattr(node.targets[0], "id", ""), module.names.path(binding.value)
            pattern = r"\w+[ \t]*=[ \t]*[\w.]+[ \t]*(\r\n|\r|\n|\Z)"
        else:
            continue
        if tensorflow_names.parse(path).api != "contrib":
            continue
        start = module.offset(node)
        line = re.compile(pattern).match(module.source.text, start)
        alone = len(module.names.module.bindings.get(name, ())) == 1
        if line and alone and start == module.source.starts[node.lineno - 1]:
            found.append((frozenset(edits), Edit(start, line.end(), "")))
    return found
