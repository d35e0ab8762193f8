"""The fit of latencies, on latencies whose truth is known."""

import numpy as np
import pytest

from examples.nas_search.costs import cost_fit, network_cost
from examples.nas_search.latency import latency_fit
from examples.nas_search.mobile_cost_model import inputs_of
from examples.nas_search.spaces import search_spaces


def networks_of(ssd, count, seed=7):
    return cost_fit.random_networks(ssd, seed, num_draws=2 * count).of(slice(count))


def held_out(ssd, networks, costs, count, kernels=None):
    """Returns the statistics on the networks after the first `count`, and what was chosen."""
    if kernels is None:
        kernels = latency_fit.prior_kernels(ssd, *inputs_of(ssd))
    is_held_out = np.arange(len(costs)) >= count
    fitted = latency_fit.fit(networks.of(~is_held_out), costs[~is_held_out], kernels)
    kernel, bias, chosen = fitted
    return cost_fit.statistics(networks, costs, is_held_out, kernel, bias), chosen


@pytest.fixture(scope="module")
def enlarged():
    """A space of 5,983 features: networks, their multiply-adds and the prior kernels."""
    ssd = "proxylessnas_enlarged_search"
    networks = networks_of(ssd, 300)
    madds, _ = network_cost.costs_of_many(
        search_spaces.get_search_space_spec(ssd), networks.index_lists, *inputs_of(ssd)
    )
    return ssd, networks, madds / 1e9, latency_fit.prior_kernels(ssd, *inputs_of(ssd))


def test_prior_costs_are_linear_in_the_features(enlarged):
    ssd, networks, madds, kernels = enlarged
    assert set(kernels) == {"madds", "params", "layers"}
    space = search_spaces.get_search_space_spec(ssd)
    layers = network_cost.layers_of_many(space, networks.index_lists)
    for want, kernel in ((1e9 * madds, kernels["madds"]), (layers, kernels["layers"])):
        costs = kernel[networks.positions].sum(axis=1)
        np.testing.assert_allclose(costs - costs.mean(), want - want.mean(), atol=1e-6 * want.max())


def test_layers_are_those_that_are_not_skipped():
    space = search_spaces.get_search_space_spec("digits_search")
    # Entries 5 and 11 skip a layer. A stem with its activation, and a head of three, are always
    # there, and a bottleneck in each of the two blocks.
    index_lists = np.zeros([3, 14], np.int64)
    index_lists[1:, 5] = index_lists[2:, 11] = 1
    counts = network_cost.layers_of_many(space, index_lists)
    assert counts[0] - counts[1] == counts[1] - counts[2] == 1
    whole = sum(len(block.layers) for block in space.blocks)
    assert counts[0] == whole


def test_a_linear_truth_is_found_from_few_networks():
    networks = networks_of("digits_search", 400)
    random = np.random.RandomState(0)
    truth = random.rand(networks.num_features)[networks.positions].sum(axis=1)
    statistics, chosen = held_out("digits_search", networks, truth, 300)
    assert statistics["r_squared"] > 0.999
    assert chosen["strength"] < 0.1  # There is no noise to keep out.
    noisy = truth + 0.3 * truth.std() * random.normal(size=len(truth))
    statistics, with_noise = held_out("digits_search", networks, noisy, 300)
    # 0.09 / 1.09 of the variance is noise, which no model explains.
    assert 0.75 < statistics["r_squared"] < 1 / 1.09 + 0.05
    assert with_noise["strength"] > 10 * chosen["strength"]


def test_noise_alone_is_not_learned():
    networks = networks_of("digits_search", 300)
    noise = 1 + 0.1 * np.random.RandomState(0).normal(size=300)
    kernels = {name: np.zeros(networks.num_features) for name in ("madds", "params", "layers")}
    statistics, chosen = held_out("digits_search", networks, noise, 200, kernels)
    assert -0.1 < statistics["r_squared"] < 0.1
    assert chosen["strength"] >= 100


def test_prior_costs_help_where_features_are_many(enlarged):
    ssd, networks, madds, kernels = enlarged
    random = np.random.RandomState(1)
    own = random.normal(size=networks.num_features)[networks.positions].sum(axis=1)
    costs = 5 + madds / madds.std() + 0.1 * own / own.std()
    statistics, chosen = held_out(ssd, networks, costs, 200, kernels)
    assert "madds" in chosen["priors"] and statistics["r_squared"] > 0.98
    useless = {name: 0 * kernel for name, kernel in kernels.items()}
    without, _ = held_out(ssd, networks, costs, 200, useless)
    assert without["r_squared"] < 0.95
    assert without["mean_error"] > 2 * statistics["mean_error"]


def test_the_unit_makes_no_difference(enlarged):
    _, networks, madds, kernels = enlarged
    some = networks.of(slice(60))
    kernel, bias, chosen = latency_fit.fit(some, madds[:60], kernels)
    thousand, thousand_bias, same = latency_fit.fit(some, 1000 * madds[:60], kernels)
    assert chosen == same
    np.testing.assert_allclose(
        thousand, 1000 * kernel, rtol=1e-6, atol=1e-9 * np.abs(thousand).max()
    )
    np.testing.assert_allclose(thousand_bias, 1000 * bias, rtol=1e-6)


def test_held_out_networks_are_spread_evenly():
    assert cost_fit.is_held_out(10, 0.2).nonzero()[0].tolist() == [4, 9]
    assert cost_fit.is_held_out(10, 5.0).nonzero()[0].tolist() == [1, 3, 5, 7, 9]
    for count, number in ((300, 60.0), (97, 13.0), (7, 1.0)):
        assert cost_fit.is_held_out(count, number).sum() == number
    assert not cost_fit.is_held_out(3, 0.1).any()
