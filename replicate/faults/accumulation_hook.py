"""Saves gradients that are still being accumulated when training ends.

At the end of training, an Estimator saves only if it has not saved at this global step, and the
step does not change while gradients are accumulated.
"""

from __future__ import annotations

import os
from typing import Any

import tensorflow.compat.v1 as tf

COUNTERS = "replicate/accumulated_batches"
"""Collection of variables that hold the number of batches since the last update."""


def save_at_end(spec: Any, config: Any) -> Any:
    """Returns a spec for training that loses no accumulated gradients.

    Args:
        spec: An `EstimatorSpec`, made in the current graph.
        config: The `RunConfig`, or None.
    """
    counters = tf.get_collection(COUNTERS)
    saves = (
        getattr(config, "save_checkpoints_steps", None),
        getattr(config, "save_checkpoints_secs", None),
    )
    # Nothing to save, or a user who wants no checkpoints.
    if not counters or saves == (None, None) or not config.model_dir:
        return spec
    hook = _SaveHook(spec.scaffold, config.model_dir)
    return spec._replace(training_chief_hooks=(*spec.training_chief_hooks, hook))


class _SaveHook(tf.train.SessionRunHook):
    """Saves at the end if the last checkpoint has fewer batches."""

    def __init__(self, scaffold: Any, model_dir: str) -> None:
        self._scaffold = scaffold
        self._model_dir = model_dir

    def begin(self) -> None:
        """Finds the global step."""
        self._global_step = tf.train.get_global_step()

    def end(self, session: Any) -> None:
        """Saves, if gradients would be lost otherwise."""
        step, is_saved = progress(session, self._global_step, self._model_dir)
        if not is_saved and any(session.run(tf.get_collection(COUNTERS))):
            path = os.path.join(self._model_dir, "model.ckpt")
            self._scaffold.saver.save(session, path, global_step=step)


def progress(session: Any, global_step: Any, model_dir: str) -> tuple[int, bool]:
    """Returns the global step, and whether the last checkpoint has all batches until now.

    Args:
        session: The session of the current graph.
        global_step: The variable or tensor.
        model_dir: The directory of checkpoints.
    """
    counters = {counter.op.name: counter for counter in tf.get_collection(COUNTERS)}
    step, counts = session.run([global_step, counters])
    saved = tf.train.latest_checkpoint(model_dir)
    if saved is None:
        return step, False
    reader = tf.train.load_checkpoint(saved)
    name = global_step.op.name
    if not reader.has_tensor(name) or reader.get_tensor(name) != step:
        return step, False
    # A user's saver may leave counters out.
    known = {name: count for name, count in counts.items() if reader.has_tensor(name)}
    return step, all(reader.get_tensor(name) == count for name, count in known.items())
