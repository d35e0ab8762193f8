"""The `model_fn`s of a file, the functions that they call there, and its Estimators."""

import ast
from typing import Any, NamedTuple, Tuple

from replicate.scan import scopes, tensorflow_names
from replicate.scan.contrib import INSTALL
from replicate.scan.module import Module, expression, keyword

_SPECS = ("EstimatorSpec", "TPUEstimatorSpec")
_OF_HEADS = ("create_estimator_spec", "create_tpu_estimator_spec", "_create_tpu_estimator_spec")
_ESTIMATORS = ("Estimator", "EstimatorV2", "TPUEstimator")
REPLICATE = "replicate_model_fn"


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


def find(module: Module):
    """Returns the `ModelFn`s of a module."""
    passed = set()
    for call in estimators(module):
        function = _function(module, keyword(call, "model_fn", 0))
        if function is not None:
            passed.add(function)
    found = []
    for node in module.names.functions:
        names = arguments(node)
        is_like = {"features", "mode"} <= set(names)
        specs = _specs(node) if is_like or node in passed else set()
        if node in passed or specs:
            own = [name for name in names if name not in ("self", "cls")]
            known = tuple(name for name in own if name in ("features", "labels"))
            for_tpus = "TPUEstimatorSpec" in specs or "tpu" in " ".join(specs)
            name = getattr(node, "name", "lambda")
            found.append(ModelFn(node, name, known or tuple(own[:2]), for_tpus))
    return found


def _specs(function):
    """Returns which functions are called in a function that make specs."""
    called = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            called.add(getattr(node.func, "attr", getattr(node.func, "id", "")))
    return called & {*_SPECS, *_OF_HEADS}


def _function(module, node):
    """Returns the function of a file that an expression stands for, None if there is none."""
    for _ in range(5):
        if isinstance(node, ast.Call) and node.args:  # `partial(model_fn, x)`, `wrapped(model_fn)`
            node = node.args[0]
        elif isinstance(node, ast.Name):
            values = module.names.bindings(node.id, module.names.scopes[node])
            if len(values) == 1 and values[0].kind == "value":
                node = values[0].value
                continue
            return functions_called(module).get(node.id)
        elif isinstance(node, ast.Attribute):
            return functions_called(module).get(node.attr)
        else:
            break
    return node if isinstance(node, scopes.FUNCTIONS) else None


def functions_called(module):
    """Returns the functions of a file by name; a name that several have is left out."""
    found, several = {}, set()
    for node in module.names.functions:
        name = getattr(node, "name", None)
        if name in found:
            several.add(name)
        found[name] = node
    return {name: node for name, node in found.items() if name and name not in several}


def estimators(module: Module):
    """Yields the calls that make an Estimator of a `model_fn`."""
    for call in module.names.calls:
        path = module.names.path(call.func)
        called = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if called not in _ESTIMATORS:
            continue
        name = tensorflow_names.parse(path) if path else None
        is_known = name is not None and (name.api or path.startswith(("replicate", "tensorflow_")))
        if is_known or any(one.arg == "model_fn" for one in call.keywords):
            yield call


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
