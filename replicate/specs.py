"""Merges the towers' `EstimatorSpec`s into the one that the Estimator sees."""

import tensorflow.compat.v1 as tf

from replicate import gradients, metrics, nccl, updates
from replicate.compat import estimator


def merge(specs, group, mode):
    """Merges one `EstimatorSpec` per tower.

    The loss is the weighted sum of the towers' losses, predictions and export outputs hold the
    rows of all towers in order, metrics cover all rows. Hooks, scaffold and the train operation
    are tower 0's.

    Args:
        specs: N `EstimatorSpec`s, in tower order.
        group: The `Towers`, built.
        mode: The mode that `model_fn` was called in.

    Returns:
        An `EstimatorSpec`.

    Raises:
        TypeError: If a tower returned something else than an `EstimatorSpec`.
        ValueError: If the towers' specs differ in structure, or a metric cannot be merged.
    """
    for index, spec in enumerate(specs):
        if not estimator.is_estimator_spec(spec):
            raise TypeError(
                f"`model_fn` must return a `tf.estimator.EstimatorSpec`, but returned {spec!r} in "
                f"tower {index}. If it makes a spec of another kind, convert it before returning."
            )
    first = specs[0]
    for field in ("loss", "train_op", "predictions", "eval_metric_ops", "export_outputs"):
        check_alike(field, [getattr(spec, field) for spec in specs])

    changes = {"scaffold": complete_scaffold(first.scaffold, group)}
    with tf.device(group.consolidation_device):
        if first.loss is not None:
            changes["loss"] = _loss([spec.loss for spec in specs], group)
        predictions = [spec.predictions for spec in specs]
        changes["predictions"] = concat(predictions, group)
        if first.export_outputs:
            changes["export_outputs"] = {
                name: _concat_export([spec.export_outputs[name] for spec in specs], name, group)
                for name in first.export_outputs
            }
        if mode == estimator.ModeKeys.TRAIN:
            merges = metrics.merge_statistics(group, [spec.train_op for spec in specs])
            train_op = tf.group(first.train_op, *merges) if merges else first.train_op
            metrics.warn_of_unmerged_statistics(group)
            updates.warn_if_repeated(group, train_op)
            if group.variables.replicas:
                group.variables.replicas.check_assigned(train_op)
            changes["train_op"] = train_op
            if group.uses_nccl:
                check = nccl.CheckHook(group.devices, group.consolidation_device)
                changes["training_hooks"] = (*first.training_hooks, check)
        elif first.eval_metric_ops:
            metric_updates = [op for spec in specs for _, op in spec.eval_metric_ops.values()]
            update = metrics.merge_metrics(group, metric_updates)
            changes["eval_metric_ops"] = {
                name: (value, update) for name, (value, _) in first.eval_metric_ops.items()
            }
        metrics.follow_first_tower(group)
    return first._replace(**changes)


def check_alike(field, values):
    """Raises unless the towers' `values` of a spec's field have the same structure."""
    shapes = [_structure(value) for value in values]
    for index, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise ValueError(
                f"All towers must return the same structure in `{field}`, but tower 0 returned "
                f"{shapes[0]} and tower {index} {shape}. Make what `model_fn` returns independent "
                "of `tower_index()`."
            )


def _structure(value):
    if value is None:
        return "None"
    if isinstance(value, dict):
        items = ", ".join(f"{key!r}: {_structure(value[key])}" for key in sorted(value))
        return f"{{{items}}}"
    return type(value).__name__ if estimator.is_export_output(value) else "a value"


def _loss(losses, group):
    """Returns the loss of the whole batch."""
    with tf.name_scope("replicate/loss/"):
        losses = [
            group.row_weights.mask(index, loss, tf.zeros_like(loss))
            for index, loss in enumerate(losses)
        ]
        return gradients.weighted_sum(losses, group)


def concat(values, group):
    """Concatenates dictionaries or tensors of the towers by rows; scalars are tower 0's.

    Args:
        values: N tensors, or dictionaries of tensors, nested in the same way.
        group: The `Towers`. One without rows has no part in the result.
    """
    if isinstance(values[0], dict):
        return {key: concat([value[key] for value in values], group) for key in values[0]}
    if values[0].shape.rank == 0:
        return values[0]
    with tf.name_scope("replicate/predictions/"):
        kept = [
            value
            if group.row_weights.is_positive(index)
            else value[: group.row_weights.mask(index, tf.shape(value)[0], 0)]
            for index, value in enumerate(values)
        ]
        return tf.concat(kept, axis=0)


def _concat_export(outputs, name, group):
    """Concatenates the `ExportOutput`s of the towers, which are of one kind."""
    first = outputs[0]
    export = estimator.export
    if isinstance(first, export.ClassificationOutput):
        given = [field for field in ("scores", "classes") if getattr(first, field) is not None]
        values = [{field: getattr(output, field) for field in given} for output in outputs]
        return export.ClassificationOutput(**concat(values, group))
    if isinstance(first, export.RegressionOutput):
        return export.RegressionOutput(concat([output.value for output in outputs], group))
    if isinstance(first, export.PredictOutput):
        return export.PredictOutput(concat([output.outputs for output in outputs], group))
    raise TypeError(
        "Export outputs can be merged if they are a `ClassificationOutput`, `RegressionOutput` or "
        f"`PredictOutput`, but '{name}' is {first!r}. Return one of these."
    )


def complete_scaffold(scaffold, group):
    """Returns tower 0's scaffold, made to initialise what is local to the later towers, too."""
    variables = group.kept[tf.GraphKeys.LOCAL_VARIABLES]
    tables = group.kept[tf.GraphKeys.TABLE_INITIALIZERS]
    if scaffold.local_init_op is None or not (variables or tables):
        return scaffold  # The default covers all local variables of the graph.
    local_init_op = tf.group(scaffold.local_init_op, tf.variables_initializer(variables), *tables)
    return tf.train.Scaffold(copy_from_scaffold=scaffold, local_init_op=local_init_op)
