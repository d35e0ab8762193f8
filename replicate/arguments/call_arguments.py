"""What a replicated `model_fn` is called with, and what of it the `model_fn` takes.

As `tf.contrib.estimator.replicate_model_fn` had it, what is returned takes `features, labels, mode,
params=None, config=None`, whatever the `model_fn` takes of these, in whatever order.
"""

import functools
import inspect

_NAMES = ("features", "labels", "mode", "params", "config")
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class CallArguments:
    """The arguments of a replicated `model_fn`.

    Args:
        model_fn: The `model_fn`: a function, method, partial application or callable object.

    Attributes:
        signature: That of the function in its place. What `model_fn` takes besides the arguments
            that an Estimator has is there as keywords.

    Raises:
        ValueError: If it takes no `features`.
    """

    def __init__(self, model_fn):
        self._model_fn = model_fn
        parameters = _parameters(model_fn)
        kinds = {parameter.kind for parameter in parameters.values()}
        self._taken = {
            name: parameter
            for name, parameter in parameters.items()
            if parameter.kind in _NAMED and name not in _bound(model_fn)
        }
        if "features" not in self._taken:
            raise ValueError(
                "`model_fn` takes `features`, and of `labels, mode, params, config` what it needs, "
                f"by these names, but {model_fn!r} takes {list(self._taken)}. Name its arguments "
                "so, and let a decorator around it use `functools.wraps`."
            )
        own = [inspect.Parameter(name, _NAMED[0]) for name in _NAMES[:3]]
        own += [inspect.Parameter(name, _NAMED[0], default=None) for name in _NAMES[3:]]
        own += [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for name, parameter in parameters.items()
            if parameter.kind in _NAMED and name not in _NAMES
        ]
        self._more = None
        if inspect.Parameter.VAR_KEYWORD in kinds:
            (self._more,) = [p.name for p in parameters.values() if p.kind == p.VAR_KEYWORD]
            own.append(parameters[self._more])
        self.signature = inspect.Signature(own)

    def of_call(self, args, kwargs):
        """Returns what a call gives, and what `model_fn` takes of it: two dictionaries by name.

        Raises:
            TypeError: If it does not go with the signature.
            ValueError: If there are labels or params that `model_fn` does not take.
        """
        given = dict(self.signature.bind(*args, **kwargs).arguments)
        more = given.pop(self._more, {}) if self._more is not None else {}
        taken = {**more, **{name: given[name] for name in self._taken if name in given}}
        for name in _NAMES[3:]:
            if name in self._taken and self._taken[name].default is inspect.Parameter.empty:
                taken.setdefault(name, None)
        if "labels" not in self._taken and given["labels"] is not None:
            raise ValueError(
                f"model_fn does not take labels, but input_fn returns labels: {given['labels']!r} "
                f"for {self._model_fn!r}. Let `model_fn` take `labels`, or `input_fn` return none."
            )
        # An Estimator that got no params passes an empty dictionary.
        if "params" not in self._taken and not _is_empty(given.get("params")):
            raise ValueError(
                f"model_fn ({self._model_fn!r}) does not include params argument, but params "
                f"({given['params']!r}) is passed to Estimator. Let `model_fn` take `params`, or "
                "pass the Estimator none."
            )
        return given, taken


def _parameters(fn):
    """Returns the parameters of a function, and of what it wraps if it hands all on, by name."""
    if isinstance(fn, functools.partial):
        # Of what it is given, positions are taken, and keywords have another default.
        found = list(_parameters(fn.func).values())
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for _ in fn.args:
            if found and found[0].kind in positional:
                found.pop(0)
        found = [
            p.replace(kind=_NAMED[1], default=fn.keywords[p.name]) if p.name in fn.keywords else p
            for p in found
        ]
        return {parameter.name: parameter for parameter in found}
    if not (inspect.isroutine(fn) or inspect.isclass(fn)):
        fn = fn.__call__
    found = dict(inspect.signature(fn, follow_wrapped=False).parameters)
    hands_on = any(parameter.kind == parameter.VAR_KEYWORD for parameter in found.values())
    if not (hands_on and hasattr(fn, "__wrapped__")):
        return found
    wrapped = _parameters(fn.__wrapped__)
    if inspect.ismethod(fn):
        wrapped.pop(next(iter(wrapped), None), None)  # What it is bound to.
    own = {name: p for name, p in found.items() if p.kind in _NAMED}
    return {**own, **{name: p for name, p in wrapped.items() if name not in own}}


def _bound(fn):
    """Returns the names of the keywords that partial applications have given already."""
    names = set()
    while isinstance(fn, functools.partial) or hasattr(fn, "__wrapped__"):
        if isinstance(fn, functools.partial):
            names |= {*fn.keywords}
        fn = fn.func if isinstance(fn, functools.partial) else fn.__wrapped__
    return names


def _is_empty(params):
    return params is None or (hasattr(params, "__len__") and len(params) == 0)
