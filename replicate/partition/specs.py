"""Maps the tensors of an `EstimatorSpec`, and checks it."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import estimator

LOSS = "replicate/loss"  # Name of the operation that returns the loss.

_ASKED = (tf.Tensor, tf.Operation)
_HOST_CALLS = ("eval_metrics", "host_call")


def checked(spec: Any) -> Any:
    """Returns the result of a `model_fn`; raises a TypeError if it is no `EstimatorSpec`."""
    if not estimator.is_estimator_spec(spec):
        raise TypeError(
            f"`model_fn` must return a `tf.estimator.EstimatorSpec`, but returned {spec!r}. If it "
            "makes a spec of another kind, convert it before returning."
        )
    return spec


def name_loss(spec: Any) -> None:
    """Gives the loss of all rows the name by which hooks find it."""
    if spec.loss is not None:
        with tf.name_scope(None), tf.device(spec.loss.device):
            tf.identity(spec.loss, name=LOSS)


def asked_of(spec: Any, is_trained: bool) -> list[Any]:
    """Returns the tensors and operations of a spec that are run; in training, those of a step."""
    given = [spec.loss, spec.train_op]
    if not is_trained:
        given += [spec.predictions, *(spec.eval_metric_ops or {}).values()]
    return [leaf for leaf in _leaves(given) if isinstance(leaf, _ASKED)]


def map_tensors(
    spec: Any, function: Callable[[Any], Any], of_loss: Callable[[Any], Any] | None = None
) -> Any:
    """Returns a spec with a function applied to the tensors and operations that are run.

    Args:
        spec: The spec.
        function: Function of a tensor, or an operation, that returns another one.
        of_loss: The function for the loss; None: the same.
    """

    def made_of(value: Any, function: Callable[[Any], Any] = function) -> Any:
        if value is None:
            return None
        leaves = _leaves(value)
        leaves = [function(leaf) if isinstance(leaf, _ASKED) else leaf for leaf in leaves]
        return tf.nest.pack_sequence_as(value, leaves, expand_composites=True)

    metrics = spec.eval_metric_ops
    return spec._replace(
        predictions=made_of(spec.predictions),
        loss=made_of(spec.loss, of_loss or function),
        train_op=made_of(spec.train_op),
        eval_metric_ops=metrics and {name: made_of(metric) for name, metric in metrics.items()},
    )


def as_estimator_spec(spec: Any) -> Any:
    """Returns the `EstimatorSpec` of a `TPUEstimatorSpec`; anything else as it is."""
    if not estimator.is_tpu_estimator_spec(spec):
        return spec
    # From a new spec, since the class remembers the host calls of the last one that was made.
    return type(spec)(**spec._asdict()).as_estimator_spec()


def with_host_tensors(spec: Any, function: Callable[[str, Any, Any], Any]) -> Any:
    """Returns a `TPUEstimatorSpec` with a function applied to the tensors of its host calls.

    Args:
        spec: The spec; anything else is returned as it is.
        function: Function of the name of the call, the key or position in it, and the tensor.
    """
    if not estimator.is_tpu_estimator_spec(spec):
        return spec
    changed = {}
    for field in _HOST_CALLS:
        call = getattr(spec, field)
        if call is not None:
            fn, given = call
            made = {key: function(field, key, tensor) for key, tensor in by_key(given).items()}
            changed[field] = fn, made if isinstance(given, dict) else list(made.values())
    return spec._replace(**changed)


def by_key(tensors: Any) -> dict[Any, Any]:
    """Returns the tensors of a metric or host call, a list or dictionary, as a dictionary."""
    items = tensors.items() if isinstance(tensors, dict) else enumerate(tensors)
    return {key: tf.convert_to_tensor(tensor) for key, tensor in items}


def check_has_rows(field: str, key: Any, tensor: Any) -> None:
    """Raises a ValueError if a tensor of `eval_metrics` or `host_call` is a scalar.

    Args:
        field: `'eval_metrics'` or `'host_call'`.
        key: The tensor's key or position in it.
        tensor: The tensor.
    """
    if tensor.shape.rank == 0:
        raise ValueError(
            f"The tensors of `{field}` are concatenated by rows, so they must have an axis 0, but "
            f"{key!r} is the scalar {tensor!r}. Pass `tf.reshape(tensor, [1])`, which comes out "
            "with one row per tower."
        )


def _leaves(value: Any) -> Sequence[Any]:
    return tf.nest.flatten(value, expand_composites=True)


def with_hooks(spec: Any, hooks: Sequence[Any]) -> Any:
    """Returns an `EstimatorSpec` whose runs, in any mode, have more hooks after their own."""
    fields = ("training_hooks", "evaluation_hooks", "prediction_hooks")
    return spec._replace(**{field: (*getattr(spec, field), *hooks) for field in fields})
