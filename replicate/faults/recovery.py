"""Adds hooks to training so that nothing is lost when it is cut short."""

from __future__ import annotations

from typing import Any

from replicate.compat import estimator
from replicate.faults import accumulation_hook, loss_scale_hook
from replicate.faults.cancelled_steps import CancelledStepHook
from replicate.faults.checkpoints import FallBackHook
from replicate.faults.preemption import remember


def prepare(spec: Any, mode: str | None, config: Any) -> Any:
    """Returns a spec whose training resumes from whole checkpoints, at the step it was at.

    Args:
        spec: The result of `model_fn`, usually an `EstimatorSpec`, made in the current graph.
            Anything else is returned as it is.
        mode: The mode that `model_fn` was called in.
        config: The `RunConfig`, or None.
    """
    model_dir = getattr(config, "model_dir", None)
    trains = mode == estimator.ModeKeys.TRAIN and estimator.is_estimator_spec(spec)
    if not (trains and model_dir):
        return spec
    remember(spec.scaffold, config)
    hook = FallBackHook(model_dir)
    spec = spec._replace(training_chief_hooks=(*spec.training_chief_hooks, hook))
    if config.cluster_spec:
        spec = spec._replace(training_hooks=(*spec.training_hooks, CancelledStepHook()))
    return accumulation_hook.save_at_end(loss_scale_hook.end_stalled(spec), config)
