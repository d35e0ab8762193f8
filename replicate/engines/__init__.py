"""What runs the copies of a model, behind one interface: towers, TPU cores, replicas, nothing."""

from replicate.engines import context, finite, tower_engine, tpu_specs, tpu_training
from replicate.engines.accumulators import make_variables
from replicate.engines.context import merge_call, num_towers, tower_index

__all__ = [
    "context",
    "finite",
    "make_variables",
    "merge_call",
    "num_towers",
    "tower_engine",
    "tower_index",
    "tpu_specs",
    "tpu_training",
]
