"""One value for each tower."""


class PerTower(tuple):
    """One value for each tower, in tower order; what a merge function takes, and may return."""

    def of_towers(self, size):
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
