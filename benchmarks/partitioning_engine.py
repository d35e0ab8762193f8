"""The engines of `benchmarks.partitioning`, for real networks, too."""

import sys

import tensorflow.compat.v1 as tf

from benchmarks import networks  # noqa: F401  Adds its models.
from replicate.bench import engines

_EXACT = {"replicate_model_fn": {"batch_norm": "batch", "random": "batch"}}


def _exact(case, devices, choice):
    """One device's moments and random numbers."""
    return engines.ENGINES["replicate"](case, devices, {**choice, **_EXACT})


def _plain_session(case, devices, choice):
    """A session as users have it who have not heard of `replicate.session_config`."""
    model_fn, config, shares = engines.ENGINES["replicate"](case, devices, choice)
    plain = tf.ConfigProto(allow_soft_placement=True, device_count={"CPU": len(devices)})
    return model_fn, config.replace(session_config=plain), shares


engines.ENGINES["exact"] = _exact
engines.ENGINES["plain_session"] = _plain_session

if __name__ == "__main__":
    engines.main(sys.argv[1:])
