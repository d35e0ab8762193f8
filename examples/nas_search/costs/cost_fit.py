"""Fits a cost model: linear regression of what networks cost on their coupled cost features.

An *objective* is what is to be kept near a target. Random networks are drawn from a space, their
objective is computed, and the weights of the features are those with the least squared error. The
latency, which is measured, is fitted in `latency_fit`.
"""

import functools
from typing import Callable, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from examples.nas_search.costs import cost_features, network_batch, network_cost
from examples.nas_search.costs.cost_model_io import CostModel
from examples.nas_search.spaces import search_spaces

_DRAWS = 40_000
_TOLERANCE = 1e-10  # relative, of the solution


class Objective(NamedTuple):
    """Something that networks cost."""

    unit: str
    # From spec, index lists [n, C], input shape and number of classes to float64 [n], in `unit`.
    measure: Callable[..., np.ndarray]


def _millions(number):
    def measure(spec, index_lists, input_shape, num_classes):
        costs = network_cost.costs_of_many(spec, index_lists, input_shape, num_classes)
        return costs[number] / 1e6

    return measure


OBJECTIVES = {
    "madds": Objective("million MAdds", _millions(0)),
    "params": Objective("million parameters", _millions(1)),
}


class Networks(NamedTuple):
    """Random networks of a space, no two with the same features."""

    index_lists: np.ndarray  # int64 [n, C]
    num_features: int
    positions: np.ndarray  # int64 [n, L], see `cost_features.feature_positions`

    def of(self, which):
        """Returns some of them; `which` indexes or masks them."""
        return self._replace(index_lists=self.index_lists[which], positions=self.positions[which])

    def matrix(self):
        """Returns the features as a sparse matrix, float64 [n, features]."""
        count, num_ones = self.positions.shape
        starts = np.arange(0, count * num_ones + 1, num_ones)
        ones = np.ones(count * num_ones)
        shape = (count, self.num_features)
        return sparse.csr_matrix((ones, self.positions.ravel(), starts), shape)


def random_networks(ssd, seed=0, num_draws=_DRAWS):
    """Draws networks of a space; of those with the same features all but the first are left out.

    Choices for a layer that is then skipped make no difference to a network, and none to its
    features.

    Args:
        ssd: Name of the space.
        seed: On which the draws depend, int.
        num_draws: How many to draw.

    Returns:
        `Networks`, in the order in which they were drawn.

    Raises:
        ValueError: If there is no such space.
    """
    spec = search_spaces.get_search_space_spec(ssd)
    index_lists = network_batch.random_index_lists(spec, num_draws, np.random.RandomState(seed))
    num_features, positions = cost_features.feature_positions(spec, index_lists)
    distinct = np.sort(np.unique(positions, axis=0, return_index=True)[1])
    return Networks(index_lists, num_features, positions).of(distinct)


@functools.lru_cache(maxsize=16)
def fit(
    ssd,
    objective="madds",
    num_classes=1001,
    input_shape=(224, 224, 3),
    seed=0,
    num_networks=_DRAWS,
    num_held_out=0.1,
):
    """Fits a cost model to random networks of a space; the same arguments give the same model.

    Args:
        ssd: Name of the space, one of `search_spaces.ALL_SSDS`, or identity of one in a file.
        objective: Key of `OBJECTIVES`.
        num_classes: Number of outputs of the classifier.
        input_shape: Tuple of height, width and channels of an image.
        seed: Of the random networks, int.
        num_networks: How many to draw. Those with the same features count once. For a good fit
            there must be more of them than features that occur, see `CostModel.statistics`.
        num_held_out: How many distinct ones to try the model on, see `is_held_out`.

    Returns:
        A `CostModel`.

    Raises:
        ValueError: If there is no such space or objective.
    """
    if objective not in OBJECTIVES:
        raise ValueError(
            f"`objective` must be one of {sorted(OBJECTIVES)}, but is {objective!r}. A new one "
            "gets its entry in `cost_fit.OBJECTIVES`."
        )
    networks = random_networks(ssd, seed, num_networks)
    spec = search_spaces.get_search_space_spec(ssd)
    costs = OBJECTIVES[objective].measure(spec, networks.index_lists, input_shape, num_classes)
    held_out = is_held_out(len(costs), num_held_out)
    kernel, bias = least_squares(networks.of(~held_out), costs[~held_out])
    return CostModel(
        ssd=ssd,
        objective=objective,
        unit=OBJECTIVES[objective].unit,
        input_shape=tuple(input_shape),
        num_classes=num_classes,
        seed=seed,
        kernel=kernel,
        bias=bias,
        statistics=statistics(networks, costs, held_out, kernel, bias),
    )


def is_held_out(count, num_held_out):
    """Chooses the networks that a model is not fitted to, evenly among all.

    Args:
        count: Number of networks n.
        num_held_out: How many to choose; below 1, which share of them.

    Returns:
        Bool [n]; true for none if there are only a handful of networks.
    """
    share = num_held_out if num_held_out < 1 else min(num_held_out / count, 1)
    return np.diff(np.floor(np.arange(count + 1) * share + 1e-9)) > 0


def statistics(networks, costs, held_out, kernel, bias):
    """Returns how well a model estimates networks, see `CostModel.statistics`.

    Args:
        networks: `Networks`.
        costs: Float64 [n], what they cost.
        held_out: Bool [n], which of them the model was not fitted to. If there are none, errors
            are those on the others.
        kernel: Float64 [features].
        bias: Float.
    """
    tested = held_out if held_out.any() else ~held_out
    truth = costs[tested]
    errors = bias + kernel[networks.positions[tested]].sum(axis=1) - truth
    variance = np.square(truth - truth.mean()).sum()
    return {
        "num_fitted": int((~held_out).sum()),
        "num_held_out": int(held_out.sum()),
        "mean_relative_error": float(np.abs(errors / truth).mean()),
        "max_relative_error": float(np.abs(errors / truth).max()),
        "mean_error": float(np.abs(errors).mean() / truth.mean()),
        # Of a single network there is nothing to explain.
        "r_squared": float(1 - np.square(errors).sum() / variance) if variance else 1.0,
        "lower_quartile": float(np.quantile(costs, 0.25)),
        "least": float(costs.min()),
        "mean": float(costs.mean()),
        "largest": float(costs.max()),
    }


def least_squares(networks, costs):
    """Solves min Σ (bias + Σ kernel · features − costs)².

    The columns of the problem are scaled to equal length. Where several solutions fit equally well,
    as they do with one-hot features, it is the shortest one; weights of features that never occur
    are 0.

    Args:
        networks: `Networks`.
        costs: Float64 [n].

    Returns:
        Pair of kernel, float64 [features], and bias, the mean cost.
    """
    counts = np.bincount(networks.positions.ravel(), minlength=networks.num_features)
    scale = 1 / np.sqrt(np.maximum(counts, 1))
    matrix = networks.matrix() @ sparse.diags(scale)
    bias = costs.mean()
    x = linalg.lsqr(matrix, costs - bias, atol=_TOLERANCE, btol=_TOLERANCE)[0]
    return scale * x, float(bias)
