"""The registry of cases: for each type of operation, generators of random operations.

A generator draws the keyword arguments of `tf.raw_ops.<Type>`: arrays are tensors, `Fixed` arrays
are constants of the graph, a list of arrays is an input that is a list, `Made` is what the graph
itself makes, such as a variable's handle. The rest are attributes.
"""

from __future__ import annotations

import dataclasses
import importlib
import pathlib
from typing import Any, Callable, Dict

import numpy as np

from replicate.layouts import rules

Arguments = Dict[str, Any]
Generator = Callable[[np.random.RandomState], Arguments]

_generators: dict[str, list[Generator]] = {}


@dataclasses.dataclass(frozen=True)
class Fixed:
    """An input that is a constant of the graph, such as an axis or a shape.

    Integers that are no array become int32.
    """

    array: Any


@dataclasses.dataclass(frozen=True)
class Made:
    """An input that `build` makes in the graph, and that all towers share: a variable, a table."""

    build: Callable[[], Any]


def cases(*types: str) -> Callable[[Generator], Generator]:
    """Enters a function as a generator of operations of types; several of a type take turns."""

    def enter(function: Generator) -> Generator:
        for name in types:
            _generators.setdefault(name, []).append(function)
        return function

    return enter


def sizes(draw: np.random.RandomState, count: int) -> list[int]:
    """Draws sizes of axes: 1 to 6, and most of them such that several rows fit in."""
    return [int(size) for size in draw.choice([1, 2, 3, 4, 4, 5, 6, 6], count)]


def load(broken: list[str] | None = None) -> dict[str, list[Generator]]:
    """Reads all `cases_*.py` of this folder, and all rules; returns the generators by type.

    Args:
        broken: Takes errors of files that cannot be read, as they are while they are written;
            by default these are raised.
    """
    for folder, prefix, pattern in (
        (pathlib.Path(rules.__file__).parent, rules.__name__, "[!_]*.py"),
        (pathlib.Path(__file__).parent, "layouts", "cases_*.py"),
    ):
        for path in sorted(folder.glob(pattern)):
            try:
                importlib.import_module(f"{prefix}.{path.stem}")
            except Exception as error:
                if broken is None:
                    raise
                broken.append(f"{path.name}: {error!r}")
    return dict(_generators)
