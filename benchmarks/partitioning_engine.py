"""The engines of `benchmarks.partitioning`, for real networks, too."""

import sys

from benchmarks import networks  # noqa: F401  Adds its models.
from replicate.bench import engines

_EXACT = {"replicate_model_fn": {"batch_norm": "batch", "random": "batch"}}


def _exact(case, devices, choice):
    """One device's moments and random numbers."""
    return engines.ENGINES["replicate"](case, devices, {**choice, **_EXACT})


engines.ENGINES["exact"] = _exact

if __name__ == "__main__":
    engines.main(sys.argv[1:])
