"""Batch norms that ask for the fused kernel, by themselves or by what slim's scopes give them.

What they ask by may be a name, or an argument that own functions are given, in this file or others.
"""

import ast

from replicate.scan import scopes, tensorflow_names, values
from replicate.scan.module import Module, constant, expression

_BATCH_NORMS = ("batch_norm", "batch_normalization", "BatchNormalization")
_SCOPE = "arg_scope"
_NEEDS = "estimator, no whole batch norm"
_ADVICE = (
    "in training, it takes the moments of each tower's rows. `replicate_model_fn(model_fn, "
    "batch_norm='batch')` takes those of the whole batch, as one device does."
)


def fused(module: Module):
    """Yields batch norms that ask for the fused kernel, each where that is said."""
    seen = set()
    if "fused" in module.source.text:
        for call in module.names.calls:
            for node, name, need in _asked(module, call):
                if (node, need) not in seen:
                    seen.add((node, need))
                    yield _finding(module, node, name, need)
    for call in module.names.calls:
        for node, name, needs in _given_to_others(module, call):
            yield _finding(module, node, name, *needs)


def _finding(module, node, name, *needs):
    needs = ", ".join([_NEEDS, *filter(None, needs)])
    return module.finding(node, "fused-batch-norm", name, _ADVICE, needs=needs)


def _asked(module, call):
    """Yields where a call asks for it, in which words, and a fact that this needs, or ""."""
    func = _called(module, call)
    if not _is_known(module, func):
        return
    is_own = _is_batch_norm(module, func) or _is_scope(module, call)
    for argument in call.keywords:
        if is_own and argument.arg == "fused":
            shown = f"{expression(func)}(fused={expression(argument.value)})"
            yield from _told(module, call, shown, values.of(module, argument.value))
        if is_own and argument.arg is None:
            function = _taker(module, argument.value)
            if function is not None:
                shown = f"{expression(func)}(**{argument.value.id})"
                yield from _told(module, call, shown, values.of_argument(module, function, "fused"))
        is_dict = is_own and argument.arg is None
        if is_dict or (argument.arg == "normalizer_params" and _normalizes(module, call)):
            yield from _in_dict(module, argument.value)


def _called(module, call):
    """Returns what a call calls, or will, by `functools.partial`."""
    is_partial = scopes.last(module.names.path(call.func)) == "partial"
    return call.args[0] if is_partial and call.args else call.func


def _told(module, node, shown, leaves):
    """Yields a place, words and a needed fact for each leaf that is True, or may be elsewhere.

    Notes of arguments that come from other files, that they are asked by.
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


def _facts(module, leaf):
    """Returns facts of an argument of a function that other files may call."""
    own = values.outside(module, leaf)
    places = values.places(module, leaf.node, leaf.argument)
    return {f"fused {own}:{place}" for place in places} if own else set()


def _given_to_others(module, call):
    """Yields where a function of another file is given True, in which words, and needed facts."""
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


def _may_be_true(node):
    return constant(node) is True or isinstance(node, (ast.Name, ast.Attribute, ast.IfExp))


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


def _taker(module, node):
    """Returns the function whose `**` a name is, None if it is of none."""
    if isinstance(node, ast.Name):
        for binding in module.names.bindings(node.id, module.names.scopes[node]):
            taker = getattr(getattr(binding.node, "args", None), "kwarg", None)
            if isinstance(binding.node, scopes.FUNCTIONS) and taker and taker.arg == node.id:
                return binding.node
    return None


def _in_dict(module, node, depth=0):
    """Yields where a dict, or what a name of one stands for, has `fused`, with words and need."""
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
