"""Adds up, by name scope, how much of a model's work runs in towers, and how much on one device."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from replicate.graphs import INLINED, line_of

_GRADIENTS = re.compile(r"gradients(_\d+)?$")
# In the scope of a call that was inlined: its functions, and the values that it is given.
_FUNCTION = re.compile(r"^(cond|body|branch_\d+)/")
_GIVEN = re.compile(r"given_\d+(/|$)")


class Scope(NamedTuple):
    """A name scope, including the gradients of its operations.

    Attributes:
        name: Last part of the path; empty for the whole model.
        path: Full name of the scope.
        line: `file:line` of the code that made its first operation.
        work: Cost of its operations by kind, `'towers'`, `'one_device'` or `'updates'`; see
            `Coverage`.
        operations: Its operations, including those of its children.
        children: The scopes in it by name, in the order of their first operations.
    """

    name: str
    path: str
    line: str
    work: dict[str, float]
    operations: list[Any]
    children: dict[str, Any]

    @property
    def computed(self) -> float:
        """Cost of operations with rows, whether in towers or on one device."""
        return self.work["towers"] + self.work["one_device"]

    @property
    def share(self) -> float | None:
        """Share of `computed` that runs in towers, from 0 to 1; None if nothing is computed."""
        return self.work["towers"] / self.computed if self.computed else None


def path_of(operation: Any) -> list[str]:
    """Returns the scopes of an operation; a gradient has the scopes of its forward operation.

    A loop or condition of TensorFlow 2 is a scope, as is each one in its functions.
    """
    return _path(operation.name)


def _path(name: str) -> list[str]:
    call, is_inlined, inside = name.partition(f"/{INLINED}/")
    if is_inlined:
        inside = "" if _GIVEN.match(inside) else _FUNCTION.sub("", inside)
        return [*_forward(call.split("/")), *_path(inside)]
    parts = name.split("/")
    ends = [place for place, part in enumerate(parts) if part.endswith("_grad")]
    begins = [place for place, part in enumerate(parts) if _GRADIENTS.match(part)]
    # An optimizer may be in a scope of its own, as `OptimizeLoss/gradients/…`.
    if ends and begins and begins[0] < ends[-1]:
        return parts[begins[0] + 1 : ends[-1]]
    return parts[:-1]


def _forward(call: list[str]) -> list[str]:
    """Returns the name of a call; for a gradient, `gradients/a_grad/a_grad`, that of `a`."""
    begins = [place for place, part in enumerate(call) if _GRADIENTS.match(part)]
    for end in range(begins[0] + 1, len(call)) if begins else ():
        if call[end].endswith("_grad"):
            return [*call[begins[0] + 1 : end], call[end][: -len("_grad")]]
    return call


def tree(coverage: Any) -> Scope:
    """Returns the scope of a whole model.

    Args:
        coverage: The `Coverage` of its training step.
    """
    root = _scope("", "", "")
    for counted in coverage.operations:
        scope, path = root, ""
        _add(root, counted)
        for part in path_of(counted.operation):
            path = f"{path}/{part}" if path else part
            if part not in scope.children:
                scope.children[part] = _scope(part, path, line_of(counted.operation))
            scope = scope.children[part]
            _add(scope, counted)
    return root


def _scope(name: str, path: str, line: str) -> Scope:
    return Scope(name, path, line, dict.fromkeys(("towers", "one_device", "updates"), 0.0), [], {})


def _add(scope: Scope, counted: Any) -> None:
    scope.work[counted.kind] += counted.cost
    scope.operations.append(counted.operation)
