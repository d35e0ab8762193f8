"""The engines of `benchmarks.mechanisms`: `replicate` by copies, and by partitioning."""

import os
import sys

from benchmarks import networks  # noqa: F401  Adds its models.
from replicate.bench import engines


def _partitioned(case, devices, choice):
    os.environ["REPLICATE_PARTITION"] = "1"
    return engines.ENGINES["replicate"](case, devices, choice)


engines.ENGINES["partitioned"] = _partitioned

if __name__ == "__main__":
    engines.main(sys.argv[1:])
