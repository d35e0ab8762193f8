"""Saves gradients that are still being accumulated when training ends.

An Estimator saves at the end of training unless it has at this global step, which does not change
while gradients are accumulated.
"""

import os

import tensorflow.compat.v1 as tf

from replicate.accumulation import COUNTERS


def save_at_end(spec, config):
    """Returns a spec for training that loses nothing of what it accumulates.

    Args:
        spec: An `EstimatorSpec`, made in the current graph.
        config: The `RunConfig`, or None.
    """
    counters = tf.get_collection(COUNTERS)
    saves = (
        getattr(config, "save_checkpoints_steps", None),
        getattr(config, "save_checkpoints_secs", None),
    )
    if not counters or saves == (None, None) or not config.model_dir:
        return spec
    hook = _SaveHook(counters, spec.scaffold, config.model_dir)
    return spec._replace(training_chief_hooks=(*spec.training_chief_hooks, hook))


class _SaveHook(tf.train.SessionRunHook):
    """Saves at the end if the last checkpoint knows of fewer batches."""

    def __init__(self, counters, scaffold, model_dir):
        self._counters = {counter.op.name: counter for counter in counters}
        self._scaffold = scaffold
        self._model_dir = model_dir

    def begin(self):
        """Finds the global step."""
        self._global_step = tf.train.get_global_step()

    def end(self, session):
        """Saves, if anything would be lost."""
        step, counts = session.run([self._global_step, self._counters])
        if not any(counts.values()):
            return
        saved = tf.train.latest_checkpoint(self._model_dir)
        if saved is not None:
            reader = tf.train.load_checkpoint(saved)
            names = [self._global_step.op.name, *counts]
            if not all(reader.has_tensor(name) for name in names):
                return  # A saver of the user leaves them out.
            if [reader.get_tensor(name) for name in names] == [step, *counts.values()]:
                return
        path = os.path.join(self._model_dir, "model.ckpt")
        self._scaffold.saver.save(session, path, global_step=step)
