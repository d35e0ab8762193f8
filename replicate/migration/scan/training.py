"""Finds Keras optimizers that do nothing in a graph, at the place where a file names them."""

from __future__ import annotations

import ast
import re
from typing import Iterator

from replicate.migration.scan import scopes, tensorflow_names, values
from replicate.migration.scan.findings import Finding
from replicate.migration.scan.module import Module, expression

_OPTIMIZER = re.compile(r"(?:keras\.)?optimizers\.([A-Z]\w*)")


def keras_optimizers(module: Module) -> Iterator[Finding]:
    """Yields Keras optimizers that update nothing in the graph of a `model_fn`.

    A file that compiles models or records gradients on tapes trains them eagerly.
    """
    if "optimizers" not in module.source.text:
        return
    if any(_is_eager(module, call) for call in module.names.calls):
        return
    seen: set[ast.AST] = set()
    for call in module.names.calls:
        name = _keras_name(module, call.func)
        # The called class may come from an argument or a dict.
        made = [(call, call.func, name)] if name else _behind(module, call.func)
        for at, node, name in made:
            if at in seen:
                continue
            seen.add(at)
            yield _optimizer(module, at, expression(node), name)


def _behind(module: Module, called: ast.expr) -> list[tuple[ast.AST, ast.expr, str]]:
    """Returns the optimizers that a call may construct: each node, twice, and its name."""
    nodes = [leaf.node for leaf in values.of(module, called) if not leaf.argument]
    found = [(node, node, _keras_name(module, node)) for node in nodes]
    return [one for one in found if one[2]]


def _keras_name(module: Module, node: ast.expr) -> str:
    """Returns the name of a Keras optimizer that updates nothing, given an expression; or ""."""
    path = module.names.path(node)
    found = tensorflow_names.parse(path)
    is_of_keras = found.api in ("tensorflow", "v2") or path.startswith("keras.")
    match = _OPTIMIZER.fullmatch(found.rest)
    return match[1] if match and is_of_keras and not _is_of_version_1(module, node) else ""


def _optimizer(module: Module, node: ast.AST, shown: str, name: str) -> Finding:
    legacy = f"tf.keras.optimizers.legacy.{name}"
    return module.finding(
        node,
        "keras-optimizer",
        shown,
        f"since TensorFlow 2.11 it updates nothing in a graph. Write `{legacy}`.",
        replacement=legacy,
        needs="estimator",
    )


def _is_eager(module: Module, call: ast.Call) -> bool:
    """Whether a call compiles a Keras model, or makes a tape."""
    path = module.names.path(call.func)
    if scopes.last(path) == "GradientTape":
        return True
    return getattr(call.func, "attr", "") == "compile" and not path


def _is_of_version_1(module: Module, node: ast.expr) -> bool:
    """Whether an edit changes the import of a name to version 1."""
    root = scopes.root_of(node)
    bindings = module.names.bindings(root.id, module.names.scopes[root])
    return any(binding.node in module.of_version_1 for binding in bindings)
