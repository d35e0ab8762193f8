"""Rank correlations against those of SciPy."""

import numpy as np
import pytest
from scipy import stats

from examples.nas_search.reports import rank_correlation
from examples.nas_search.reports.rank_correlation import correlate, kendall, spearman

SCIPY = {spearman: stats.spearmanr, kendall: stats.kendalltau}


def series(seed, size, values):
    """Returns two series that correlate; few `values` make ties."""
    random = np.random.RandomState(seed)
    x = random.randint(values, size=size).astype(float)
    y = np.round(x + random.normal(0, values / 4, size=size))
    return x, y


@pytest.mark.parametrize("coefficient", [spearman, kendall])
@pytest.mark.parametrize("values", [4, 10_000])
def test_correlations_are_those_of_scipy(coefficient, values):
    for seed in range(5):
        x, y = series(seed, 30, values)
        want = SCIPY[coefficient](x, y).statistic
        assert coefficient(x, y) == pytest.approx(want, abs=1e-12)
    assert correlate(coefficient, x, y).value == coefficient(x, y)


def test_ranks_are_those_of_scipy():
    x, _ = series(0, 50, 7)
    np.testing.assert_array_equal(rank_correlation.ranks(x), stats.rankdata(x))


@pytest.mark.parametrize("coefficient", [spearman, kendall])
def test_intervals_are_those_of_scipy(coefficient):
    """Both draw at random: so they agree about as well as 2,000 draws do with each other."""
    x, y = series(1, 40, 1_000)
    got = correlate(coefficient, x, y).interval
    want = stats.bootstrap(
        (x, y),
        lambda a, b: SCIPY[coefficient](a, b).statistic,
        paired=True,
        vectorized=False,
        n_resamples=1_000,
        method="percentile",
        random_state=2,
    ).confidence_interval
    np.testing.assert_allclose(got, want, atol=0.05)
    assert got == correlate(coefficient, x, y).interval
    assert got != correlate(coefficient, x, y, seed=1).interval


def test_equal_numbers_alone_have_no_correlation():
    assert correlate(spearman, [1, 1, 1], [1, 2, 3]) is None
    assert correlate(kendall, [1, 2, 3], [2, 2, 2]) is None
    # Of three pairs, one draw in nine has equal numbers alone.
    assert correlate(kendall, [1, 2, 3], [1, 2, 3]) == (1.0, (1.0, 1.0))


@pytest.mark.parametrize(
    ("x", "y"), [([1, 2], [1, 2]), ([1, 2, 3], [1, 2]), ([[1]] * 3, [[1]] * 3)]
)
def test_series_must_be_long_enough(x, y):
    with pytest.raises(ValueError, match="needs two series of the same length, 3 numbers at least"):
        correlate(spearman, x, y)
