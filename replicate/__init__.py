"""Trains a TensorFlow Estimator's `model_fn` on every accelerator of a host."""

from typing import TYPE_CHECKING

from replicate.compat import environment

environment.check_packages()  # Before TensorFlow is imported: it may be what is missing.

from replicate import compat, hooks, loss_scale, metrics
from replicate.comparing import Comparison, compare
from replicate.compat import estimator as _estimator
from replicate.cross_tower import cross_tower_mean, cross_tower_sum
from replicate.devices import session_config
from replicate.engines import PerTower, merge_call, num_towers, tower_index
from replicate.faults import checkpoints
from replicate.gathering import Gather
from replicate.model_fn import replicate_model_fn
from replicate.normalization import BatchNormalization, batch_normalization
from replicate.reports import tower_report
from replicate.tower_optimizer import TowerOptimizer
from replicate.version import __version__

if TYPE_CHECKING:
    from tensorflow.compat.v1 import estimator  # So that its classes are types.
else:
    estimator = _estimator.offered()

compat.offer(replicate_model_fn=replicate_model_fn, TowerOptimizer=TowerOptimizer)

__all__ = (
    "BatchNormalization",
    "Comparison",
    "Gather",
    "PerTower",
    "TowerOptimizer",
    "__version__",
    "batch_normalization",
    "checkpoints",
    "compare",
    "compat",
    "cross_tower_mean",
    "cross_tower_sum",
    "estimator",
    "hooks",
    "loss_scale",
    "merge_call",
    "metrics",
    "num_towers",
    "replicate_model_fn",
    "session_config",
    "tower_index",
    "tower_report",
)
