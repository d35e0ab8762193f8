"""Trains a TensorFlow Estimator's `model_fn` on every accelerator of a host.

TensorFlow is imported at the first access to a name that needs it.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any, Sequence

from replicate import compat
from replicate.compat import environment, renamed
from replicate.version import __version__

if TYPE_CHECKING:
    from tensorflow.compat.v1 import estimator  # Lets type checkers see its classes as types.

    from replicate import hooks, loss_scale, metrics
    from replicate.comparing import Comparison, compare
    from replicate.cross_tower import cross_tower_mean, cross_tower_sum
    from replicate.devices import session_config
    from replicate.engines import PerTower, merge_call, num_towers, tower_index
    from replicate.faults import checkpoints
    from replicate.model_fn import replicate_model_fn
    from replicate.normalization import BatchNormalization, batch_normalization
    from replicate.reduction import Reduction
    from replicate.reports import tower_report
    from replicate.tower_optimizer import TowerOptimizer

__all__ = (
    "BatchNormalization",
    "Comparison",
    "PerTower",
    "Reduction",
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
# The module that defines each name; "" if the name is a module itself.
_MODULES = {
    "BatchNormalization": "normalization",
    "Comparison": "comparing",
    "PerTower": "engines",
    "Reduction": "reduction",
    "TowerOptimizer": "tower_optimizer",
    "batch_normalization": "normalization",
    "checkpoints": "faults",
    "compare": "comparing",
    "cross_tower_mean": "cross_tower",
    "cross_tower_sum": "cross_tower",
    "estimator": "compat.estimator",
    "hooks": "",
    "loss_scale": "",
    "merge_call": "engines",
    "metrics": "",
    "num_towers": "engines",
    "replicate_model_fn": "model_fn",
    "session_config": "devices",
    "tower_index": "engines",
    "tower_report": "reports",
}
_RENAMED = {"Gather": "Reduction"}  # New names by old ones.
_ENDED = {  # Names of version 0.1.0, and the way out.
    "own_gradients": (
        "`replicate.own_gradients()` ended with 0.2.0: gradients that a `model_fn` takes are one "
        "device's. Leave it out; or, for gradients of the rows of one tower, write the program of "
        "one tower: `replicate_model_fn(model_fn, per_tower=True)`."
    ),
}

if not TYPE_CHECKING:  # A type checker that sees `__getattr__` accepts any name.

    def __getattr__(name: str) -> Any:
        if name in _RENAMED:
            new = _RENAMED[name]
            renamed.warn(f"{__name__}.{name}", f"{__name__}.{new}")
            globals()[name] = getattr(sys.modules[__name__], new)
            return globals()[name]
        if name in _ENDED:
            raise AttributeError(_ENDED[name])
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if "tensorflow" not in sys.modules:  # A better error than a failing import of it.
            environment.check_packages()
        module = importlib.import_module(f"{__name__}.{_MODULES[name] or name}")
        if name == "estimator":
            found = module.offered()
        else:
            found = getattr(module, name) if _MODULES[name] else module
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _install(replace_ancestor: bool, tensorflow_1: bool | Sequence[str]) -> None:
    from replicate.migration import installation

    module = sys.modules[__name__]
    ancestors = {name: getattr(module, name) for name in ("replicate_model_fn", "TowerOptimizer")}
    installation.install(replace_ancestor, tensorflow_1, ancestors)


compat.install_by(_install)
