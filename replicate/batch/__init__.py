"""The batch: its entries, and its shards, one for each tower."""

from replicate.batch import entries, prefetching, sharding, weights
from replicate.batch.initialising import OF_SESSION, initialising
from replicate.batch.row_counts import rows_per_shard
from replicate.batch.sharding import PREFETCH_SCOPE, SHARD_SCOPE
from replicate.batch.weights import losses_added_up, losses_are_added_up

__all__ = [
    "OF_SESSION",
    "PREFETCH_SCOPE",
    "SHARD_SCOPE",
    "entries",
    "initialising",
    "losses_added_up",
    "losses_are_added_up",
    "prefetching",
    "rows_per_shard",
    "sharding",
    "weights",
]
