"""Layouts of an assertion in a loop that runs in towers; outside of loops, it runs once."""

from __future__ import annotations

from typing import Sequence

from replicate.layouts.layout import ALL, WHOLE, Layout, Strategy, meets_in_round


def strategy(layouts: Sequence[Layout]) -> Strategy | None:
    """Lets each tower check a condition of all rows for its own, and print these if it fails."""
    condition, *printed = layouts
    if condition not in (ALL, WHOLE):
        return Strategy((WHOLE, *printed), ()) if meets_in_round(condition, WHOLE) else None
    return Strategy((condition, *printed), ())
