"""Fits a cost model: linear regression of what networks cost on their coupled cost features.

An *objective* is what is to be kept near a target. Random networks are drawn from a space, their
objective is measured, and the weights of the features are those with the least squared error. A
measured latency would be fitted in the same way: it is one more entry of `OBJECTIVES`.
"""

import dataclasses
import functools
import json
from typing import Any, Callable, Dict, NamedTuple, Tuple

import numpy as np

from examples.nas_search import cost_features, network_batch, network_cost, search_spaces

_FORMAT = 1  # of the JSON text


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


@dataclasses.dataclass(frozen=True)
class CostModel:
    """A fitted cost model of a space: estimate = bias + Σ kernel · features.

    Attributes:
        ssd: Name of the space.
        objective: Key of `OBJECTIVES`.
        unit: Unit of the estimate.
        input_shape: Height, width and channels of an image.
        num_classes: Number of outputs of the classifier.
        seed: Of the random networks.
        kernel: Float64 [features], in `unit`.
        bias: The estimate where all features are 0, in `unit`.
        statistics: `num_networks`, how many distinct ones it was fitted to; `mean_relative_error`
            and `max_relative_error` that a fit without `num_held_out` of them had on those; and
            the `lower_quartile` of the objective, in `unit`.
    """

    ssd: str
    objective: str
    unit: str
    input_shape: Tuple[int, int, int]
    num_classes: int
    seed: int
    kernel: Any
    bias: float
    statistics: Dict[str, float]

    def estimate(self, positions):
        """Returns estimates, float64 [n], of networks with features at `positions`, [n, L]."""
        return self.bias + self.kernel[positions].sum(axis=1)


def to_json(model):
    """Returns a `CostModel` as text; what `from_json` makes of it is equal to the last bit."""
    fields = dict(dataclasses.asdict(model), kernel=model.kernel.tolist(), format=_FORMAT)
    return json.dumps(fields, indent=None, sort_keys=True)


def from_json(text):
    """Returns the `CostModel` of a text by `to_json`.

    Raises:
        ValueError: If it is no such text.
    """
    try:
        fields = json.loads(text)
        if fields.pop("format") != _FORMAT:
            raise KeyError("format")
        fields["kernel"] = np.array(fields["kernel"], np.float64)
        fields["input_shape"] = tuple(fields["input_shape"])
        return CostModel(**fields)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"A cost model must be a text by `cost_fit.to_json`, format {_FORMAT}, but is "
            f"{text[:80]!r} ({error!r}). Delete it and let it be fitted again."
        ) from error


@functools.lru_cache(maxsize=16)
def fit(
    ssd,
    objective="madds",
    num_classes=1001,
    input_shape=(224, 224, 3),
    seed=0,
    num_networks=40_000,
):
    """Fits a cost model to random networks of a space; the same arguments give the same model.

    Args:
        ssd: Name of the space, one of `search_spaces.ALL_SSDS`.
        objective: Key of `OBJECTIVES`.
        num_classes: Number of outputs of the classifier.
        input_shape: Tuple of height, width and channels of an image.
        seed: Of the random networks, int.
        num_networks: How many to draw. Those with the same features count once. For a good fit
            there must be more of them than features that occur, see `CostModel.statistics`.

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
    spec = search_spaces.get_search_space_spec(ssd)
    index_lists = network_batch.random_index_lists(spec, num_networks, np.random.RandomState(seed))
    num_features, positions = cost_features.feature_positions(spec, index_lists)
    distinct = np.sort(np.unique(positions, axis=0, return_index=True)[1])
    index_lists, positions = index_lists[distinct], positions[distinct]
    costs = OBJECTIVES[objective].measure(spec, index_lists, input_shape, num_classes)
    kernel, bias = _least_squares(num_features, positions, costs)
    return CostModel(
        ssd=ssd,
        objective=objective,
        unit=OBJECTIVES[objective].unit,
        input_shape=tuple(input_shape),
        num_classes=num_classes,
        seed=seed,
        kernel=kernel,
        bias=bias,
        statistics=_statistics(num_features, positions, costs),
    )


def _statistics(num_features, positions, costs):
    """Returns how well a fit without a tenth of the networks estimates those; see `CostModel`."""
    is_held_out = np.arange(len(costs)) % 10 == 9
    kernel, bias = _least_squares(num_features, positions[~is_held_out], costs[~is_held_out])
    # Of a handful of networks none can be spared.
    tested = is_held_out if is_held_out.any() else ~is_held_out
    errors = np.abs(bias + kernel[positions[tested]].sum(axis=1) - costs[tested]) / costs[tested]
    return {
        "num_networks": len(costs),
        "num_held_out": int(is_held_out.sum()),
        "mean_relative_error": float(errors.mean()),
        "max_relative_error": float(errors.max()),
        "lower_quartile": float(np.quantile(costs, 0.25)),
    }


def _least_squares(num_features, positions, costs, tolerance=1e-8, max_steps=1000):
    """Solves min Σ (bias + Σ kernel[positions] − costs)², by conjugate gradients.

    The matrix of the problem, [n, features], has L ones in each row and is never formed. Its
    columns are scaled to equal length. Where several solutions fit equally well, as they do with
    one-hot features, it is the shortest one; weights of features that never occur are 0.

    Args:
        num_features: Number of features.
        positions: Int64 [n, L], where the ones are.
        costs: Float64 [n].
        tolerance: At which reduction of the gradient to stop.
        max_steps: After how many steps to stop in any case.

    Returns:
        Pair of kernel, float64 [features], and bias, the mean cost.
    """
    num_ones = positions.shape[1]
    counts = np.bincount(positions.ravel(), minlength=num_features)
    scale = 1 / np.sqrt(np.maximum(counts, 1))

    def times_matrix(x):
        return (scale * x)[positions].sum(axis=1)

    def times_transpose(y):
        sums = np.bincount(positions.ravel(), np.repeat(y, num_ones), minlength=num_features)
        return scale * sums

    bias = costs.mean()
    residual = costs - bias
    x = np.zeros(num_features)
    gradient = times_transpose(residual)
    direction = gradient
    square = first_square = gradient @ gradient
    for _ in range(max_steps):
        if square <= tolerance**2 * first_square:
            break
        change = times_matrix(direction)
        length = square / (change @ change)
        x += length * direction
        residual -= length * change
        gradient = times_transpose(residual)
        square, previous = gradient @ gradient, square
        direction = gradient + square / previous * direction
    return scale * x, float(bias)
