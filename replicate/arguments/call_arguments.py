"""The arguments in a call of a replicated `model_fn`, and those that its `model_fn` takes.

As with `tf.contrib.estimator.replicate_model_fn`, the returned function takes `features, labels,
mode, params=None, config=None`, though the `model_fn` may take only some of these, in any order.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Mapping, Sequence

_NAMES = ("features", "labels", "mode", "params", "config")
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class CallArguments:
    """The arguments of a replicated `model_fn`.

    Args:
        model_fn: The `model_fn`: a function, method, partial application or callable object.

    Attributes:
        signature: The signature of the function that `replicate_model_fn` returns. Arguments of
            `model_fn` that an Estimator does not pass are keyword-only in it.

    Raises:
        ValueError: If `model_fn` takes no `features`.
    """

    def __init__(self, model_fn: Any) -> None:
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
                "`model_fn` must take `features`, and may take `labels, mode, params, config`, by "
                f"these names, but {model_fn!r} takes {list(self._taken)}. Name its arguments so, "
                "and let a decorator around it use `functools.wraps`."
            )
        found = [inspect.Parameter(name, _NAMED[0]) for name in _NAMES[:3]]
        found += [inspect.Parameter(name, _NAMED[0], default=None) for name in _NAMES[3:]]
        found += [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for name, parameter in parameters.items()
            if parameter.kind in _NAMED and name not in _NAMES
        ]
        self._more = None
        if inspect.Parameter.VAR_KEYWORD in kinds:
            (self._more,) = [p.name for p in parameters.values() if p.kind == p.VAR_KEYWORD]
            found.append(parameters[self._more])
        self.signature = inspect.Signature(found)

    def of_call(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the arguments of a call, and those of them that `model_fn` takes.

        Args:
            args: The positional arguments of the call.
            kwargs: Its keyword arguments.

        Returns:
            Two dictionaries of arguments by name.

        Raises:
            TypeError: If the call does not match the signature.
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
        # An Estimator without params passes an empty dictionary.
        if "params" not in self._taken and not _is_empty(given.get("params")):
            raise ValueError(
                f"model_fn ({self._model_fn!r}) does not include params argument, but params "
                f"({given['params']!r}) is passed to Estimator. Let `model_fn` take `params`, or "
                "pass the Estimator none."
            )
        return given, taken


def _parameters(fn: Any) -> dict[str, inspect.Parameter]:
    """Returns the parameters of a function by name, with those of the function that it wraps.

    The latter are included if the function passes any keywords on.
    """
    if isinstance(fn, functools.partial):
        # Positional arguments of the partial are bound, and its keywords are new defaults.
        given = list(_parameters(fn.func).values())
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for _ in fn.args:
            if given and given[0].kind in positional:
                given.pop(0)
        given = [
            p.replace(kind=_NAMED[1], default=fn.keywords[p.name]) if p.name in fn.keywords else p
            for p in given
        ]
        return {parameter.name: parameter for parameter in given}
    if not (inspect.isroutine(fn) or inspect.isclass(fn)):
        fn = fn.__call__
    found = dict(inspect.signature(fn, follow_wrapped=False).parameters)
    hands_on = any(parameter.kind == parameter.VAR_KEYWORD for parameter in found.values())
    if not (hands_on and hasattr(fn, "__wrapped__")):
        return found
    wrapped = _parameters(fn.__wrapped__)
    if wrapped and inspect.ismethod(fn):
        wrapped.pop(next(iter(wrapped)))  # The object that the method is bound to.
    named = {name: p for name, p in found.items() if p.kind in _NAMED}
    return {**named, **{name: p for name, p in wrapped.items() if name not in named}}


def accepted(fn: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns those of the `given` arguments that an Estimator passes to a function.

    They are those that its signature names, except those that partial applications have bound.
    """
    names = set(inspect.signature(fn).parameters) - _bound(fn)
    return {name: value for name, value in given.items() if name in names}


def _bound(fn: Any) -> set[str]:
    """Returns the names of the keywords that partial applications have bound."""
    names = set()
    while isinstance(fn, functools.partial) or hasattr(fn, "__wrapped__"):
        if isinstance(fn, functools.partial):
            names |= {*fn.keywords}
        fn = fn.func if isinstance(fn, functools.partial) else fn.__wrapped__
    return names


def _is_empty(params: object) -> bool:
    return params is None or (hasattr(params, "__len__") and len(params) == 0)
