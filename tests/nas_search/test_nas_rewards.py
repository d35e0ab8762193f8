"""Rewards follow their published formulas."""

import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search import rewards, search_space_utils


def reward(quality=0.75, function="abs", cost=50.0, target=100.0, exponent=-0.5):
    tensors = search_space_utils.reward_for_single_cost_model(
        quality,
        rl_reward_function=function,
        estimated_cost=cost,
        rl_cost_model_target=target,
        rl_cost_model_exponent=exponent,
    )
    with tf.Session() as session:
        return session.run(tensors)


@pytest.mark.parametrize(
    ("function", "cost", "ratio", "adjustment", "expected"),
    [
        # q = 0.75, β = -0.5, target 100.
        ("mnas", 25.0, 0.25, 2.0, 1.5),  # 0.25^-0.5 = 2
        ("mnas", 400.0, 4.0, 0.5, 0.375),  # 4^-0.5 = 0.5
        ("mnas_hard", 25.0, 0.25, 1.0, 0.75),  # nothing is gained below the target
        ("mnas_hard", 400.0, 4.0, 0.5, 0.375),
        ("abs", 25.0, 0.25, -0.375, 0.375),  # -0.5 · |0.25 - 1|
        ("abs", 175.0, 1.75, -0.375, 0.375),  # as far above the target
        ("abs", 400.0, 4.0, -1.5, -0.75),  # -0.5 · |4 - 1|
        *(
            (function, 100.0, 1.0, 0.0 if function == "abs" else 1.0, 0.75)
            for function in ("abs", "mnas", "mnas_hard")
        ),
    ],
)
def test_rewards(function, cost, ratio, adjustment, expected):
    values = reward(function=function, cost=cost)
    assert set(values) == {"rl_reward", "rl_cost_ratio", "rl_cost_adjustment"}
    assert values["rl_cost_ratio"] == pytest.approx(ratio)
    assert values["rl_cost_adjustment"] == pytest.approx(adjustment)
    assert values["rl_reward"] == pytest.approx(expected)


@pytest.mark.parametrize("function", rewards.RL_REWARDS)
def test_tensors_and_numbers_give_the_same(function):
    numbers = reward(0.5, function, 30.0)
    tensors = reward(tf.constant(0.5), function, tf.constant(30.0))
    assert numbers == tensors


def test_the_published_functions_exist():
    assert sorted(search_space_utils.RL_REWARDS) == ["abs", "mnas", "mnas_hard"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"function": "other"}, r"must be one of \['mnas', 'mnas_hard', 'abs'\], but is 'other'"),
        ({"target": 0.0}, r"`rl_cost_model_target` must be > 0, but is 0.0"),
        ({"target": -1.0}, r"`rl_cost_model_target` must be > 0, but is -1.0"),
    ],
)
def test_impossible_rewards_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        reward(**settings)


@pytest.mark.parametrize(
    ("function", "adjustment", "expected"),
    [
        # q = 0.75, β = -0.5; r = 4 with the weight 0.5, r = 1/16 with the weight 1.
        ("abs", -0.25 * 3 - 0.5 * 15 / 16, 0.75 - 0.75 - 0.46875),
        ("mnas", 4**-0.25 * 4, 0.75 * 2**-0.5 * 4),
        ("mnas_hard", 2**-0.5, 0.75 * 2**-0.5),  # nothing is gained by the second
    ],
)
def test_several_costs_count_by_their_weights(function, adjustment, expected):
    tensors = search_space_utils.reward_for_cost_models(
        0.75, function, [40.0, 0.125], [10.0, 2.0], -0.5, [0.5, 1.0]
    )
    with tf.Session() as session:
        values = session.run(tensors)
    assert values["rl_cost_ratio"] == pytest.approx([4.0, 1 / 16])
    assert values["rl_cost_adjustment"] == pytest.approx(adjustment)
    assert values["rl_reward"] == pytest.approx(expected)


@pytest.mark.parametrize("function", rewards.RL_REWARDS)
def test_two_halves_of_a_cost_are_the_cost(function):
    whole = reward(function=function, cost=170.0)
    halves = search_space_utils.reward_for_cost_models(
        0.75, function, [170.0] * 2, [100.0] * 2, -0.5, [0.5] * 2
    )
    with tf.Session() as session:
        assert session.run(halves["rl_reward"]) == pytest.approx(whole["rl_reward"])
