"""The cost models of the search spaces: which one a search uses, and the cost it aims at."""

import os

import tensorflow.compat.v1 as tf

from examples.nas_search import cost_features, cost_fit, digits_search_space, search_spaces
from examples.nas_search import mobile_search_space_v3 as mobile

# Height, width and channels of images and the number of classes that a space is made for.
_IMAGENET = ((224, 224, 3), 1001)
_INPUTS = {digits_search_space.DIGITS_SEARCH: ((8, 8, 1), 10)}

# The network that a space is built around, which its searches are to match in cost.
_REFERENCES = {
    mobile.PROXYLESSNAS_SEARCH: mobile.PROXYLESSNAS_MOBILE,
    mobile.PROXYLESSNAS_ENLARGED_SEARCH: mobile.PROXYLESSNAS_MOBILE,
    mobile.MOBILENET_V3_LIKE_SEARCH: mobile.MOBILENET_V3_LARGE,
}

_FILE_NAME = "cost_model.json"
_MAX_ERROR = 0.005  # relative


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

    It is that of the reference network that the space is built around, ProxylessNAS-mobile or
    MobileNetV3-Large, on the same images; of a space without one, the lower quartile over
    its networks: the less a network may cost, the more its choices matter.

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
    reference = _REFERENCES.get(ssd, ssd)
    # Of a reference network, all random networks are the same.
    return _model(reference, objective, input_shape, num_classes).statistics["lower_quartile"]


def load(params):
    """Returns the cost model of a search, and keeps it beside the checkpoints.

    Args:
        params: Settings. Those used are `ssd`, `rl_cost_model_objective`, `image_shape`,
            `num_classes` and `checkpoint_dir`.

    Returns:
        A `CostModel`, that of `cost_model.json` in the checkpoint directory if there is one.

    Raises:
        ValueError: If that file is of other settings, or broken.
    """
    wanted = arguments_of(params)
    path = os.path.join(params["checkpoint_dir"], _FILE_NAME)
    if not tf.io.gfile.exists(path):
        return _fit(wanted, path)
    with tf.io.gfile.GFile(path) as file:
        text = file.read()
    try:
        model = cost_fit.from_json(text)
    except ValueError as error:
        raise ValueError(f"{error} [File {path}.]") from error
    for name, value in wanted.items():
        found = getattr(model, name)
        if found != value and not tf.train.latest_checkpoint(params["checkpoint_dir"]):
            return _fit(wanted, path)  # The file is of a search that never began.
        if found != value:
            raise ValueError(
                f"The cost model of a search must be of its settings, but {path} has {name} "
                f"{found!r} where the search has {value!r}. Search in another directory, or delete "
                "the file."
            )
    return model


def arguments_of(params):
    """Returns what `cost_fit.fit` needs for the cost model of a search with these settings."""
    return _arguments(
        params["ssd"],
        params.get("rl_cost_model_objective", "madds"),
        params["image_shape"],
        params["num_classes"],
    )


def _model(ssd, objective, input_shape, num_classes):
    default_shape, default_classes = _INPUTS.get(ssd, _IMAGENET)
    return cost_fit.fit(
        **_arguments(ssd, objective, input_shape or default_shape, num_classes or default_classes)
    )


def _arguments(ssd, objective, input_shape, num_classes):
    return {
        "ssd": ssd,
        "objective": objective,
        "input_shape": tuple(input_shape),
        "num_classes": num_classes,
    }


def _fit(arguments, path):
    """Returns a new cost model, which it keeps in a file."""
    model = cost_fit.fit(**arguments)
    _warn_of_errors(model)
    _write(path, cost_fit.to_json(model))
    return model


def _warn_of_errors(model):
    if model.statistics["max_relative_error"] > _MAX_ERROR:
        tf.logging.warning(
            "The cost model of %s is off by up to %.1f%% on networks that it was not fitted to. "
            "Raise `num_networks` of `cost_fit.fit`.",
            model.ssd,
            100 * model.statistics["max_relative_error"],
        )


def _write(path, text):
    """Writes a file at once, so that nobody reads half of it."""
    tf.io.gfile.makedirs(os.path.dirname(path))
    temporary = f"{path}.{os.getpid()}"
    with tf.io.gfile.GFile(temporary, "w") as file:
        file.write(text)
    tf.io.gfile.rename(temporary, path, overwrite=True)
