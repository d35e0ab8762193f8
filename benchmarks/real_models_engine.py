"""The engines of `benchmarks.real_models`: those of `replicate.bench`, and other placements."""

import functools
import sys

from benchmarks import networks  # noqa: F401  Adds its models.
from replicate.bench import choices, engines

PLACEMENTS = {"replicate, in turn": "round_robin", "replicated": "replicated_in_turn"}


def _placed(case, devices, choice, name):
    del choice
    return engines.ENGINES["replicate"](case, devices, choices.CHOICES[name])


for title, name in PLACEMENTS.items():
    engines.ENGINES[title] = functools.partial(_placed, name=name)

if __name__ == "__main__":
    engines.main(sys.argv[1:])
