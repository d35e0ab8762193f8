"""Finds names that newer versions of TensorFlow do not have, not even in `compat.v1`."""

from __future__ import annotations

import ast
from typing import Any, Iterator

from replicate.migration.scan import tensorflow_names
from replicate.migration.scan.findings import Finding
from replicate.migration.scan.module import Module

_EXPERIMENTAL = "keras.mixed_precision.experimental"
_SCALES = (
    '`replicate.TowerOptimizer(optimizer, loss_scale="dynamic")` scales the loss in a `model_fn`; '
    "loss scales are in `replicate.loss_scale` and `tf.compat.v1.mixed_precision`."
)
_POLICY = (
    "A policy without `loss_scale` is `tf.keras.mixed_precision.Policy` of version 2, set by "
    "`set_global_policy`. "
)
# Advice for whole modules, by name.
_MODULES = {
    "examples": "TensorFlow 1.15 is the last that has it. Copy the tutorial's file into the "
    "codebase; MNIST itself is `tf.keras.datasets.mnist.load_data()`.",
    _EXPERIMENTAL: "TensorFlow 2.15 and newer do not have it; `replicate.compat.install()` brings "
    f"`Policy`, `set_policy`, `global_policy` and `LossScaleOptimizer`. {_POLICY}{_SCALES}",
}
# Advice for names in them, which replaces that for the module.
_INSIDE = {
    "LossScaleOptimizer": f"TensorFlow 2.15 and newer do not have it. {_SCALES}",
    "DynamicLossScale": "TensorFlow 2.15 and newer do not have it. Write "
    "`replicate.loss_scale.DynamicLossScale` or `tf.compat.v1.mixed_precision.DynamicLossScale`.",
    "FixedLossScale": "TensorFlow 2.15 and newer do not have it. Write "
    "`replicate.loss_scale.FixedLossScale` or `tf.compat.v1.mixed_precision.FixedLossScale`.",
    "LossScale": "TensorFlow 2.15 and newer do not have it. Write "
    "`replicate.loss_scale.LossScale` or `tf.compat.v1.mixed_precision.LossScale`.",
}
_STATES = "COLLECTION_FOR_GRAPH_STATES"


def names(module: Module) -> Iterator[Finding]:
    """Yields uses of these names, and imports of their modules."""
    for use, name in module.uses:
        found = tensorflow_names.known(name.rest) if name.api in ("tensorflow", "v1") else None
        if found and found[1].status == "gone" and not module.is_guarded(use.node):
            yield module.finding(
                use.node,
                "removed-name",
                f"tf.{found[0]}",
                f"TensorFlow {found[1].more[0]} is the last that has it, and nothing takes its "
                "place. Do without it.",
            )
    if "examples" in module.source.text or "mixed_precision" in module.source.text:
        yield from _modules(module)
    if _STATES in module.source.text:
        yield from _graph_states(module)


def _modules(module: Module) -> Iterator[Finding]:
    """Yields imports of removed modules, and uses without such an import."""
    imported: set[ast.AST] = set()
    for node in module.names.imports:
        if getattr(node, "level", 0):
            continue
        base = getattr(node, "module", None)
        for alias in node.names:
            path = f"{base}.{alias.name}" if base else alias.name
            gone = _gone(path)
            if gone:
                imported.add(node)
            if gone and not module.is_guarded(node):
                yield _finding(module, node, path, gone)
    for use, _ in module.uses:
        gone = _gone(use.path)
        bindings = module.names.bindings(use.root.id, use.scope)
        is_known = any(binding.node in imported for binding in bindings)
        if gone and not is_known and not module.is_guarded(use.node):
            yield _finding(module, use.node, use.path, gone)


def _gone(path: str) -> str:
    """Returns the removed module that a path names or lies in, or ""."""
    name = tensorflow_names.parse(path)
    is_of_keras = path.startswith("keras.")
    if name.api not in ("tensorflow", "v1", "v2") and not is_of_keras:
        return ""
    return next((one for one in _MODULES if f"{name.rest}.".startswith(f"{one}.")), "")


def _finding(module: Module, node: Any, path: str, gone: str) -> Finding:
    rest = tensorflow_names.parse(path).rest
    last = rest.rpartition(".")[2]
    advice = _INSIDE.get(last, _MODULES[gone]) if gone == _EXPERIMENTAL else _MODULES[gone]
    return module.finding(node, "removed-name", f"tf.{rest}", advice)


def _graph_states(module: Module) -> Iterator[Finding]:
    """Yields uses of the collection that held the state of each tower's graph."""
    for node in module.names.attributes:
        if node.attr == _STATES and isinstance(node.ctx, ast.Load) and not module.is_guarded(node):
            yield module.finding(
                node,
                "removed-name",
                f"TowerOptimizer.{_STATES}",
                "`model_fn` is called once for all towers, so that no collection holds the state "
                "of each. Write `TowerOptimizer._graph_state()` for `tf.get_collection(...)[0]`.",
            )
