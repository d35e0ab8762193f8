"""The engines of `benchmarks.partitioning`, for real networks, too."""

import sys

from benchmarks import networks  # noqa: F401  Adds its models.
from replicate.bench import engines

if __name__ == "__main__":
    engines.main(sys.argv[1:])
