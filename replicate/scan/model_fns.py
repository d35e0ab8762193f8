"""The `model_fn`s of a file, the functions that they call there, and its Estimators."""

import ast
from typing import Any, NamedTuple, Tuple

from replicate.scan import definitions, scopes, tensorflow_names
from replicate.scan.contrib import INSTALL
from replicate.scan.module import Module, expression, keyword, once

_SPECS = ("EstimatorSpec", "TPUEstimatorSpec")
_OF_HEADS = ("create_estimator_spec", "create_tpu_estimator_spec", "_create_tpu_estimator_spec")
_ESTIMATORS = ("Estimator", "EstimatorV2", "TPUEstimator")
REPLICATE = "replicate_model_fn"


_WRAPPERS = ("partial", REPLICATE)  # Of which it is known that a `model_fn` comes first.


class ModelFn(NamedTuple):
    """A `model_fn`.

    Attributes:
        node: Its function.
        name: Of the function.
        batch: Which of its arguments are the batch, names.
        is_for_tpus: Whether it is written for TPUEstimator.
    """

    node: Any
    name: str
    batch: Tuple[str, ...]
    is_for_tpus: bool


def arguments(function):
    """Returns the names of a function's arguments, `self` included."""
    given = function.args
    return [one.arg for one in [*getattr(given, "posonlyargs", []), *given.args, *given.kwonlyargs]]


def own(function):
    """Returns the names of a function's arguments, `self` left out."""
    return [name for name in arguments(function) if name not in ("self", "cls")]


@once
def find(module: Module):
    """Returns the `ModelFn`s of a module."""
    passed = {_function(module, _given(module, call)[0]) for call in estimators(module)}
    found = []
    for node in module.names.functions:
        specs = _specs(node) if _is_like(node) or node in passed else set()
        if node in passed or specs:
            found.append(made(node, specs))
    return found


def elsewhere(module: Module):
    """Yields the full names of what Estimators are given that is of no function of the file."""
    for call in estimators(module):
        node, is_known = _given(module, call)
        if node is not None and is_known and _function(module, node) is None:
            name = definitions.full_name(module, node)
            if name:
                yield name


def of_passed(node):
    """Returns the `ModelFn` of a function that an Estimator is given."""
    return made(node, _specs(node))


def made(node, specs):
    """Returns the `ModelFn` of a function that makes specs."""
    names = own(node)
    known = tuple(name for name in names if name in ("features", "labels"))
    for_tpus = "TPUEstimatorSpec" in specs or "tpu" in " ".join(specs)
    return ModelFn(node, getattr(node, "name", "lambda"), known or tuple(names[:2]), for_tpus)


def _is_like(node):
    return {"features", "mode"} <= set(arguments(node))


def _specs(function):
    """Returns which functions are called in a function that make specs."""
    called = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            called.add(getattr(node.func, "attr", getattr(node.func, "id", "")))
    return called & {*_SPECS, *_OF_HEADS}


def _given(module, call):
    """Returns what an Estimator is given for its `model_fn`, and whether it comes unchanged.

    That is, an expression, taken out of what wraps it, and whether it is known what that does.
    """
    node, is_known = keyword(call, "model_fn", 0), True
    for _ in range(5):
        if isinstance(node, ast.Call):  # `partial(model_fn, x)`, `wrapped(model_fn)`
            inner = node.args[0] if node.args else keyword(node, "model_fn")
            if inner is None:
                break
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            node, is_known = inner, is_known and called in _WRAPPERS
        elif isinstance(node, ast.Name):
            values = module.names.bindings(node.id, module.names.scopes[node])
            if len(values) != 1 or values[0].kind != "value":
                break
            node = values[0].value
        else:
            break
    return node, is_known


def _function(module, node):
    """Returns the function of a file that an expression stands for, None if there is none."""
    if isinstance(node, (ast.Name, ast.Attribute)):
        is_imported = bool(module.names.path(node))
        name = getattr(node, "attr", getattr(node, "id", ""))
        return None if is_imported else functions_called(module).get(name)
    return node if isinstance(node, scopes.FUNCTIONS) else None


@once
def functions_called(module):
    """Returns the functions of a file by name; a name that several have is left out."""
    found, several = {}, set()
    for node in module.names.functions:
        name = getattr(node, "name", None)
        if name in found:
            several.add(name)
        found[name] = node
    return {name: node for name, node in found.items() if name and name not in several}


@once
def estimators(module: Module):
    """Returns the calls that make an Estimator of a `model_fn`."""
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


def facts(module: Module):
    """Notes what a module tells about the whole codebase's Estimators."""
    named = {node.attr for node in module.names.attributes}
    named.update(alias.name for node in module.names.imports for alias in node.names)
    named.update(node.func.id for node in module.names.calls if isinstance(node.func, ast.Name))
    if REPLICATE in named:
        module.facts.add("replicated")
    if named & {*_ESTIMATORS, *_SPECS}:
        module.facts.add("estimator")


def unreplicated(module: Module):
    """Yields where `replicate_model_fn` goes."""
    for call in estimators(module):
        given = keyword(call, "model_fn", 0)
        if given is None:
            continue
        shown = expression(given)
        yield module.finding(
            given,
            "replicate-model-fn",
            f"{expression(call.func)}({shown})",
            f"Write `replicate.{REPLICATE}({shown})` here to train on all devices.",
            needs="no replicated",
        )


def installs(module: Module):
    """Yields the first name of `tf.estimator`, which newer TensorFlows do not have."""
    for use, name in module.uses:
        if tensorflow_names.is_of_estimator(name) and not module.is_guarded(use.node):
            yield module.finding(
                use.node,
                "compat-install",
                f"tf.{name.rest}",
                f"TensorFlow 2.16 and newer do not have it. Say `{INSTALL}` in the file that runs "
                "first, before others are imported, or take `replicate.estimator`.",
                needs="no install",
            )
            return
