"""The cost models of the search spaces on the images that they are made for, and usual targets."""

from examples.nas_search import mobile_search_space_v3 as mobile
from examples.nas_search.costs import cost_features, cost_fit
from examples.nas_search.costs.cost_features import (  # noqa: F401  (users know it from here)
    coupled_tf_features,
)
from examples.nas_search.spaces import (
    cifar10_search_space,
    digits_search_space,
    mnist_search_space,
    pulses_search_space,
    search_spaces,
)

# Height, width and channels of images and the number of classes that a space is made for.
_IMAGENET = ((224, 224, 3), 1001)
_CIFAR10 = ((32, 32, 3), 10)
_INPUTS = {
    digits_search_space.DIGITS_SEARCH: ((8, 8, 1), 10),
    mnist_search_space.MNIST_SEARCH: ((28, 28, 1), 10),
    pulses_search_space.PULSES_SEARCH: ((1, 128, 1), 20),
    cifar10_search_space.CIFAR10_SEARCH: _CIFAR10,
    cifar10_search_space.CIFAR10_MOBILENET_V2: _CIFAR10,
    cifar10_search_space.CIFAR10_PROXYLESSNAS: _CIFAR10,
}

# The network that a space is built around, which its searches are to match in cost.
_REFERENCES = {
    mobile.PROXYLESSNAS_SEARCH: mobile.PROXYLESSNAS_MOBILE,
    mobile.PROXYLESSNAS_ENLARGED_SEARCH: mobile.PROXYLESSNAS_MOBILE,
    mobile.MOBILENET_V3_LIKE_SEARCH: mobile.MOBILENET_V3_LARGE,
    cifar10_search_space.CIFAR10_SEARCH: cifar10_search_space.CIFAR10_PROXYLESSNAS,
}


def inputs_of(ssd):
    """Returns what a space is made for: shape of an image, a tuple of ints, number of classes."""
    return _INPUTS.get(ssd, _IMAGENET)


def reference_of(ssd):
    """Returns the name of the network that a space is built around, None if there is none."""
    return _REFERENCES.get(ssd)


def default_model(ssd):
    """Returns the `CostModel` of the MAdds of a space, on the images that it is made for.

    Raises:
        ValueError: If there is no such space.
    """
    return _model(ssd, "madds", None, None)


def estimate_cost(indices, ssd, cost_model=None):
    """Estimates what a network costs; no session is needed.

    Args:
        indices: The option of each choice of the space in visiting order, a sequence of ints.
        ssd: Name of the space.
        cost_model: A `CostModel` of the space. None: `default_model(ssd)`.

    Returns:
        Float, in the unit of the model, by default in million MAdds.

    Raises:
        ValueError: If there is no such space, or `indices` does not fit it.
    """
    spec = search_spaces.get_search_space_spec(ssd)
    _, positions = cost_features.feature_positions(spec, [list(indices)])
    return float((cost_model or default_model(ssd)).estimate(positions)[0])


def target_cost(ssd, input_shape=None, num_classes=None, objective="madds"):
    """Returns the cost that a search aims at unless told otherwise.

    It is that of the reference network that the space is built around, ProxylessNAS-mobile, for
    small images too, or MobileNetV3-Large, on the same images; of a space without one, the lower
    quartile over its networks: the less a network may cost, the more its choices matter.

    Args:
        ssd: Name of the space.
        input_shape: Height, width and channels of an image. None: those the space is made for.
        num_classes: Number of outputs of the classifier. None: likewise.
        objective: Key of `cost_fit.OBJECTIVES`.

    Returns:
        Float, in the unit of the objective, by default in million MAdds.

    Raises:
        ValueError: If there is no such space or objective.
    """
    reference = reference_of(ssd) or ssd
    # Of a reference network, all random networks are the same.
    return _model(reference, objective, input_shape, num_classes).statistics["lower_quartile"]


def target_of(model):
    """Returns the cost that a search with a `CostModel` aims at unless told otherwise.

    That is `target_cost`; of a measured model it is the measured latency of the reference network,
    of a space without one the lower quartile of the measured networks.
    """
    if model.measurement is None:
        return target_cost(model.ssd, model.input_shape, model.num_classes, model.objective)
    if reference_of(model.ssd):
        return model.measurement["reference_latency"]
    return model.statistics["lower_quartile"]


def _model(ssd, objective, input_shape, num_classes):
    usual_shape, usual_classes = inputs_of(ssd)
    return cost_fit.fit(
        ssd,
        objective,
        input_shape=tuple(input_shape or usual_shape),
        num_classes=num_classes or usual_classes,
    )
