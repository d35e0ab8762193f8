"""Finds the place for `replicate.compat.install()`: before TensorFlow, in the first file to run."""

from __future__ import annotations

import ast
import re
from typing import Any, Callable, Collection, NamedTuple

from replicate.migration.scan.contrib import INSTALL
from replicate.migration.scan.findings import Edit, Finding
from replicate.migration.scan.imports import Imports
from replicate.migration.scan.module import Module
from replicate.migration.scan.scopes import FUNCTIONS

# Packages that may import TensorFlow, in addition to files of the codebase.
_IMPORTING = re.compile(r"tensor|tf_|keras|tflearn|sonnet|trfl|object_detection|t2t")


class Install(NamedTuple):
    """The call in the file that runs first.

    Attributes:
        path: Path of the file; "" if it is not certain which file runs first.
        edit: The `Edit` that inserts the call; None if its place is not certain.
        why: The reason why there is no edit; "" if there is one.
    """

    path: str
    edit: Edit | None
    why: str


def needs(finding: Finding) -> bool:
    """Whether the call resolves a finding."""
    if finding.rule == "contrib-name":
        return finding.needs == "no install" and not finding.edits
    return finding.rule in ("compat-install", "contrib-package")


def wanted(found: Any) -> Install | None:
    """Returns the `Install` of a `codebase.Found` if one of its findings needs it, else None."""
    return found.install if any(map(needs, found.findings)) else None


def find(
    entries: Collection[str],
    unread: Collection[str],
    load: Callable[[str], Module | None],
    imports: Imports,
) -> Install:
    """Returns the `Install` of a codebase.

    Args:
        entries: Paths of files that are run as programs.
        unread: Paths of files that could not be read.
        load: Function of a path that returns its `Module`, None if it cannot be read.
        imports: The codebase's `Imports`.
    """
    why = "it is not certain which file runs first: "
    if unread:
        return Install("", None, f"{why}{_listed(unread)} could not be read.")
    if len(entries) != 1:
        which = f"{_listed(entries)} may." if entries else "none asks for `__main__`."
        return Install("", None, why + which)
    (path,) = entries
    module = load(path)
    edit = _edit(module, imports) if module is not None else None
    return Install(path, edit, "" if edit else "nothing tells where it imports TensorFlow first.")


def _listed(paths: Collection[str]) -> str:
    return ", ".join(sorted(paths)[:3]) + (", …" if len(paths) > 3 else "")


def _edit(module: Module, imports: Imports) -> Edit | None:
    text, names = module.source.text, module.names
    at = next((one for one in module.source.tree.body if _imports(one, module, imports)), None)
    if at is None:
        return None
    bound = names.module.bindings.get("replicate", ())
    if any(binding.kind != "import" or binding.value != "replicate" for binding in bound):
        return None
    start = module.offset(at)
    if start != module.source.starts[at.lineno - 1]:
        return None  # The line has another statement before it.
    end = (re.search(r"\r\n|\r|\n", text) or ["\n"])[0]
    is_there = any(
        binding.node in module.source.tree.body and binding.node.lineno < at.lineno
        for binding in bound
    )
    lines = [INSTALL] if is_there else ["import replicate", "", INSTALL]
    return Edit(start, start, "".join(line + end for line in [*lines, ""]))


def _imports(statement: ast.stmt, module: Module, imports: Imports) -> bool:
    """Whether a statement at module level imports TensorFlow, or a module that may do so."""
    pending: list[Any] = [statement]
    while pending:
        node = pending.pop()
        if isinstance(node, (*FUNCTIONS, ast.expr)):
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            base = getattr(node, "module", None)
            start = f"{base}." if base else ""
            names = [f"{start}{one.name}" for one in node.names]
            if getattr(node, "level", 0) or any(_may_import(one, module, imports) for one in names):
                return True
        pending += ast.iter_child_nodes(node)
    return False


def _may_import(name: str, module: Module, imports: Imports) -> bool:
    """Whether a name belongs to a package that may import TensorFlow, or to the codebase."""
    return bool(_IMPORTING.match(name)) or imports.has(name, module.source.path)
