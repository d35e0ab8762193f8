"""The reward of a network: its quality, adjusted by what it costs.

With quality q, estimated cost c, target t, exponent β, and the *cost ratio* r = c / t:

    mnas        q · r^β             smooth trade-off (MnasNet, Tan et al., CVPR 2019)
    mnas_hard   q · min(r^β, 1)     for β < 0 nothing is gained by being cheaper than the target
    abs         q + β · |r − 1|     the absolute reward of TuNAS (Bender, Liu et al., CVPR 2020):
                                    penalises either side of the target, so that the search meets it
"""

import tensorflow.compat.v1 as tf

REWARD_FUNCTIONS = ("abs", "mnas", "mnas_hard")


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
        rl_reward_function: One of `REWARD_FUNCTIONS`.
        estimated_cost: What the network costs, float scalar in the unit of the target.
        rl_cost_model_target: What it should cost, number > 0.
        rl_cost_model_exponent: β, a number, usually negative.

    Returns:
        Dict of float scalars: `rl_reward`; `rl_cost_ratio`, which is r; `rl_cost_adjustment`, the
        factor of the quality, with `abs` the summand.

    Raises:
        ValueError: If there is no such function, or the target is not positive.
    """
    if rl_reward_function not in REWARD_FUNCTIONS:
        raise ValueError(
            f"`rl_reward_function` must be one of {list(REWARD_FUNCTIONS)}, but is "
            f"{rl_reward_function!r}."
        )
    if not rl_cost_model_target > 0:
        raise ValueError(f"`rl_cost_model_target` must be > 0, but is {rl_cost_model_target}.")
    quality = tf.convert_to_tensor(quality)
    ratio = tf.cast(estimated_cost, quality.dtype) / rl_cost_model_target
    if rl_reward_function == "abs":
        adjustment = rl_cost_model_exponent * tf.abs(ratio - 1)
        reward = quality + adjustment
    else:
        adjustment = tf.pow(ratio, rl_cost_model_exponent)
        if rl_reward_function == "mnas_hard":
            adjustment = tf.minimum(adjustment, tf.ones_like(adjustment))
        reward = quality * adjustment
    return {"rl_reward": reward, "rl_cost_ratio": ratio, "rl_cost_adjustment": adjustment}
