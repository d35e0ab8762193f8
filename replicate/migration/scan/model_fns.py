"""Finds the `model_fn`s of a file, its Estimators, and the places for `replicate_model_fn`."""

from __future__ import annotations

import ast
from typing import Any, Iterator

from replicate.migration.scan import scopes, tensorflow_names
from replicate.migration.scan.contrib import INSTALL
from replicate.migration.scan.findings import Finding
from replicate.migration.scan.module import Module, constant, expression, keyword

_SPECS = ("EstimatorSpec", "TPUEstimatorSpec")
_OF_HEADS = ("create_estimator_spec", "create_tpu_estimator_spec", "_create_tpu_estimator_spec")
_ESTIMATORS = ("Estimator", "EstimatorV2", "TPUEstimator")
REPLICATE = "replicate_model_fn"


def find(module: Module) -> list[tuple[int, str]]:
    """Returns the line and the name of each `model_fn` of a module, in order."""
    named = _named(module)
    passed = {_function(module, _given(module, call), named) for call in estimators(module)}
    found = [
        (node.lineno, node.col_offset, getattr(node, "name", "lambda"))
        for node in module.names.functions
        if node in passed or _is_like(node)
    ]
    return [(line, name) for line, _, name in sorted(found)]


def _is_like(function: Any) -> bool:
    """Whether a function has the arguments of a `model_fn`, and makes specs."""
    given = function.args
    several = [*getattr(given, "posonlyargs", []), *given.args, *given.kwonlyargs]
    if not {"features", "mode"} <= {one.arg for one in several}:
        return False
    called = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
    specs = (*_SPECS, *_OF_HEADS)
    return any(getattr(one, "attr", getattr(one, "id", "")) in specs for one in called)


def _given(module: Module, call: ast.Call) -> ast.expr | None:
    """Returns the `model_fn` that is passed to an Estimator, without its wrappers."""
    node = keyword(call, "model_fn", 0)
    for _ in range(5):
        if isinstance(node, ast.Call):  # `partial(model_fn, x)`, `wrapped(model_fn)`
            inner = node.args[0] if node.args else keyword(node, "model_fn")
            if inner is None:
                break
            node = inner
        elif isinstance(node, ast.Name):
            values = module.names.bindings(node.id, module.names.scopes[node])
            if len(values) != 1 or values[0].kind != "value":
                break
            node = values[0].value
        else:
            break
    return node


def _function(module: Module, node: ast.expr | None, named: dict) -> ast.AST | None:
    """Returns the function of the file that an expression refers to; None if there is none."""
    if isinstance(node, (ast.Name, ast.Attribute)):
        is_imported = bool(module.names.path(node))
        name = getattr(node, "attr", getattr(node, "id", ""))
        return None if is_imported else named.get(name)
    return node if isinstance(node, scopes.FUNCTIONS) else None


def _named(module: Module) -> dict[str, ast.AST]:
    """Returns the functions of a file by name, without ambiguous names."""
    found: dict[str, ast.AST] = {}
    several = set()
    for node in module.names.functions:
        name = getattr(node, "name", "")
        if name in found:
            several.add(name)
        found[name] = node
    return {name: node for name, node in found.items() if name and name not in several}


def estimators(module: Module) -> list[ast.Call]:
    """Returns the calls that construct an Estimator with a `model_fn`."""
    found = []
    for call in module.names.calls:
        path = module.names.path(call.func)
        called = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if called not in _ESTIMATORS:
            continue
        name = tensorflow_names.parse(path) if path else None
        is_known = name is not None and (name.api or path.startswith(("replicate", "tensorflow_")))
        if is_known or any(one.arg == "model_fn" for one in call.keywords):
            found.append(call)
    return found


def facts(module: Module) -> None:
    """Records facts on the codebase's Estimators."""
    named = {node.attr for node in module.names.attributes}
    named.update(alias.name for node in module.names.imports for alias in node.names)
    named.update(node.func.id for node in module.names.calls if isinstance(node.func, ast.Name))
    if REPLICATE in named:
        module.facts.add("replicated")
    if named & {*_ESTIMATORS, *_SPECS}:
        module.facts.add("estimator")
    given = (keyword(call, "batch_norm") for call in module.names.calls)
    if any(one is not None and constant(one) == "batch" for one in given):
        module.facts.add("whole batch norm")


def unreplicated(module: Module) -> Iterator[Finding]:
    """Yields places for `replicate_model_fn`."""
    for call in estimators(module):
        given = keyword(call, "model_fn", 0)
        if given is None:
            continue
        purpose = _purpose(module, call)
        if not purpose:
            continue
        shown = expression(given)
        yield module.finding(
            given,
            "replicate-model-fn",
            f"{expression(call.func)}({shown})",
            f"Write `replicate.{REPLICATE}({shown})` here to {purpose} on all devices.",
            needs="no replicated",
        )


def _purpose(module: Module, call: ast.Call) -> str:
    """Returns the use of an Estimator as a verb: "run" if unknown, "" if it is only exported."""
    parent = module.names.parents[call]
    if isinstance(parent, ast.Attribute):
        return _verbs([parent])
    targets = parent.targets if isinstance(parent, ast.Assign) else []
    if len(targets) != 1 or not isinstance(targets[0], (ast.Name, ast.Attribute)):
        return "run"
    target = targets[0]
    if isinstance(target, ast.Attribute):  # Such as `self.estimator`.
        shown = expression(target)
        found: list[Any] = [one for one in module.names.attributes if expression(one) == shown]
    else:
        found = module.names.loads(target.id, module.names.scopes[target])
    parents = [module.names.parents[one] for one in found if isinstance(one.ctx, ast.Load)]
    return _verbs(parents)


def _verbs(parents: list[Any]) -> str:
    """Returns the verb for the methods of an Estimator that are used, given nodes around it."""
    methods = {one.attr for one in parents if isinstance(one, ast.Attribute)}
    if "train" in methods:
        return "train"
    escapes = not parents or any(not isinstance(one, ast.Attribute) for one in parents)
    verbs = [one for one in ("evaluate", "predict") if one in methods]
    exports = methods and all(one.startswith(("export_", "experimental_")) for one in methods)
    if escapes or (not verbs and not exports):
        return "run"
    return " and ".join(verbs)


def installs(module: Module) -> Iterator[Finding]:
    """Yields the first name of `tf.estimator`, which newer TensorFlows do not have."""
    for use, name in module.uses:
        if tensorflow_names.is_of_estimator(name) and not module.is_guarded(use.node):
            yield module.finding(
                use.node,
                "compat-install",
                f"tf.{name.rest}",
                f"TensorFlow 2.16 and newer do not have it. Call `{INSTALL}` in the file that runs "
                "first, before others are imported, or use `replicate.estimator`.",
                needs="no install",
            )
            return
