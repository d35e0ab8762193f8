"""The table of rules, one file per family."""

from replicate.layouts.rules import (
    channels,
    contractions,
    convolutions,
    elementwise,
    indexing,
    joining,
    losses,
    moves,
    normalization,
    ordering,
    pooling,
    random,
    reductions,
    reshaping,
    scattering,
    slicing,
)

__all__ = [
    "channels",
    "contractions",
    "convolutions",
    "elementwise",
    "indexing",
    "joining",
    "losses",
    "moves",
    "normalization",
    "ordering",
    "pooling",
    "random",
    "reductions",
    "reshaping",
    "scattering",
    "slicing",
]
