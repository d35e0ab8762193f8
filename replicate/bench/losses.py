"""Checks that engines trained the same model on the same rows, so that times are comparable."""

from __future__ import annotations

from typing import Mapping, Sequence

STEPS = 5
# Largest relative deviation of the first STEPS losses, by type. A doubled gradient changes those of
# float32 by 2e-3 (cnn) to 1e-1 (mlp).
RTOL = {"float32": 1e-3, "float16": 2e-2, "bfloat16": 5e-2}


def check(case: str, losses: Mapping[str, Sequence[float]], dtype: str = "float32") -> None:
    """Checks that the first losses of all engines are equal.

    Args:
        case: The case's name, for messages.
        losses: Dict of each engine's losses, one per step, by its name.
        dtype: The type in which layers compute.

    Raises:
        RuntimeError: If they differ by more than `RTOL[dtype]`.
    """
    first = {engine: values[:STEPS] for engine, values in losses.items()}
    check_near(case, f"the first {STEPS} steps", first, RTOL[dtype])


def check_near(case: str, part: str, values: Mapping[str, Sequence[float]], rtol: float) -> None:
    """Checks that all engines have the same values.

    Args:
        case: The case's name, for messages.
        part: The part of a run that they belong to, for messages.
        values: Dict of lists of numbers by the engine's name.
        rtol: Largest deviation from the first engine's value, relative to that.

    Raises:
        RuntimeError: If a value deviates by more.
    """
    reference, expected = next(iter(values.items()))
    for engine, got in values.items():
        for one, other in zip(got, expected):
            if not abs(one - other) <= rtol * abs(other):
                raise RuntimeError(
                    f"Losses of {part} must agree to {rtol}, but on `{case}` `{reference}` has "
                    f"{other} and `{engine}` {one}. Find the wrong one before you compare times."
                )
