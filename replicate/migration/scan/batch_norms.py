"""Finds batch norms that use the fused kernel, by an argument or by slim's scopes.

The argument's value may be a name, or an argument of functions of this file or of others.
"""

from __future__ import annotations

import ast
from typing import Any, Iterable, Iterator, Tuple

from replicate.migration.scan import scopes, tensorflow_names, values
from replicate.migration.scan.findings import Finding
from replicate.migration.scan.module import Module, constant, expression

_BATCH_NORMS = ("batch_norm", "batch_normalization", "BatchNormalization")
_SCOPE = "arg_scope"
_NEEDS = "estimator, no whole batch norm"
_ADVICE = (
    "in training, it takes the moments of each tower's rows. `replicate_model_fn(model_fn, "
    "batch_norm='batch')` takes those of the whole batch, as one device does."
)

_Place = Tuple[Any, str, str]  # A node, the text to show, and the fact that is needed or "".


def fused(module: Module) -> Iterator[Finding]:
    """Yields batch norms that use the fused kernel, at the place of the argument's value."""
    seen: set[Any] = set()
    if "fused" in module.source.text:
        for call in module.names.calls:
            for node, name, need in _asked(module, call):
                if (node, need) not in seen:
                    seen.add((node, need))
                    yield _finding(module, node, name, need)
    for call in module.names.calls:
        for node, name, needs in _given_to_others(module, call):
            yield _finding(module, node, name, *needs)


def _finding(module: Module, node: Any, name: str, *needs: str) -> Finding:
    joined = ", ".join([_NEEDS, *filter(None, needs)])
    return module.finding(node, "fused-batch-norm", name, _ADVICE, needs=joined)


def _asked(module: Module, call: ast.Call) -> Iterator[_Place]:
    """Yields places at which a call uses the fused kernel: node, shown text, needed fact or ""."""
    func = _called(module, call)
    if not _is_known(module, func):
        return
    takes_fused = _is_batch_norm(module, func) or _is_scope(module, call)
    for argument in call.keywords:
        if takes_fused and argument.arg == "fused":
            shown = f"{expression(func)}(fused={expression(argument.value)})"
            yield from _told(module, call, shown, values.of(module, argument.value))
        if takes_fused and argument.arg is None:
            function = _taker(module, argument.value)
            if function is not None:
                shown = f"{expression(func)}(**{expression(argument.value)})"
                yield from _told(module, call, shown, values.of_argument(module, function, "fused"))
        is_dict = takes_fused and argument.arg is None
        if is_dict or (argument.arg == "normalizer_params" and _normalizes(module, call)):
            yield from _in_dict(module, argument.value)


def _called(module: Module, call: ast.Call) -> ast.expr:
    """Returns the called function, also if it is called through `functools.partial`."""
    is_partial = scopes.last(module.names.path(call.func)) == "partial"
    return call.args[0] if is_partial and call.args else call.func


def _told(module: Module, node: Any, shown: str, leaves: Iterable[values.Leaf]) -> Iterator[_Place]:
    """Yields node, shown text and needed fact for each leaf that is True, or may be so elsewhere.

    Records facts on arguments whose values come from other files.
    """
    for leaf in leaves:
        at = node if leaf.call is None else leaf.call
        words = shown if leaf.call is None else expression(leaf.call)
        if values.is_true(leaf):
            yield at, words, ""
        elif leaf.argument:
            module.facts |= _facts(module, leaf)
        elif isinstance(leaf.node, (ast.Name, ast.Attribute)):
            key = module.key(leaf.node)
            if key:
                yield at, words, f"true {key}"


def _facts(module: Module, leaf: values.Leaf) -> set[str]:
    """Returns facts on an argument of a function that other files may call."""
    key = values.outside(module, leaf)
    places = values.places(module, leaf.node, leaf.argument)
    return {f"fused {key}:{place}" for place in places} if key else set()


def _given_to_others(module: Module, call: ast.Call) -> Iterator[tuple[Any, str, list[str]]]:
    """Yields places that pass True to another file's function: node, shown text, needed facts."""
    given = [(str(place), value) for place, value in enumerate(call.args)]
    given += [(one.arg, one.value) for one in call.keywords if one.arg]
    told = [(place, value) for place, value in given if _may_be_true(value)]
    key = module.key(call.func) if told else ""
    if not key or any(isinstance(one, ast.Starred) for one in call.args):
        return
    for place, value in told:
        asks = f"fused {key}:{place}"
        for leaf in values.of(module, value):
            at = call if leaf.call is None else leaf.call
            words = expression(at)
            if values.is_true(leaf):
                yield at, words, [asks]
            elif leaf.argument:
                module.links |= {(asks, fact) for fact in _facts(module, leaf)}
            elif isinstance(leaf.node, (ast.Name, ast.Attribute)):
                known = module.key(leaf.node)
                if known:
                    yield at, words, [asks, f"true {known}"]


def _may_be_true(node: ast.AST) -> bool:
    return constant(node) is True or isinstance(node, (ast.Name, ast.Attribute, ast.IfExp))


def _is_known(module: Module, node: ast.expr) -> bool:
    """Whether an expression belongs to TensorFlow or slim."""
    path = module.names.path(node)
    return bool(tensorflow_names.parse(path).api) or path.split(".")[0] == "tf_slim"


def _is_batch_norm(module: Module, node: ast.expr) -> bool:
    name = getattr(node, "attr", getattr(node, "id", ""))
    path = module.names.path(node).rpartition(".")[2]
    return (name in _BATCH_NORMS or path in _BATCH_NORMS) and _is_known(module, node)


def _is_scope(module: Module, call: ast.Call) -> bool:
    """Whether a call is `arg_scope` of batch norms."""
    if module.names.path(call.func).rpartition(".")[2] != _SCOPE or not call.args:
        return False
    of = call.args[0]
    return isinstance(of, (ast.List, ast.Tuple)) and any(
        _is_batch_norm(module, one) for one in of.elts
    )


def _normalizes(module: Module, call: ast.Call) -> bool:
    """Whether the `normalizer_fn` of a call may be a batch norm; another scope may set it."""
    given = [one.value for one in call.keywords if one.arg == "normalizer_fn"]
    return all(_is_batch_norm(module, one) for one in given)


def _taker(module: Module, node: Any) -> Any:
    """Returns the function whose `**` argument a name is; None if there is none."""
    if isinstance(node, ast.Name):
        for binding in module.names.bindings(node.id, module.names.scopes[node]):
            taker = getattr(getattr(binding.node, "args", None), "kwarg", None)
            if isinstance(binding.node, scopes.FUNCTIONS) and taker and taker.arg == node.id:
                return binding.node
    return None


def _in_dict(module: Module, node: Any, depth: int = 0) -> Iterator[_Place]:
    """Yields places with `fused` in a dict, or in the dict of a name: node, shown text, fact."""
    if isinstance(node, ast.Name) and depth == 0:
        for binding in module.names.bindings(node.id, module.names.scopes[node]):
            if binding.kind == "value":
                yield from _in_dict(module, binding.value, 1)
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values):
            if key is not None and constant(key) == "fused":
                shown = f"'fused': {expression(value)}"
                yield from _told(module, key, shown, values.of(module, value))
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "dict":
        for one in node.keywords:
            if one.arg == "fused":
                shown = f"dict(fused={expression(one.value)})"
                yield from _told(module, node, shown, values.of(module, one.value))
