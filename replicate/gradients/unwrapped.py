"""Optimizers that nobody wrapped apply gradients of all towers, as those in a `TowerOptimizer` do.

While a model is built as towers, the outermost optimizer that is given gradients stands for a
`TowerOptimizer` without options around it; what it calls applies them as it is.
"""

from replicate import towers
from replicate.compat import graph as graph_lib
from replicate.compat import keras, tpu
from replicate.compat.interception import gradients_applied_by
from replicate.engines import tower_engine
from replicate.gradients.ancestor import Ancestor
from replicate.gradients.training_step import TrainingStep


def intercepted():
    """A scope in which optimizers meet those of the other towers, where towers are built."""
    return gradients_applied_by(_apply)


class _AsItIs:
    """An optimizer in the place of a `WrappedOptimizer`: of it, nothing is taken off."""

    loss_scale = None
    may_skip = False
    saved = None

    def __init__(self, optimizer):
        self.optimizer = optimizer


class _Unwrapped:
    """An optimizer in the place of the `TowerOptimizer` that could wrap it."""

    def __init__(self, optimizer):
        self.optimizer = tpu.without_cross_shard(optimizer)
        self.step = TrainingStep(_AsItIs(self.optimizer), None, None, 1, False, "consolidation")

    def get_name(self):
        # Some of `tf.contrib.opt` never call the constructor that gives a name.
        return getattr(self.optimizer, "_name", None) or type(self.optimizer).__name__


def _apply(original, optimizer, grads_and_vars, *args, **kwargs):
    group = towers.current()
    # An `Ancestor` is a `TowerOptimizer`, which gathers by itself.
    inner = group is None or group.merging or isinstance(optimizer, Ancestor)
    # In a condition, only gradients that were gathered already can be applied, by one for all.
    if inner or graph_lib.in_control_flow(group.graph):
        return original(optimizer, grads_and_vars, *args, **kwargs)
    keras.check_updates(optimizer)
    engine = tower_engine.TowerEngine(group)
    return engine.apply_gradients(_Unwrapped(optimizer), list(grads_and_vars), args, kwargs)
