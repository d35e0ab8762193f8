"""Merges the towers' `TPUEstimatorSpec`s, and makes plain `EstimatorSpec`s of them.

In a `TPUEstimatorSpec`, metrics and host calls are functions yet to be called, with the tensors
that they take. Here, too, they are called once, with the rows of all towers: so every metric covers
the whole batch, whether it adds up or not.
"""

import tensorflow.compat.v1 as tf

from replicate.compat import estimator
from replicate.towers import specs as specs_lib

_HOST_CALLS = ("eval_metrics", "host_call")
_HOOKS = ("training_hooks", "evaluation_hooks", "prediction_hooks")
_SHARED = ("mode", "predictions", "loss", "train_op", "export_outputs", *_HOOKS)


def merge(spec, group, mode):
    """Returns the `EstimatorSpec` of all towers, made of tower 0's spec.

    `eval_metrics` and `host_call` of a `TPUEstimatorSpec` get the tensors of all towers,
    concatenated along axis 0. All else is merged as `replicate.towers.specs` does.

    Args:
        spec: Tower 0's `EstimatorSpec` or `TPUEstimatorSpec`.
        group: The `Towers`, the model built.
        mode: The mode that `model_fn` was called in.

    Returns:
        An `EstimatorSpec`, complete when the towers are finished.

    Raises:
        TypeError: If `spec` is something else.
        ValueError: If a tensor for a metric or host call is a scalar, or an update or a metric
            cannot be merged.
    """
    if not estimator.is_tpu_estimator_spec(spec):
        return specs_lib.merge(spec, group, mode)
    merged = specs_lib.merge(_without_host_calls(spec), group, mode)
    with group.once():
        host_calls = {
            field: _merge_host_call(field, getattr(spec, field), group) for field in _HOST_CALLS
        }
        fields = {field: getattr(merged, field) for field in _SHARED}
        return as_estimator_spec(spec._replace(**fields, **host_calls))


def as_estimator_spec(spec):
    """Returns the `EstimatorSpec` that a `TPUEstimatorSpec` stands for; anything else as it is."""
    if not estimator.is_tpu_estimator_spec(spec):
        return spec
    # Made anew, because the class itself remembers the host calls of the last spec that was made.
    return type(spec)(**spec._asdict()).as_estimator_spec()


def _without_host_calls(spec):
    return estimator.EstimatorSpec(**{field: getattr(spec, field) for field in _SHARED})


def _merge_host_call(field, call, group):
    """Returns the function, and the tensors of all towers in the structure of tower 0's."""
    if call is None:
        return None
    fn, structure = call
    tensors = by_key(structure)
    for key, tensor in tensors.items():
        check_has_rows(field, key, tensor)
    with tf.name_scope("replicate/host_call/"):
        merged = {key: specs_lib.concat_all(tensor, group) for key, tensor in tensors.items()}
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
