"""Finds imports of private modules, `tensorflow.python`, and the public names of their objects."""

from __future__ import annotations

import ast
from typing import Any, Iterator, Sequence

from replicate.migration.scan import tensorflow_names
from replicate.migration.scan.findings import Finding
from replicate.migration.scan.module import Module

_INSIDES = "tensorflow.python"
_SHOWN = 3  # Names that a finding lists.


def imports(module: Module) -> Iterator[Finding]:
    """Yields each import of private modules of TensorFlow, and each use without an import."""
    if _INSIDES not in module.source.text and ".python." not in module.source.text:
        return
    taken: dict = {}  # Uses, by import and imported path.
    alone = []
    for use, _ in module.uses:
        if not _is_inside(use.path) or module.is_guarded(use.node):
            continue
        imported = [
            (binding.node, binding.value)
            for binding in module.names.bindings(use.root.id, use.scope)
            if binding.kind == "import" and _is_inside(binding.value)
        ]
        for key in imported:
            taken.setdefault(key, []).append(use)
        alone += [use] if _is_spelled(use.node) else []
    for node in module.names.imports:
        if module.is_guarded(node) or getattr(node, "level", None):
            continue
        for path in _paths(node):
            if _is_inside(path):
                uses = taken.get((node, path), [])
                known = [(use.path, use.node.lineno) for use in uses] or [(path, node.lineno)]
                yield _finding(module, node, path, known)
    for use in alone:
        if use.path != _INSIDES:
            yield _finding(module, use.node, use.path, [(use.path, use.node.lineno)])


def _is_spelled(node: ast.AST) -> bool:
    """Whether an expression contains `.python`."""
    while isinstance(node, ast.Attribute):
        if node.attr == "python":
            return True
        node = node.value
    return False


def _is_inside(path: str) -> bool:
    return path == _INSIDES or path.startswith(f"{_INSIDES}.")


def _paths(node: Any) -> list[str]:
    base = getattr(node, "module", None)
    return [f"{base}.{alias.name}" if base else alias.name for alias in node.names]


def _public(path: str) -> str:
    """Returns the public name of a path, including attributes of a public object; or ""."""
    parts = path.split(".")
    for count in range(len(parts), 2, -1):
        found = tensorflow_names.public(".".join(parts[:count]))
        if found:
            return ".".join(["tf.compat.v1", found, *parts[count:]])
    return ""


def _finding(module: Module, node: Any, path: str, known: Sequence[tuple[str, int]]) -> Finding:
    public: dict[str, tuple[str, int]] = {}
    for used, line in known:
        name = _public(used)
        if name:
            public.setdefault(name, (used.rpartition(".")[2], line))
    listed = [f"`{name}` is {own} (line {line})" for name, (own, line) in public.items()]
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    message = "it is private to TensorFlow, and may move in another version."
    message += f" Publicly, {', '.join(listed[:_SHOWN])}{more}." if public else ""
    return module.finding(
        node,
        "private-path",
        path,
        message,
        replacement=next(iter(public)) if len(public) == 1 else "",
        needs="tensorflow-1",
    )
