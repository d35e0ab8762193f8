"""Where `replicate.compat.install()` goes: into the file that runs first, before TensorFlow."""

import ast
import re
from typing import NamedTuple, Optional

from replicate.scan.contrib import INSTALL
from replicate.scan.findings import Edit
from replicate.scan.scopes import FUNCTIONS

# What may import TensorFlow, besides files of the codebase.
_IMPORTING = re.compile(r"tensor|tf_|keras|tflearn|sonnet|trfl|object_detection|t2t")


class Install(NamedTuple):
    """The line in the file that runs first.

    Attributes:
        path: Of the file, "" if it is not certain which one it is.
        edit: The `Edit` that writes the line, None if nobody knows where.
        why: Why there is none, "" if there is one.
    """

    path: str
    edit: Optional[Edit]
    why: str


def needs(finding):
    """Whether a finding is one that the line does away with."""
    if finding.rule == "contrib-name":
        return finding.needs == "no install" and not finding.edits
    return finding.rule in ("compat-install", "contrib-package")


def wanted(found):
    """Returns the `Install` of a `codebase.Found` if one of its findings needs it, else None."""
    return found.install if any(map(needs, found.findings)) else None


def find(entries, unread, load, imports):
    """Returns the `Install` of a codebase.

    Args:
        entries: Paths of the files that run by themselves.
        unread: Those of files that could not be read.
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


def _listed(paths):
    return ", ".join(sorted(paths)[:3]) + (", …" if len(paths) > 3 else "")


def _edit(module, imports):
    text, names = module.source.text, module.names
    at = next((one for one in module.source.tree.body if _imports(one, module, imports)), None)
    if at is None:
        return None
    bound = names.module.bindings.get("replicate", ())
    if any(binding.kind != "import" or binding.value != "replicate" for binding in bound):
        return None
    start = module.offset(at)
    if start != module.source.starts[at.lineno - 1]:
        return None  # After another statement of the line.
    end = (re.search(r"\r\n|\r|\n", text) or ["\n"])[0]
    is_there = any(
        binding.node in module.source.tree.body and binding.node.lineno < at.lineno
        for binding in bound
    )
    lines = [INSTALL] if is_there else ["import replicate", "", INSTALL]
    return Edit(start, start, "".join(line + end for line in [*lines, ""]))


def _imports(statement, module, imports):
    """Whether a statement of the file itself imports TensorFlow, or a file that may do so."""
    pending = [statement]
    while pending:
        node = pending.pop()
        if isinstance(node, (*FUNCTIONS, ast.expr)):
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            start = f"{node.module}." if getattr(node, "module", None) else ""
            names = [f"{start}{one.name}" for one in node.names]
            if getattr(node, "level", 0) or any(_is_own(one, module, imports) for one in names):
                return True
        pending += ast.iter_child_nodes(node)
    return False


def _is_own(name, module, imports):
    """Whether a name is of what imports TensorFlow, or of the codebase."""
    return bool(_IMPORTING.match(name)) or imports.has(name, module.source.path)
