"""Finds sessions in which files train without an Estimator.

A file that only predicts may build a model that another file trains. So a session counts only if
the file uses a training step.
"""

from __future__ import annotations

import ast
from typing import Any, Iterator

from replicate.migration.scan import scopes, tensorflow_names, values
from replicate.migration.scan.findings import Finding
from replicate.migration.scan.module import Module

_SESSIONS = ("Session", "InteractiveSession")
_TRAIN = ("MonitoredTrainingSession", "MonitoredSession", "SingularMonitoredSession", "Supervisor")
_KNOWN = (*_SESSIONS, *(f"train.{one}" for one in _TRAIN))
_STEPS = ("minimize", "apply_gradients")


def loops(module: Module) -> Iterator[Finding]:
    """Yields the session in which a file trains, and records steps that other files may use."""
    steps = [
        call
        for call in module.names.calls
        if getattr(call.func, "attr", "") in _STEPS and not module.names.path(call.func)
    ]
    _note(module, steps)
    if any(use.path.startswith("replicate") for use, _ in module.uses):
        return
    if "estimator" in module.facts or "replicated" in module.facts:
        return
    calls = sorted(module.names.calls, key=lambda one: (one.lineno, one.col_offset))
    made = [(call, tensorflow_names.function(module.names, call)) for call in calls]
    found = [one for one in made if one[1].api in ("tensorflow", "v1") and one[1].rest in _KNOWN]
    if not found:
        return
    around = {one for call, _ in found for one in _owners(module, call)}
    needs = [""]
    if not any(_is_asked_for(module, step, around) for step in steps):
        needs = sorted({f"trains {key}" for key in _asked(module)})
    call, name = found[0]
    for need in needs:
        yield module.finding(
            call,
            "session-loop",
            f"tf.{name.rest}",
            "replicate trains models of Estimators. Write the code that builds the graph as a "
            "`model_fn`, the code that feeds it as an `input_fn`, and pass both to an Estimator.",
            needs=need,
        )


def _owners(module: Module, node: ast.AST) -> list[Any]:
    """Returns the outermost function around a node, or a method and its class, or nothing."""
    kinds = (*scopes.FUNCTIONS, ast.ClassDef)
    return [one for one in module.names.around(node) if isinstance(one, kinds)][-2:]


def _attribute(module: Module, step: ast.Call) -> str:
    """Returns the name of the attribute that a step is assigned to, or ""."""
    parent = module.names.parents[step]
    targets = parent.targets if isinstance(parent, ast.Assign) else []
    return next((one.attr for one in targets if isinstance(one, ast.Attribute)), "")


def _is_asked_for(module: Module, step: ast.Call, around: set[Any]) -> bool:
    """Whether a file uses a training step.

    Args:
        module: The file.
        step: The call that makes the step.
        around: Functions and classes with sessions.
    """
    name = _attribute(module, step)
    if name:
        loaded = (one for one in module.names.attributes if isinstance(one.ctx, ast.Load))
        return any(one.attr == name for one in loaded)
    owners = _owners(module, step)
    if not owners or around & {*owners}:
        return True
    named = {getattr(one, "name", "") for one in owners}
    if any(one.attr in named for one in module.names.attributes):
        return True
    return any(module.names.is_used(one, module.names.module) for one in named)


def _note(module: Module, steps: list[ast.Call]) -> None:
    """Records functions that return a training step, and attributes that hold one, as facts."""
    for step in steps:
        name, owners = _attribute(module, step), _owners(module, step)
        if name and owners and isinstance(owners[-1], ast.ClassDef):
            module.facts.add(f"trains {module.own(f'{owners[-1].name}.{name}')}")
        function = _returning(module, step)
        if function is not None:
            module.facts.add(f"trains {module.own(function.name)}")
    for call in module.names.calls:
        function = _returning(module, call)
        if function is None:
            continue
        key = module.key(call.func)
        if isinstance(call.func, ast.Name) and not key:
            key = module.own(call.func.id)
        if key:
            module.links.add((f"trains {key}", f"trains {module.own(function.name)}"))


def _returning(module: Module, call: ast.Call) -> Any:
    """Returns the function of the file that returns the result of a call; None if none does."""
    parent = module.names.parents[call]
    if not isinstance(parent, (ast.Return, ast.Assign)):
        return None
    function = module.names.function_of(call)
    if function is None or module.names.parents[function] is not module.source.tree:
        return None
    if isinstance(parent, ast.Return):
        return function
    target = parent.targets[0] if isinstance(parent, ast.Assign) else None
    if not isinstance(target, ast.Name):
        return None
    loads = module.names.loads(target.id, module.names.inner[function])
    is_returned = any(isinstance(module.names.parents[one], ast.Return) for one in loads)
    return function if is_returned else None


def _asked(module: Module) -> Iterator[str]:
    """Yields keys of functions and attributes of other files that a file uses."""
    for call in module.names.calls:
        key = module.key(call.func)
        if key:
            yield key
    for node in module.names.attributes:
        if isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Load):
            for leaf in values.of(module, node.value):
                made = leaf.node if not leaf.argument else None
                key = module.key(made.func) if isinstance(made, ast.Call) else ""
                if key:
                    yield f"{key}.{node.attr}"
