"""Lists the types of operations, and tells their properties."""

from __future__ import annotations

import functools
from typing import Any, Callable

from tensorflow.python.framework import c_api_util

SAME_MEMORY = frozenset(
    ["Identity", "Reshape", "Squeeze", "ExpandDims", "StridedSlice", "Slice", "Split", "SplitV"]
    + ["Unpack", "Bitcast", "StopGradient", "EnsureShape", "PlaceholderWithDefault"]
)
"""Operations whose outputs may be the memory of an input."""


def operation_types() -> list[str]:
    """Returns the types of operations that the running TensorFlow has, in order."""
    return sorted(c_api_util.ApiDefMap().op_names())


def _by_type(ask: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Caches a predicate on the definition of operations by type.

    A function of TensorFlow 1 that is called by its name has no definition: any property may hold,
    so the answer is True.
    """
    known: dict[str, bool] = {}

    @functools.wraps(ask)
    def answer(operation: Any) -> bool:
        name = operation.type  # Read once, since TensorFlow 1.15 asks C++ for it each time.
        if name not in known:
            definition = operation.op_def
            known[name] = definition is None or ask(definition)
        return known[name]

    return answer


@_by_type
def calls_functions(definition: Any) -> bool:
    """Whether an operation runs functions of its graph."""
    return any(attr.type in ("func", "list(func)") for attr in definition.attr)


@_by_type
def gives_reference(definition: Any) -> bool:
    """Whether an operation returns a reference, i.e. the memory of a variable."""
    return any(argument.is_ref for argument in definition.output_arg)


@_by_type
def is_stateful(definition: Any) -> bool:
    """Whether operations of this type have or change state, such as a variable's memory."""
    return definition.is_stateful or any(argument.is_ref for argument in definition.input_arg)


@_by_type
def is_random(definition: Any) -> bool:
    """Whether operations of this type draw random numbers."""
    return definition.is_stateful and any(attr.name == "seed2" for attr in definition.attr)


# The beginnings of the types of TensorFlow's optimizers.
_APPLIES = ("Apply", "ResourceApply", "SparseApply", "ResourceSparseApply")


def applied_gradient(operation: Any) -> Any:
    """Returns the gradient that a kernel of an optimizer applies; None for other operations."""
    if not operation.type.startswith(_APPLIES):
        return None
    names = [argument.name for argument in operation.op_def.input_arg]
    # That of gradient descent calls it `delta`.
    found = [names.index(name) for name in ("grad", "delta") if name in names]
    return operation.inputs[found[0]] if found else None
