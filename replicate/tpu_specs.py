"""Merges the towers' `TPUEstimatorSpec`s, and makes plain `EstimatorSpec`s of them.

In a `TPUEstimatorSpec`, metrics and host calls are functions yet to be called, with the tensors
that they take. Here, too, they are called once, with the rows of all towers: so every metric covers
the whole batch, whether it adds up or not.
"""

import tensorflow.compat.v1 as tf

from replicate import specs as specs_lib
from replicate.compat import estimator

_HOST_CALLS = ("eval_metrics", "host_call")
_HOOKS = ("training_hooks", "evaluation_hooks", "prediction_hooks")
_SHARED = ("mode", "predictions", "loss", "train_op", "export_outputs", *_HOOKS)


def merge(specs, group, mode):
    """Merges one spec per tower, all `EstimatorSpec`s or all `TPUEstimatorSpec`s.

    The latter's `eval_metrics` and `host_call` get the tensors of all towers, concatenated along
    axis 0; the function is that of tower 0, as is `scaffold_fn`. All else is merged as
    `replicate.specs` does.

    Args:
        specs: N specs, in tower order.
        group: The `Towers`, built.
        mode: The mode that `model_fn` was called in.

    Returns:
        An `EstimatorSpec`.

    Raises:
        TypeError: If the towers returned specs of several kinds, or something else.
        ValueError: If the towers' specs differ in structure, a tensor for a metric or host call is
            a scalar, or a metric cannot be merged.
    """
    are_for_tpus = [estimator.is_tpu_estimator_spec(spec) for spec in specs]
    if not any(are_for_tpus):
        return specs_lib.merge(specs, group, mode)
    if not all(are_for_tpus):
        index = next(i for i, other in enumerate(are_for_tpus) if other != are_for_tpus[0])
        raise TypeError(
            "All towers must return the same kind of spec, but tower 0 returned "
            f"{type(specs[0]).__name__} and tower {index} {type(specs[index]).__name__}. Make what "
            "`model_fn` returns independent of `tower_index()`."
        )
    merged = specs_lib.merge([_without_host_calls(spec) for spec in specs], group, mode)
    with tf.device(group.consolidation_device):
        host_calls = {
            field: _merge_host_call(field, [getattr(spec, field) for spec in specs], group)
            for field in _HOST_CALLS
        }
        fields = {field: getattr(merged, field) for field in _SHARED}
        merged = as_estimator_spec(specs[0]._replace(**fields, **host_calls))
    return merged._replace(scaffold=specs_lib.complete_scaffold(merged.scaffold, group))


def as_estimator_spec(spec):
    """Returns the `EstimatorSpec` that a `TPUEstimatorSpec` stands for; anything else as it is."""
    if not estimator.is_tpu_estimator_spec(spec):
        return spec
    # Made anew, because the class itself remembers the host calls of the last spec that was made.
    return type(spec)(**spec._asdict()).as_estimator_spec()


def _without_host_calls(spec):
    return estimator.EstimatorSpec(**{field: getattr(spec, field) for field in _SHARED})


def _merge_host_call(field, calls, group):
    """Returns tower 0's function, and the tensors of all towers in the structure of tower 0's."""
    tensors = [None if call is None else by_key(call[1]) for call in calls]
    specs_lib.check_alike(field, tensors)
    if calls[0] is None:
        return None
    for key, tensor in tensors[0].items():
        check_has_rows(field, key, tensor)
    with tf.name_scope("replicate/host_call/"):
        merged = specs_lib.concat(tensors, group)
    fn, structure = calls[0]
    return fn, merged if isinstance(structure, dict) else list(merged.values())


def by_key(tensors):
    """Returns the tensors of a metric or host call, a list or dictionary, as a dictionary."""
    items = tensors.items() if isinstance(tensors, dict) else enumerate(tensors)
    return {key: tf.convert_to_tensor(tensor) for key, tensor in items}


def check_has_rows(field, key, tensor):
    """Raises a ValueError if a tensor of `eval_metrics` or `host_call` is a scalar.

    Args:
        field: Which of the two.
        key: The tensor's key or position in it.
        tensor: The tensor.
    """
    if tensor.shape.rank == 0:
        raise ValueError(
            f"The tensors of `{field}` are concatenated by rows, so they must have an axis 0, but "
            f"{key!r} is the scalar {tensor!r}. Pass `tf.reshape(tensor, [1])`, which comes out "
            "with one row per tower."
        )
