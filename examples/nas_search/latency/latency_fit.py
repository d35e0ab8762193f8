"""Fits the latency of networks, of which few are measured, to many cost features.

There may be thousands of features, and a few hundred measured networks do not determine the weight
of each. But they show how latency follows multiply-adds, parameters and the number of layers, each
of which is itself linear in the features. So these *prior costs* are regressed without penalty
together with the weights of the features, which have one on their squares (ridge regression) and
explain what is left. Which prior costs to use, and the strength of the penalty, is chosen by
leave-one-out cross-validation.
"""

import numpy as np

from examples.nas_search.costs import cost_fit, network_cost
from examples.nas_search.spaces import search_spaces

# Sets of prior costs to choose from.
PRIORS = ((), ("madds",), ("madds", "layers"), ("madds", "params", "layers"))
STRENGTHS = tuple(10.0 ** np.arange(-2, 5.5, 0.5))
_UNPENALIZED = 1e3  # Prior costs vary by this much, features by less than 1.


def prior_kernels(ssd, input_shape, num_classes):
    """Returns what latency is likely to follow, as functions of the cost features.

    Args:
        ssd: Name of the space.
        input_shape: Height, width and channels of an image.
        num_classes: Number of outputs of the classifier.

    Returns:
        Dict of kernels, float64 [features], by the names in `PRIORS`.
    """
    networks = cost_fit.random_networks(ssd)
    spec = search_spaces.get_search_space_spec(ssd)
    madds, params = network_cost.costs_of_many(spec, networks.index_lists, input_shape, num_classes)
    layers = network_cost.layers_of_many(spec, networks.index_lists)
    costs = {"madds": madds, "params": params, "layers": layers}
    return {
        name: cost_fit.least_squares(networks, each.astype(np.float64))[0]
        for name, each in costs.items()
    }


def fit(networks, latencies, kernels):
    """Fits a linear model.

    Args:
        networks: `cost_fit.Networks`.
        latencies: Float64 [n].
        kernels: Dict by `prior_kernels`.

    Returns:
        Triple of kernel, float64 [features], bias, a float, and what was chosen, a dict of
        `priors`, a list of names, and `strength`, a float. Features that occur in no network have
        the weights that the prior costs give them.
    """
    # Here, because importing it takes a second, and a search that loads the model needs it not.
    from sklearn.linear_model import RidgeCV

    features = networks.matrix().toarray()
    is_there = features.any(axis=0)
    features = features[:, is_there]
    scale = latencies.std() or 1.0
    fits = []
    for names in PRIORS:
        shape = (len(names), networks.num_features)
        priors = np.array([kernels[name] for name in names]).reshape(shape)
        costs = priors[:, networks.positions].sum(axis=-1)  # [priors, n]
        # One that is the same for all networks explains nothing.
        sizes = np.maximum(costs.std(axis=1), 1e-9 * np.abs(costs).max(axis=1, initial=1.0))
        priors = priors * (_UNPENALIZED / sizes)[:, None]
        costs = priors[:, networks.positions].sum(axis=-1)
        matrix = np.concatenate([costs.T, features], axis=1)
        # The unit of latencies must not matter to the penalty; it does not to its size's choice.
        ridge = RidgeCV(STRENGTHS).fit(matrix, latencies / scale)
        kernel = ridge.coef_[: len(names)] @ priors
        kernel[is_there] += ridge.coef_[len(names) :]
        chosen = {"priors": list(names), "strength": float(ridge.alpha_)}
        fits.append((ridge.best_score_, scale * kernel, float(scale * ridge.intercept_), chosen))
    return max(fits, key=lambda each: each[0])[1:]
