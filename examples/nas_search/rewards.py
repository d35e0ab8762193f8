"""The reward of a network: its quality, adjusted by what it costs.

With quality q, estimated cost c, target t, exponent β, and the *cost ratio* r = c / t:

    mnas        q · r^β             smooth trade-off (MnasNet, Tan et al., CVPR 2019)
    mnas_hard   q · min(r^β, 1)     for β < 0 nothing is gained by being cheaper than the target
    abs         q + β · |r − 1|     the absolute reward of TuNAS (Bender, Liu et al., CVPR 2020):
                                    penalises either side of the target, so that the search meets it

Several costs, of weight w each, count together:

    mnas        q · Π r^(β·w)
    mnas_hard   q · Π min(r^(β·w), 1)
    abs         q + Σ β·w · |r − 1|
"""

import functools
import operator

import tensorflow.compat.v1 as tf

RL_REWARD_MNAS = "mnas"
RL_REWARD_MNAS_HARD = "mnas_hard"
RL_REWARD_ABS = "abs"
RL_REWARDS = (RL_REWARD_MNAS, RL_REWARD_MNAS_HARD, RL_REWARD_ABS)


def reward_for_single_cost_model(
    quality,
    rl_reward_function,
    estimated_cost,
    rl_cost_model_target,
    rl_cost_model_exponent,
):
    """Computes the reward of a network.

    Args:
        quality: How good the network is, usually its accuracy, float scalar.
        rl_reward_function: One of `RL_REWARDS`.
        estimated_cost: What the network costs, float scalar in the unit of the target.
        rl_cost_model_target: What it should cost, number > 0.
        rl_cost_model_exponent: β, a number, usually negative.

    Returns:
        Dict of float scalars: `rl_reward`; `rl_cost_ratio`, which is r; `rl_cost_adjustment`, the
        factor of the quality, with `abs` the summand.

    Raises:
        ValueError: If there is no such function, or the target is not positive.
    """
    parts = reward_for_cost_models(
        quality,
        rl_reward_function,
        [estimated_cost],
        [rl_cost_model_target],
        rl_cost_model_exponent,
        [1.0],
    )
    return {**parts, "rl_cost_ratio": parts["rl_cost_ratio"][0]}


def reward_for_cost_models(
    quality,
    rl_reward_function,
    estimated_costs,
    rl_cost_model_targets,
    rl_cost_model_exponent,
    cost_model_weights,
):
    """Computes the reward of a network that several costs count for.

    Args:
        quality: How good the network is, usually its accuracy, float scalar.
        rl_reward_function: One of `RL_REWARDS`.
        estimated_costs: What the network costs, a list of float scalars.
        rl_cost_model_targets: What it should cost, a list of numbers > 0 in the same units.
        rl_cost_model_exponent: β, a number, usually negative.
        cost_model_weights: How much each cost counts, a list of numbers > 0. They are not scaled;
            their sum tells how much all costs together count.

    Returns:
        Dict of `rl_reward`, float scalar; `rl_cost_ratio`, the list of r of each cost; and
        `rl_cost_adjustment`, float scalar: by all costs together, the factor of the quality, with
        `abs` the summand.

    Raises:
        ValueError: If there is no such function, or a target is not positive.
    """
    if rl_reward_function not in RL_REWARDS:
        raise ValueError(
            f"`rl_reward_function` must be one of {list(RL_REWARDS)}, but is "
            f"{rl_reward_function!r}."
        )
    for target in rl_cost_model_targets:
        if not target > 0:
            raise ValueError(f"`rl_cost_model_target` must be > 0, but is {target}.")
    quality = tf.convert_to_tensor(quality)
    ratios = [
        tf.cast(cost, quality.dtype) / target
        for cost, target in zip(estimated_costs, rl_cost_model_targets)
    ]
    exponents = [rl_cost_model_exponent * weight for weight in cost_model_weights]
    if rl_reward_function == "abs":
        parts = [exponent * tf.abs(ratio - 1) for ratio, exponent in zip(ratios, exponents)]
        adjustment = functools.reduce(operator.add, parts)
        reward = quality + adjustment
    else:
        parts = [tf.pow(ratio, exponent) for ratio, exponent in zip(ratios, exponents)]
        if rl_reward_function == "mnas_hard":
            parts = [tf.minimum(part, tf.ones_like(part)) for part in parts]
        adjustment = functools.reduce(operator.mul, parts)
        reward = quality * adjustment
    return {"rl_reward": reward, "rl_cost_ratio": ratios, "rl_cost_adjustment": adjustment}
