"""What checkpoints need and has no public name."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf


def track(holder, value, name):
    """Lets object-based checkpoints of an object hold `value`, under a name of its own.

    Args:
        holder: A `tf.Module`, which by itself holds its attributes under their names.
        value: A variable.
        name: The name. What had it before gives way, such as a variable of another graph.
    """
    holder._track_trackable(value, name, overwrite=True)


def set_initializer(variable, initializer):
    """Makes `initializer` the operation that initialises `variable`."""
    variable._initializer_op = initializer


class Wrapper(tf.train.Optimizer):
    """An optimizer in whose place object-based checkpoints hold the one that it wraps.

    A subclass answers with the slots of that one.
    """

    _in_checkpoints = None
    _manual_tracking = True  # Which TensorFlow asks for; what is wrapped is not to be asked.

    def stand_for(self, optimizer: Any, child: tf.Module) -> None:
        """Makes object-based checkpoints of this hold what those of `optimizer` would.

        Args:
            optimizer: The wrapped optimizer, None if it is not known.
            child: What they hold besides, as `child`.
        """
        if isinstance(optimizer, tf.train.Optimizer):
            optimizer._maybe_initialize_trackable()
            self._in_checkpoints = optimizer
        self._track_trackable(child, "replicate")

    def _delegate(self):
        return super() if self._in_checkpoints is None else self._in_checkpoints

    def _restore_slot_variable(self, *args, **kwargs):
        return self._delegate()._restore_slot_variable(*args, **kwargs)

    def _create_or_restore_slot_variable(self, *args, **kwargs):
        return self._delegate()._create_or_restore_slot_variable(*args, **kwargs)

    @property
    def _deferred_dependencies(self):
        return self._delegate()._deferred_dependencies

    def _trackable_children(self, *args, **kwargs):
        children = super()._trackable_children(*args, **kwargs)
        if self._in_checkpoints is not None:
            children.update(self._in_checkpoints._trackable_children(*args, **kwargs))
        return children

    @property
    def _checkpoint_dependencies(self):
        """What `_trackable_children` is in TensorFlows older than 2.8."""
        own = list(super()._checkpoint_dependencies)
        if self._in_checkpoints is None:
            return own
        names = {reference.name for reference in own}
        others = self._in_checkpoints._checkpoint_dependencies
        return own + [reference for reference in others if reference.name not in names]

    def _lookup_dependency(self, *args, **kwargs):
        found = super()._lookup_dependency(*args, **kwargs)
        if found is None and self._in_checkpoints is not None:
            found = self._in_checkpoints._lookup_dependency(*args, **kwargs)
        return found
