"""The Estimator API to use: `replicate.estimator.Estimator`, `.RunConfig`, `.EstimatorSpec`, ...

TensorFlow 1.15 to 2.15 carry it as `tf.compat.v1.estimator`. Newer ones do not; there it is brought
back from the package tensorflow-estimator when one of its names is first asked for.
"""

import functools
import sys

import tensorflow.compat.v1 as tf

from replicate.compat import environment


@functools.lru_cache(maxsize=None)
def api():
    """Returns the module that holds the API.

    Raises:
        ImportError: If the Estimator cannot work in this process. The message says what to run.
    """
    environment.check_estimator()
    if hasattr(tf, "estimator"):
        return tf.estimator
    from replicate.compat import revival

    return revival.estimator()


def offered():
    """Returns what `replicate.estimator` is: something with all names of the API.

    TensorFlow 1's own; of newer ones this module, which looks first whether they can work.
    """
    return tf.estimator if environment.is_1(tf.__version__) else sys.modules[__name__]


def __getattr__(name):
    if name.startswith("__"):  # Python's own questions must not bring it to life.
        raise AttributeError(name)
    return getattr(api(), name)


def __dir__():
    return dir(api())


def source():
    """Returns where the Estimator comes from, for people to read."""
    version = environment.version_of("tensorflow-estimator")
    if (environment.parse(tf.__version__) or (0,)) < environment.FIRST_WITHOUT_ESTIMATOR:
        return f"tf.estimator, from tensorflow-estimator {version}"
    return f"brought back from tensorflow-estimator {version}"


def is_estimator_spec(value):
    """Whether `value` is an `EstimatorSpec`."""
    return isinstance(value, api().EstimatorSpec)


def is_tpu_estimator_spec(value):
    """Whether `value` is a `TPUEstimatorSpec`, or the simpler one that Estimator's heads make."""
    return hasattr(value, "as_estimator_spec")  # Naming their classes would log deprecations.


def is_exporting():
    """Whether an Estimator is building the graph of a SavedModel right now.

    Estimator gives `model_fn` no sign of it, in no mode: the only difference is who calls, and a
    SavedModel with towers in it would not be portable. So this looks for the method that builds
    the graphs of a SavedModel among the callers.
    """
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_add_meta_graph_for_mode" and "estimator" in code.co_filename:
            return True
        frame = frame.f_back
    return False


def start_as(model_fn, config):
    """Starts from what the Estimator starts from that `model_fn` was taken of, as that does.

    Args:
        model_fn: Any function.
        config: The `RunConfig`, or None.
    """
    settings = start_left_behind(model_fn)
    model_dir = getattr(config, "model_dir", None)
    if settings is None or model_dir is None or is_exporting():
        return
    if not tf.train.latest_checkpoint(model_dir):
        tf.train.warm_start(*settings)


def start_left_behind(model_fn):
    """Returns the `WarmStartSettings` of the Estimator whose `model_fn` this is, None if none.

    `Estimator.model_fn` is a function that closes over the Estimator, but does not start from what
    that starts from: the weights of its Keras model, for one of `model_to_estimator`.
    """
    if getattr(model_fn, "__qualname__", "") != "Estimator.model_fn.<locals>.public_model_fn":
        return None
    owners = [cell.cell_contents for cell in model_fn.__closure__ or ()]
    owners = [owner for owner in owners if isinstance(owner, api().Estimator)]
    return getattr(owners[0], "_warm_start_settings", None) if owners else None
