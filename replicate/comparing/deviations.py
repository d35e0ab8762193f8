"""Measures how far towers deviate from one device, with tolerances for rounding.

A *deviation* is the largest difference of two entries of an array, relative to the largest entry
that the array has on one device in any step: an array that starts at 0 has tiny values at first.
Values that are not floating-point numbers must be equal: their deviation is 0 or infinite.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, NamedTuple

import numpy as np

# For sums of the same numbers in a different order, by type.
TOLERANCES = {
    "float64": 1e-9,
    "complex128": 1e-9,
    "float32": 1e-5,
    "complex64": 1e-5,
    "float16": 1e-3,
    "bfloat16": 1e-2,
}


def tolerance_of(dtypes: Iterable[str]) -> float:
    """Returns the tolerance of the coarsest of several types, given by name."""
    found = [TOLERANCES[name] for name in dtypes if name in TOLERANCES]
    return max(found, default=TOLERANCES["float64"])


class Deviation(NamedTuple):
    """Distance between towers and one device in one compared value."""

    what: str
    """Name of the variable, slot, metric or prediction, or a description of the value."""
    value: float
    """The largest deviation in any step; infinite if it cannot be computed."""
    tolerance: float
    """The largest value that passes."""
    step: int | None = None
    """The first step after which the value was above the tolerance, 0 being the start; None if it
    never was. For predictions, the first such batch, from 1 on."""
    note: str = ""
    """Why `value` cannot be computed; "" otherwise."""

    @property
    def excess(self) -> float:
        """`value / tolerance`."""
        return self.value / self.tolerance

    @property
    def passes(self) -> bool:
        """Whether the value is within the tolerance."""
        return self.value <= self.tolerance


def deviation(
    what: str,
    got: Any,
    want: Any,
    tolerance: float | None = None,
    coarsest: float = 0.0,
    largest: float = 0.0,
) -> Deviation:
    """Returns the `Deviation` of an array.

    Args:
        what: Name or description of the array.
        got: The array of towers, or a value that converts to one; None if towers have none.
        want: Likewise, of one device.
        tolerance: The tolerance. None: the tolerance of the array's type, but at least `coarsest`.
        coarsest: The tolerance of the coarsest type that the array is computed with.
        largest: The absolute value of the largest entry in other steps.

    Returns:
        A `Deviation` without a step.
    """
    want_array: Any = None if want is None else comparable(want)
    if tolerance is None:
        dtypes = [] if want is None else [want_array.dtype.name]
        tolerance = max(tolerance_of(dtypes), coarsest)
    if got is None or want is None:
        where = "one device" if got is None else "towers"
        return Deviation(what, float("inf"), tolerance, note=f"only on {where}")
    got, want = comparable(got), want_array
    if got.shape != want.shape or _kind(got) != _kind(want):
        note = f"{_described(got)} instead of {_described(want)}"
        return Deviation(what, float("inf"), tolerance, note=note)
    if np.array_equal(got, want):
        return Deviation(what, 0.0, tolerance)
    if want.dtype.kind not in "fc":
        different = np.sum(np.asarray(got != want))
        return Deviation(
            what, float("inf"), tolerance, note=f"{different} of {want.size} entries differ"
        )
    if not np.all(np.isfinite(want)) or not np.all(np.isfinite(got)):
        return Deviation(what, float("inf"), tolerance, note=_not_finite(got, want))
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    difference = np.max(np.abs(got.astype(wide) - want.astype(wide)))
    largest = max(largest, largest_of(want))
    value = float(difference / largest) if largest > 0 else float("inf")
    return Deviation(what, value, tolerance, note="" if largest > 0 else "0 on one device")


def largest_of(array: Any) -> float:
    """Returns the absolute value of the largest finite entry of an array, 0.0 if it has none."""
    array = comparable(array)
    if array.dtype.kind not in "fc":
        return 0.0
    sizes = np.abs(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64))
    return float(np.max(sizes, where=np.isfinite(sizes), initial=0.0))


def comparable(value: Any) -> np.ndarray[Any, Any]:
    """Returns a value as an array of one of NumPy's built-in types; bfloat16 becomes float32."""
    array = np.asarray(value)
    # Types that other packages add to NumPy have kind V. So have records, but tensors are never
    # records.
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def _kind(array: np.ndarray[Any, Any]) -> str | np.dtype[Any]:
    # The type of an array of strings depends on the longest of them: treat all lengths alike.
    return "text" if array.dtype.kind in "OSU" else array.dtype


def _described(array: np.ndarray[Any, Any]) -> str:
    return f"{array.dtype} {array.shape}"


def _not_finite(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> str:
    where = [
        name
        for name, array in (("one device", want), ("towers", got))
        if not np.all(np.isfinite(array))
    ]
    return f"not finite on {' and '.join(where)}"


class Tally:
    """The largest deviation of each of several arrays, over steps.

    Args:
        tolerance: As in `deviation`.
        coarsest: As in `deviation`.
        largest: By name, the absolute value of each array's largest entry on one device, in any
            step.
    """

    def __init__(
        self,
        tolerance: float | None = None,
        coarsest: float = 0.0,
        largest: Mapping[str, float] | None = None,
    ) -> None:
        self._limits = tolerance, coarsest
        self._largest = largest or {}
        self._worst: dict[str, Deviation] = {}
        self.parted: Deviation | None = None
        """The largest `Deviation` at the first step at which one was beyond its tolerance; None if
        none was."""

    def add(self, step: int | None, got: Mapping[str, Any], want: Mapping[str, Any]) -> None:
        """Compares the arrays of a step.

        Args:
            step: Number of the step, or None.
            got: The arrays of towers, by name.
            want: The arrays of one device, by name.
        """
        beyond = []
        for name in [*want, *(name for name in got if name not in want)]:
            largest = self._largest.get(name, 0.0)
            found = deviation(name, got.get(name), want.get(name), *self._limits, largest)
            if not found.passes:
                found = found._replace(step=step)
                beyond.append(found)
            before = self._worst.get(name, found)
            first = found.step if before.step is None else before.step
            worse = max(before, found, key=lambda one: one.value)
            self._worst[name] = worse._replace(step=first)
        if beyond and (self.parted is None or (step or 0) < (self.parted.step or 0)):
            self.parted = max(beyond, key=lambda one: one.excess)

    def deviations(self) -> tuple[Deviation, ...]:
        """Returns a `Deviation` of each array, in the order in which they came."""
        return tuple(self._worst.values())
