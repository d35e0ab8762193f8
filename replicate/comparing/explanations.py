"""Finds operations that can explain why towers differ from one device, by line of the user's code.

There are three kinds: random numbers that each tower draws for its rows; fused batch norm, which
computes the moments of each tower's rows; and a global step that a model counts up itself, which
the same step may read before or after.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Sequence

from replicate import partition
from replicate.comparing import deviations
from replicate.graphs import ancestors, line_of, step_reads
from replicate.layouts import RANDOM, takes_moments

# Operations that pass their inputs on without computing.
_PASS_ON = re.compile(
    "Identity|Placeholder|Split|Slice|StridedSlice|Enter|Switch|Merge|NextIteration|Exit"
    "|TensorArray"  # Its float32 output only orders operations.
)


class Explanation(NamedTuple):
    """An operation that can make towers differ from one device."""

    kind: str
    """`'random'`, `'batch norm'` or `'global step'`."""
    operation: str
    """The name of the operation."""
    line: str
    """`file:line` of the user's code that made it, `'unknown line'` if only TensorFlow's did."""
    text: str
    """A phrase that describes its effect."""


_TEXTS = {
    "random": 'each tower draws numbers for its rows; `random="batch"` draws those of one device',
    "batch norm": 'takes the moments of each tower\'s rows; `batch_norm="batch"` those of all',
    "global step": "may come before or after the step is read; `read_step_first=True` reads first",
}


def look(spec: Any) -> tuple[tuple[Explanation, ...], set[str]]:
    """Returns the explanations, and the names of the types that towers compute in.

    Args:
        spec: The `EstimatorSpec` of training, in towers or not.
    """
    plan = partition.plan_of(spec.loss.graph)
    running = {operation.name for operation in ancestors([spec.loss, spec.train_op])}
    found: dict[tuple[str, str], Explanation] = {}
    types: set[str] = set()
    for operation in () if plan is None else plan.copied:
        if f"tower_0/{operation.name}" not in running:
            continue
        if _computes(operation):
            types.update(tensor.dtype.base_dtype.name for tensor in operation.outputs)
        is_random = operation.type in RANDOM
        if not is_random and not takes_moments(operation):
            continue
        kind = "random" if is_random else "batch norm"
        line = line_of(operation, within=__file__)
        found.setdefault((kind, line), Explanation(kind, operation.name, line, _TEXTS[kind]))
    return tuple(found.values()), types.intersection(deviations.TOLERANCES)


def look_at_step(fetches: Sequence[Any]) -> tuple[Explanation, ...]:
    """Returns an explanation for each write of the global step whose order is open.

    Args:
        fetches: What a training step of one device runs.
    """
    kind = "global step"
    return tuple(
        Explanation(kind, write.name, line_of(write, within=__file__), _TEXTS[kind])
        for write, _, _ in step_reads.races(fetches)
    )


def _computes(operation: Any) -> bool:
    """Whether an operation computes numbers, or casts floating-point numbers."""
    if operation.type == "Cast":
        return bool(operation.inputs[0].dtype.is_floating)
    return not _PASS_ON.match(operation.type)
