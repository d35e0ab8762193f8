"""What `replicate_model_fn` adds to training, such that nothing is lost when it is cut short."""

from replicate.compat import estimator
from replicate.faults import accumulation_hook, loss_scale_hook
from replicate.faults.checkpoints import FallBackHook
from replicate.faults.preemption import remember


def prepare(spec, mode, config):
    """Returns a spec with which training resumes from whole checkpoints, at the step it was at.

    Args:
        spec: An `EstimatorSpec`, made in the current graph, or whatever else `model_fn` returned.
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
    return accumulation_hook.save_at_end(loss_scale_hook.end_stalled(spec), config)
