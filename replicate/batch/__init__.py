"""The batch: its entries, its shards, one for each tower, and what each of them counts."""

from replicate.batch import entries, sharding, weights
from replicate.batch.sharding import PREFETCH_SCOPE, SHARD_SCOPE
from replicate.batch.weights import Weights, losses_added_up, losses_are_added_up, row_weights

__all__ = [
    "PREFETCH_SCOPE",
    "SHARD_SCOPE",
    "Weights",
    "entries",
    "losses_added_up",
    "losses_are_added_up",
    "row_weights",
    "sharding",
    "weights",
]
