"""The batch: its entries, and its shards, one for each tower."""

from replicate.batch import entries, loss_sums, other_sizes, prefetching, sharding
from replicate.batch.loss_sums import losses_added_up, losses_are_added_up
from replicate.batch.row_counts import rows_per_shard
from replicate.batch.sharding import PREFETCH_SCOPE, SHARD_SCOPE

__all__ = [
    "PREFETCH_SCOPE",
    "SHARD_SCOPE",
    "entries",
    "loss_sums",
    "losses_added_up",
    "losses_are_added_up",
    "other_sizes",
    "prefetching",
    "rows_per_shard",
    "sharding",
]
