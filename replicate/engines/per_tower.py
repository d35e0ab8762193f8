"""One value for each tower."""

from __future__ import annotations

from typing import Tuple, TypeVar

T = TypeVar("T")


class PerTower(Tuple[T, ...]):
    """One value for each tower, in tower order; what a merge function takes, and may return."""

    def of_towers(self, size: int) -> PerTower[T]:
        """Returns itself, the values of `size` towers; raises if there are more or fewer.

        Raises:
            ValueError: If so.
        """
        if len(self) != size:
            raise ValueError(
                f"A `PerTower` result must hold one value for each of {size} towers, but holds "
                f"{len(self)}. Return a plain value to give all towers the same."
            )
        return self
