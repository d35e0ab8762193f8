"""The ends of what networks of a space cost, against all networks of a small one."""

import itertools

import numpy as np
import pytest

from examples.nas_search import mobile_cost_model
from examples.nas_search.costs import cost_features, cost_fit, cost_range, network_batch
from examples.nas_search.spaces import digits_search_space, search_spaces
from nas_search import nas_searches

DIGITS = digits_search_space.DIGITS_SEARCH


def all_costs(model):
    """Returns the costs of all index lists of the space of a model."""
    spec = search_spaces.get_search_space_spec(model.ssd)
    sizes = network_batch.option_counts(spec)
    index_lists = np.array(list(itertools.product(*map(range, sizes))))
    return model.estimate(cost_features.feature_positions(spec, index_lists)[1])


def scattered_model():
    """Returns a model whose costs depend on choices together, as latencies do."""
    model = nas_searches.latency_model()
    noise = np.random.RandomState(0).uniform(0, 0.02, len(model.kernel))
    return nas_searches.latency_model(kernel=model.kernel + noise)


@pytest.mark.parametrize("objective", ["madds", "params"])
def test_the_ends_are_those_of_all_networks(objective):
    model = cost_fit.fit(DIGITS, objective, num_classes=10, input_shape=(8, 8, 1))
    costs = all_costs(model)
    assert cost_range.cost_range(model) == pytest.approx((costs.min(), costs.max()))


def test_the_ends_of_a_measured_cost_are_close():
    model = scattered_model()
    costs = all_costs(model)
    least, largest = cost_range.cost_range(model)
    assert costs.min() <= least + 1e-9 <= 1.02 * costs.min()
    assert 0.98 * costs.max() <= largest <= costs.max() + 1e-9


# Millions of multiply-adds, as READMEs have them.
@pytest.mark.parametrize(
    ("ssd", "ends"), [("mnist_search", (0.016628, 3.001056)), ("cifar10_search", (9.745, 217.52))]
)
def test_the_ends_of_large_spaces(ssd, ends):
    found = cost_range.cost_range(mobile_cost_model.default_model(ssd))
    assert found == pytest.approx(ends, rel=1e-4)
