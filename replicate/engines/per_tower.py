"""Holds one value for each tower."""

from __future__ import annotations

from typing import Tuple, TypeVar

T = TypeVar("T")


class PerTower(Tuple[T, ...]):
    """One value for each tower, in tower order. Merge functions take these and may return one."""

    def of_towers(self, size: int) -> PerTower[T]:
        """Returns itself, after checking that it holds the values of `size` towers.

        Raises:
            ValueError: If it holds more or fewer.
        """
        if len(self) != size:
            raise ValueError(
                f"A `PerTower` result must hold one value for each of {size} towers, but holds "
                f"{len(self)}. Return a plain value to give all towers the same."
            )
        return self
