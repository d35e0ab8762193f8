"""Trains a TensorFlow Estimator's `model_fn` on every accelerator of a host."""

from replicate.compat import environment

environment.check_packages()  # Before TensorFlow is imported: it may be what is missing.

from replicate import checkpoints, compat, hooks, loss_scale, metrics
from replicate.comparing.comparison import Comparison
from replicate.comparing.flow import compare
from replicate.compat import estimator as _estimator
from replicate.context import merge_call, num_towers, tower_index
from replicate.cross_tower import cross_tower_mean, cross_tower_sum
from replicate.devices import session_config
from replicate.engine import PerTower
from replicate.gather import Gather
from replicate.model_fn import replicate_model_fn
from replicate.normalization import BatchNormalization, batch_normalization
from replicate.report import tower_report
from replicate.tower_optimizer import TowerOptimizer
from replicate.version import __version__
from replicate.whole_gradients import own_gradients

estimator = _estimator.offered()

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
    "own_gradients",
    "replicate_model_fn",
    "session_config",
    "tower_index",
    "tower_report",
)
