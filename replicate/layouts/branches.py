"""Layouts of what the conditions of TensorFlow 1 pass on.

Both branches of a condition are in the graph, and what a branch computes is *dead* where the other
one is taken. Towers take the branch that one device takes: a predicate is whole.
"""

from __future__ import annotations

from typing import Any, Sequence

from replicate.layouts.layout import WHOLE, Layout, Strategy

TYPES = frozenset(["Merge", "Switch"])


def strategy(operation: Any, layouts: Sequence[Layout]) -> Strategy:
    """Returns how towers run a `Switch`, or a `Merge` of branches: these are made alike."""
    if operation.type == "Switch":
        return Strategy((layouts[0], WHOLE), (layouts[0],) * 2)
    wanted = next((layout for layout in layouts if layout != WHOLE), WHOLE)
    return Strategy((wanted,) * len(layouts), (wanted, WHOLE))


def are_merged(operation: Any) -> bool:
    """Whether a `Merge` takes what an operation gives; a formula would never be dead."""
    return any(taker.type == "Merge" for t in operation.outputs for taker in t.consumers())
