"""Remembers what inference learns late, and from which step on it has to be repeated."""

from __future__ import annotations

from typing import Any, Iterable, NamedTuple, Sequence

from replicate.compat import graph as graph_lib
from replicate.layouts.arrays import Arrays, array_of
from replicate.layouts.layout import Layout


class Step(NamedTuple):
    """An operation, or all those of a loop."""

    is_loop: bool
    operations: list[Any]


class Learnt:
    """Remembers what a pass has learnt.

    Args:
        once: Operations that run once in any case.
        steps: The `Step`s.

    Attributes:
        kept: Operations that run once, such as those whose per-tower results are needed whole.
        varying: Tensors whose shape a loop changes; see `Facts`.
        arrays: The `Arrays`.
        begun: By first operation of a loop in towers: `Loop.begun`, as it was last.
        refused: By name of a loop that runs once: `Loop.refused`, as it was last.
    """

    def __init__(self, once: Iterable[Any], steps: Sequence[Step]) -> None:
        self.kept: set[Any] = set(once)
        self.varying: set[tuple[Any, int]] = set()
        self.arrays = Arrays()
        self.begun: dict[Any, dict[Any, Layout]] = {}
        self.refused: dict[str, Any] = {}
        self._number = {one: n for n, step in enumerate(steps) for one in step.operations}
        self._users: dict[Any, int] = {}  # By maker of an array: the first step that uses it.
        self._new: list[Any] = []
        self._has_varied = False

    @property
    def is_urgent(self) -> bool:
        """Whether a pass that continued now would draw wrong conclusions."""
        return bool(self.arrays.changed) or self._has_varied

    def keep(self, operations: Iterable[Any]) -> None:
        """Records operations that run once."""
        found = [one for one in operations if one not in self.kept]
        self.kept.update(found)
        self._new += found

    def know(self, first: Any, begun: dict[Any, Layout], refused: Any, is_whole: bool) -> None:
        """Records what was found in a loop, by its first operation."""
        loop = graph_lib.loops_of(first)[0][0]
        self.refused.pop(loop, None)
        if not is_whole:
            self.begun[first] = begun
        elif refused is not None:
            self.refused[loop] = refused

    def vary(self, found: Iterable[tuple[Any, int]], loop: Sequence[Any]) -> None:
        """Records tensors whose shape a loop changes."""
        before = len(self.varying)
        self.varying.update(found)
        if len(self.varying) > before:
            self._has_varied = True
            self._new.append(loop[0])

    def first(self) -> int | None:
        """Returns the first step to repeat, None if there is none, and resets what is new."""
        found = [self._number[one] for one in self._new if one in self._number]
        if self.arrays.changed and not self._users:  # Few graphs have arrays: found on demand.
            for one, number in self._number.items():
                maker = array_of(one)
                if maker is not None:
                    self._users.setdefault(maker, number)
        found += [self._users[maker] for maker in self.arrays.changed]
        self._new, self._has_varied = [], False
        self.arrays.changed = set()
        return min(found, default=None)
