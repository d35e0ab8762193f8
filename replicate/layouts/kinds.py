"""Types of operations that create rows, differ from one device, or pass values on."""

from __future__ import annotations

from typing import Any

# Random numbers: the output has rows if the given shape has, although no input has.
STARTS = frozenset(
    ["RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt"]
    + ["RandomGamma", "RandomPoissonV2"]
)

# They repeat a value to fill a given shape.
FILLS = frozenset(["Fill", "BroadcastTo", "Tile"])

# Towers may begin with these although no input has rows. Not with `BroadcastTo`: TensorFlow
# broadcasts the numbers of rows with it, and these are indices, which stay whole.
BEGIN = STARTS | frozenset(["Fill", "Tile"])

# They get rows by the shape that they take.
SOURCES = STARTS | FILLS | frozenset(["Range"])

# Each tower draws these for its rows.
RANDOM = STARTS | frozenset(["Multinomial"])

# They pass a value into loops and branches, within them, and out of them.
PASS_ON = frozenset(["Enter", "Exit", "Identity", "Merge", "NextIteration", "Switch"])

# Types of operations in a loop whose values can be made outside of it.
MADE_OUTSIDE = ("Const", "Range")

_MOMENTS = frozenset(f"FusedBatchNorm{version}" for version in ("", "V2", "V3"))
_OF_MOMENTS = frozenset(f"FusedBatchNormGrad{version}" for version in ("", "V2", "V3"))


def takes_moments(operation: Any) -> bool:
    """Whether an operation is fused batch norm in training, so each tower uses its own moments."""
    return operation.type in _MOMENTS and bool(operation.get_attr("is_training"))


def differs(operation: Any) -> bool:
    """Whether towers get other values of an operation than one device does."""
    if operation.type in _OF_MOMENTS:
        return bool(operation.get_attr("is_training"))
    return operation.type in RANDOM or takes_moments(operation)
