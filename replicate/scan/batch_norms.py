"""Batch norms that ask for the fused kernel, by themselves or by what slim's scopes give them."""

import ast

from replicate.scan import tensorflow_names
from replicate.scan.module import Module, constant, expression

_BATCH_NORMS = ("batch_norm", "batch_normalization", "BatchNormalization")
_SCOPE = "arg_scope"
_NEEDS = "estimator, no whole batch norm"
_ADVICE = (
    "in training, it takes the moments of each tower's rows. `replicate_model_fn(model_fn, "
    "batch_norm='batch')` takes those of the whole batch, as one device does."
)


def fused(module: Module):
    """Yields batch norms that ask for the fused kernel, each where `fused` stands."""
    if "fused" not in module.source.text:
        return
    seen = set()
    for call in module.names.calls:
        for node, name in _asked(module, call):
            if node not in seen:
                seen.add(node)
                yield module.finding(node, "fused-batch-norm", name, _ADVICE, needs=_NEEDS)


def _asked(module, call):
    """Yields where a call asks for it, and in which words."""
    if not _is_known(module, call.func):
        return
    is_own = _is_batch_norm(module, call.func) or _is_scope(module, call)
    for argument in call.keywords:
        if is_own and argument.arg == "fused" and constant(argument.value) is True:
            yield call, f"{expression(call.func)}(fused=True)"
        is_dict = is_own and argument.arg is None
        if is_dict or (argument.arg == "normalizer_params" and _normalizes(module, call)):
            yield from _in_dict(module, argument.value)


def _is_known(module, node):
    """Whether an expression is TensorFlow's or slim's."""
    path = module.names.path(node)
    return bool(tensorflow_names.parse(path).api) or path.split(".")[0] == "tf_slim"


def _is_batch_norm(module, node):
    name = getattr(node, "attr", getattr(node, "id", ""))
    path = module.names.path(node).rpartition(".")[2]
    return (name in _BATCH_NORMS or path in _BATCH_NORMS) and _is_known(module, node)


def _is_scope(module, call):
    """Whether a call is `arg_scope` of batch norms."""
    if module.names.path(call.func).rpartition(".")[2] != _SCOPE or not call.args:
        return False
    of = call.args[0]
    return isinstance(of, (ast.List, ast.Tuple)) and any(
        _is_batch_norm(module, one) for one in of.elts
    )


def _normalizes(module, call):
    """Whether what a call normalises by may be a batch norm, as it is if another scope says so."""
    given = [one.value for one in call.keywords if one.arg == "normalizer_fn"]
    return all(_is_batch_norm(module, one) for one in given)


def _in_dict(module, node, depth=0):
    """Yields where a dict, or what a name of one stands for, has `fused`."""
    if isinstance(node, ast.Name) and depth == 0:
        for binding in module.names.bindings(node.id, module.names.scopes[node]):
            if binding.kind == "value":
                yield from _in_dict(module, binding.value, 1)
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values):
            if key is not None and constant(key) == "fused" and constant(value) is True:
                yield key, "'fused': True"
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "dict":
        given = [one.value for one in node.keywords if one.arg == "fused"]
        if any(constant(value) is True for value in given):
            yield node, "dict(fused=True)"
