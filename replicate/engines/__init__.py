"""Runs the copies of a model behind one interface: as towers, TPU cores or replicas, or alone."""

from replicate.engines import context, finite, tower_engine, tpu_training
from replicate.engines.accumulators import make_variable
from replicate.engines.context import merge_call, num_towers, tower_index
from replicate.engines.per_tower import PerTower

__all__ = [
    "PerTower",
    "context",
    "finite",
    "make_variable",
    "merge_call",
    "num_towers",
    "tower_engine",
    "tower_index",
    "tpu_training",
]
