"""Finds sums over the replicas of a `model_fn` for TPU cores."""

from __future__ import annotations

from typing import Iterator

from replicate.migration.scan import tensorflow_names
from replicate.migration.scan.findings import Finding
from replicate.migration.scan.module import Module, expression

_MEANS = {
    "tpu.CrossShardOptimizer": "like `TowerOptimizer`, it takes the mean of the towers' gradients",
    "tpu.cross_replica_sum": "like `cross_tower_sum`, it adds up the towers' values",
}


def sums(module: Module) -> Iterator[Finding]:
    """Yields sums over replicas, which have a meaning on towers as well."""
    if "tpu" not in module.source.text:
        return
    for call in module.names.calls:
        rest = tensorflow_names.parse(module.names.path(call.func)).rest
        if rest in _MEANS:
            yield module.finding(
                call,
                "cross-replica",
                expression(call.func),
                f"with `replicate_model_fn(per_tower=True)`, {_MEANS[rest]}. Otherwise the model "
                "is one replica, of the whole batch, and it changes nothing.",
                needs="estimator",
            )
