"""Types of operations that get rows, or other values than on one device, in a way of their own."""

from __future__ import annotations

# What may have rows though none enters: random numbers, of a shape that has as many entries.
STARTS = frozenset(
    ["RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt"]
    + ["RandomGamma", "RandomPoissonV2"]
)

# What repeats a value in a shape that it takes.
FILLS = frozenset(["Fill", "BroadcastTo", "Tile"])

# What gets rows by the shape that it takes.
SOURCES = STARTS | FILLS | frozenset(["Range"])

# Each tower draws these for its rows.
RANDOM = STARTS | frozenset(["Multinomial"])

# Towers get other values of these than one device: random numbers, and the moments of their rows.
DIFFERS = RANDOM | frozenset(
    f"FusedBatchNorm{part}{version}" for part in ("", "Grad") for version in ("", "V2", "V3")
)
