"""The cost that a search aims at: how far networks miss it, and draws that cost it on average."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search import controller, mobile_cost_model
from examples.nas_search.search import network_rewards, search_settings, strategies
from examples.nas_search.search.strategies import aims
from examples.nas_search.spaces import search_spaces

NETWORKS = 4_000


def make(directory, **given):
    given = {"preset": "digits", "num_towers": 2, "strategy": "evolution", **given}
    params = search_settings.resolve(checkpoint_dir=str(directory), **given)
    costs = network_rewards.costs_of_search(params)
    return aims.Aim(costs, params), costs, params


def drawn(logits, number=NETWORKS, seed=1):
    """Returns networks of independent choices with these logits, int [number, C]."""
    random = np.random.RandomState(seed)
    columns = []
    for row in logits:
        probability = np.exp(row) / np.exp(row).sum()
        columns.append(random.choice(len(row), size=number, p=probability))
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("target", [0.008, 0.012, 0.02])
def test_draws_cost_the_target_on_average(tmp_path, target):
    aim, costs, params = make(tmp_path, rl_cost_model_target=[target])
    (estimates,) = network_rewards.estimate(costs, params["ssd"], drawn(aim.logits()))
    assert np.mean(estimates) == pytest.approx(target, rel=0.04)
    assert np.std(estimates) > 0.1 * target  # They are still random.


def test_several_costs_are_the_target_on_average(tmp_path):
    given = {"cost_model": ("madds", "params"), "rl_cost_model_target": [0.008, 0.004]}
    aim, costs, params = make(tmp_path, **given)
    ratios = network_rewards.estimate(costs, params["ssd"], drawn(aim.logits())) / [
        [cost.target] for cost in costs
    ]
    assert ratios.mean() == pytest.approx(1, abs=0.04)


def test_a_target_beyond_all_networks_leaves_draws_as_close_as_can_be(tmp_path):
    aim, costs, params = make(tmp_path, rl_cost_model_target=[1e-4])
    logits = aim.logits()
    assert all(np.isfinite(row).all() for row in logits)
    (estimates,) = network_rewards.estimate(costs, params["ssd"], drawn(logits))
    uniform = drawn([np.zeros_like(row) for row in logits])
    (others,) = network_rewards.estimate(costs, params["ssd"], uniform)
    assert np.mean(estimates) < 1.2 * others.min()


def test_a_network_misses_by_the_cost_that_is_farthest_away(tmp_path):
    targets = [0.01, 0.008]
    given = {"cost_model": ("madds", "params"), "rl_cost_model_target": targets}
    aim, costs, params = make(tmp_path, **given)
    networks = drawn(aim.logits(), 50)
    away = []
    for network in networks:
        estimates = [
            mobile_cost_model.estimate_cost(network, params["ssd"], cost.model) for cost in costs
        ]
        away.append(max(abs(one / target - 1) for one, target in zip(estimates, targets)))
    window = np.median(away)
    aim = aims.Aim(costs, {**params, "cost_window": window})
    np.testing.assert_allclose(
        aim.misses(networks), [each if each > window else 0 for each in away], rtol=1e-6
    )


def test_without_costs_nothing_is_missed(tmp_path):
    aim, costs, _ = make(tmp_path, enable_cost_model=False)
    logits = aim.logits()
    assert not costs and not any(row.any() for row in logits)
    assert not aim.misses(drawn(logits, 5)).any()


def test_training_draws_by_these_logits(tmp_path):
    aim, costs, params = make(tmp_path, rl_cost_model_target=[0.008])
    logits = strategies.initial_logits(costs, params)
    space = search_spaces.get_search_space_spec(params["ssd"])
    _, info = controller.independent_sample(space, initial_logits=logits)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found = list(session.run(info["logits_by_path"]).values())
    for row, want in zip(found, aim.logits()):
        np.testing.assert_array_equal(row, want)
    given = {"preset": "digits", "num_towers": 2, "checkpoint_dir": str(tmp_path)}
    params = search_settings.resolve(**given)
    assert strategies.initial_logits(costs, params) is None
    params = search_settings.resolve(start_at_target=True, **given)
    for row, want in zip(strategies.initial_logits(costs, params), aim.logits()):
        np.testing.assert_array_equal(row, want)


def test_the_window_belongs_to_strategies_that_evaluate(tmp_path):
    with pytest.raises(search_settings.SettingsError) as raised:
        make(tmp_path, strategy="reinforce", cost_window=0.1)
    assert "--cost_window must be for the strategy of the search" in str(raised.value)
