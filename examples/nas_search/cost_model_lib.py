"""The cost of a drawn network as a tensor, by a linear model on its coupled cost features.

Names are those of TuNAS (Bender, Liu et al., CVPR 2020). The features are explained in
`cost_features`, the fit of the model in `cost_fit`.
"""

import tensorflow.compat.v1 as tf

from examples.nas_search import mobile_cost_model
from examples.nas_search.costs.cost_features import coupled_tf_features, get_mask, kron

__all__ = ("coupled_tf_features", "estimate_cost", "get_mask", "kron")


def estimate_cost(features, ssd):
    """Estimates what a network costs.

    Args:
        features: Float32 [features], by `coupled_tf_features`.
        ssd: A `cost_fit.CostModel`; or the name of a space, for the MAdds on the images that it is
            usually searched for, see `mobile_cost_model.default_model`.

    Returns:
        Float32 scalar tensor, in the unit of the model: with a name, in million MAdds.

    Raises:
        ValueError: If there is no such space, or the features are of another one.
    """
    model = mobile_cost_model.default_model(ssd) if isinstance(ssd, str) else ssd
    features = tf.convert_to_tensor(features)
    if features.shape.as_list() != [len(model.kernel)]:
        raise ValueError(
            f"`features` must have the shape [{len(model.kernel)}] for the cost model of "
            f"{model.ssd!r}, but has {features.shape}. Use a model of the space of the network."
        )
    kernel = tf.constant(model.kernel, features.dtype)
    return tf.reduce_sum(features * kernel) + tf.constant(model.bias, features.dtype)
