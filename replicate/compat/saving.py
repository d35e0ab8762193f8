"""Functions for checkpoints that have no public name in TensorFlow."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf


def track(holder: tf.Module, value: tf.Variable, name: str) -> None:
    """Adds a variable to object-based checkpoints of an object.

    Args:
        holder: A `tf.Module`, whose attributes are in its checkpoints anyway, under their names.
        value: A variable.
        name: Name of the variable in the checkpoints. It replaces an earlier variable of the same
            name, such as one of another graph.
    """
    holder._track_trackable(value, name, overwrite=True)


def set_initializer(variable: tf.Variable, initializer: tf.Operation) -> None:
    """Makes `initializer` the operation that initializes `variable`."""
    variable._initializer_op = initializer


class Wrapper(tf.train.Optimizer):
    """An optimizer whose object-based checkpoints equal those of the optimizer that it wraps.

    Subclasses return the slots of the wrapped optimizer.
    """

    _in_checkpoints: Any = None
    _manual_tracking = True  # TensorFlow reads it; defined here, so it is not delegated.

    def stand_for(self, optimizer: Any, child: tf.Module) -> None:
        """Makes object-based checkpoints of this equal those of `optimizer`.

        Args:
            optimizer: The wrapped optimizer, None if it is not known.
            child: A module that they hold as well, under the name `replicate`.
        """
        if isinstance(optimizer, tf.train.Optimizer):
            optimizer._maybe_initialize_trackable()
            self._in_checkpoints = optimizer
        self._track_trackable(child, "replicate")

    def _delegate(self) -> Any:
        return super() if self._in_checkpoints is None else self._in_checkpoints

    def _restore_slot_variable(self, *args: Any, **kwargs: Any) -> Any:
        return self._delegate()._restore_slot_variable(*args, **kwargs)

    def _create_or_restore_slot_variable(self, *args: Any, **kwargs: Any) -> Any:
        return self._delegate()._create_or_restore_slot_variable(*args, **kwargs)

    @property
    def _deferred_dependencies(self) -> Any:
        return self._delegate()._deferred_dependencies

    def _trackable_children(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        children = super()._trackable_children(*args, **kwargs)
        if self._in_checkpoints is not None:
            children.update(self._in_checkpoints._trackable_children(*args, **kwargs))
        return children

    @property
    def _checkpoint_dependencies(self) -> list[Any]:
        """The counterpart of `_trackable_children` in TensorFlow before 2.8."""
        ours = list(super()._checkpoint_dependencies)
        if self._in_checkpoints is None:
            return ours
        names = {reference.name for reference in ours}
        others = self._in_checkpoints._checkpoint_dependencies
        return ours + [reference for reference in others if reference.name not in names]

    def _lookup_dependency(self, *args: Any, **kwargs: Any) -> Any:
        found = super()._lookup_dependency(*args, **kwargs)
        if found is None and self._in_checkpoints is not None:
            found = self._in_checkpoints._lookup_dependency(*args, **kwargs)
        return found
