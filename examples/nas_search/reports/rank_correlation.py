"""Tells how well one series of numbers predicts the order of another: rank correlations.

Spearman's ρ is the correlation of ranks, where equal numbers share the mean of theirs. Kendall's τ
is τ-b: the pairs in the same order minus those in the opposite one, divided by √(pairs not equal in
the first series · pairs not equal in the second); Kendall, "The treatment of ties in ranking
problems", Biometrika 1945. The intervals are percentiles of the same figure over series that are
drawn again from the pairs, with replacement: Efron, "Bootstrap methods: another look at the
jackknife", Annals of Statistics 1979.
"""

from typing import Callable, NamedTuple, Optional, Sequence, Tuple

import numpy as np

_RESAMPLES = 2_000
LEAST = 3  # pairs; of two, each correlation is 1 or -1


class Correlation(NamedTuple):
    """A rank correlation of two series, in [-1, 1]."""

    value: float
    interval: Tuple[float, float]  # of 95 %


def correlate(
    coefficient: Callable[[np.ndarray, np.ndarray], float],
    first: Sequence[float],
    second: Sequence[float],
    seed: int = 0,
) -> Optional[Correlation]:
    """Returns a correlation of two series with its bootstrap interval.

    Args:
        coefficient: `spearman` or `kendall`.
        first: n numbers.
        second: n numbers; those of one place in both series belong together.
        seed: Int that the interval depends on.

    Returns:
        A `Correlation`; None if all numbers of a series are equal. Series drawn again whose numbers
        are all equal have no correlation and do not count.

    Raises:
        ValueError: If the series differ in length, or have fewer than three numbers.
    """
    x, y = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if x.shape != y.shape or x.ndim != 1 or len(x) < LEAST:
        raise ValueError(
            f"A correlation needs two series of the same length, {LEAST} numbers at least, but "
            f"they have the shapes {x.shape} and {y.shape}."
        )
    if _is_constant(x) or _is_constant(y):
        return None
    draws = np.random.RandomState(seed).randint(len(x), size=(_RESAMPLES, len(x)))
    drawn = [
        coefficient(x[draw], y[draw])
        for draw in draws
        if not (_is_constant(x[draw]) or _is_constant(y[draw]))
    ]
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Correlation(coefficient(x, y), (float(low), float(high)))


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    """Returns Spearman's ρ of two series, float [n] each, neither with equal numbers alone."""
    return float(np.corrcoef(ranks(x), ranks(y))[0, 1])


def kendall(x: np.ndarray, y: np.ndarray) -> float:
    """Returns Kendall's τ-b of two series, float [n] each, neither with equal numbers alone."""
    a, b = np.sign(x[:, None] - x), np.sign(y[:, None] - y)
    # Each pair is in the matrices twice, which does not change the ratio.
    return float(np.sum(a * b) / np.sqrt(np.sum(a * a) * np.sum(b * b)))


def ranks(x: np.ndarray) -> np.ndarray:
    """Returns the ranks of numbers, float64 [n] from 1 on; equal ones share the mean of theirs."""
    _, place, counts = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[place]


def _is_constant(x: np.ndarray) -> bool:
    return bool(np.all(x == x[0]))
