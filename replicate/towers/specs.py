"""Makes tower 0's `EstimatorSpec` the one of all towers, which the Estimator sees."""

import tensorflow.compat.v1 as tf

from replicate.compat import estimator
from replicate.gathering import nccl
from replicate.graphs import WholeLoss, axis_of
from replicate.towers import merged_updates
from replicate.towers.replicas import ReplicasHook


def merge(spec, group, mode):
    """Returns the `EstimatorSpec` of all towers, made of tower 0's.

    The loss is the weighted sum of the towers' losses, predictions and export outputs hold the
    rows of all towers in order, metrics cover all rows. All else happens once anyway.

    Args:
        spec: Tower 0's `EstimatorSpec`.
        group: The `Towers`, the model built.
        mode: The mode that `model_fn` was called in.

    Returns:
        An `EstimatorSpec`, complete when the towers are finished.

    Raises:
        TypeError: If `spec` is something else.
        ValueError: If an update or a metric cannot be merged.
    """
    if not estimator.is_estimator_spec(spec):
        raise TypeError(
            f"`model_fn` must return a `tf.estimator.EstimatorSpec`, but returned {spec!r}. If it "
            "makes a spec of another kind, convert it before returning."
        )
    training = mode == estimator.ModeKeys.TRAIN
    changes = {}
    metrics = (spec.eval_metric_ops or {}).values()
    fetches = [spec.train_op] if training else [update for _, update in metrics]
    # First: what follows takes the towers' variables for settled.
    group.variables.complete(fetches, group)
    merged_updates.merge(group, mode == estimator.ModeKeys.EVAL)
    if spec.loss is not None:
        changes["loss"] = _loss(spec.loss, group)
    with group.once():
        if not training:  # Nobody asks for them in training.
            changes["predictions"] = concat(spec.predictions, group)
            if spec.export_outputs:
                changes["export_outputs"] = {
                    name: _concat_export(output, name, group)
                    for name, output in spec.export_outputs.items()
                }
    group.waits_for(fetches)
    hooks = []
    if group.variables.replicas:
        hooks.append(ReplicasHook(group.variables.replicas, group))
    if group.uses_nccl:
        hooks.append(nccl.CheckHook(group.devices, group.consolidation_device))
    if hooks:
        field = _hooks_of(mode)
        changes[field] = (*getattr(spec, field), *hooks)
    return spec._replace(scaffold=complete_scaffold(spec.scaffold, group), **changes)


def _hooks_of(mode):
    """Returns the name of a spec's hooks. To ask for modes imports the Estimator."""
    names = {
        estimator.ModeKeys.TRAIN: "training_hooks",
        estimator.ModeKeys.EVAL: "evaluation_hooks",
        estimator.ModeKeys.PREDICT: "prediction_hooks",
    }
    return names[mode]


def with_merges(spec, merges, training):
    """Returns a spec whose step runs operations besides."""
    if not merges:
        return spec
    if training:
        return spec._replace(train_op=tf.group(spec.train_op, *merges))
    metrics = {
        name: (value, tf.group(update, *merges))
        for name, (value, update) in spec.eval_metric_ops.items()
    }
    return spec._replace(eval_metric_ops=metrics)


def _loss(loss, group):
    """Returns the loss of the whole batch; terms that no row enters count once."""
    loss = tf.convert_to_tensor(loss)
    if not group.differ(loss):
        return loss
    if loss.shape.rank == 0 and loss.dtype.is_floating:
        return WholeLoss(group, loss).value()
    with group.once(), tf.name_scope("replicate/loss/"):
        return group.total(loss, averaged=not group.summed)


def concat(value, group):
    """Returns dictionaries or tensors with the rows of all towers; what has no rows is as it is.

    Args:
        value: A tensor, or a dictionary of tensors, maybe nested; None stays None.
        group: The `Towers`. One without rows has no part in the result.
    """
    if value is None:
        return None
    if isinstance(value, dict):
        return type(value)((key, concat(part, group)) for key, part in value.items())
    value = tf.convert_to_tensor(value)
    if value.shape.rank == 0 or not _has_rows(value, group):
        return value
    return concat_all(value, group)


def concat_all(value, group):
    """Returns the values of all towers, concatenated by rows: along axis 0, unless it is known."""
    axis = axis_of(group.extents.of(value)) or 0
    with group.once(), tf.name_scope("replicate/predictions/"):
        return group.row_weights.concatenated([own for (own,) in group.each([value])], axis)


def _has_rows(value, group):
    """Whether a tensor is part of the batch: rows enter it, or it has as many entries."""
    if group.copies.rows.reach(value):
        return True
    return value.shape.rank and value.shape.as_list()[0] == group.boundary.rows


def _concat_export(output, name, group):
    """Returns an `ExportOutput` with the rows of all towers."""
    export = estimator.export
    if isinstance(output, export.ClassificationOutput):
        given = [field for field in ("scores", "classes") if getattr(output, field) is not None]
        fields = {field: concat(getattr(output, field), group) for field in given}
        return export.ClassificationOutput(**fields)
    if isinstance(output, export.RegressionOutput):
        return export.RegressionOutput(concat(output.value, group))
    if isinstance(output, export.PredictOutput):
        return export.PredictOutput(concat(output.outputs, group))
    raise TypeError(
        "Export outputs can be merged if they are a `ClassificationOutput`, `RegressionOutput` or "
        f"`PredictOutput`, but '{name}' is {output!r}. Return one of these."
    )


def complete_scaffold(scaffold, group):
    """Returns a scaffold that initialises what towers have of their own, too."""
    variables = group.variables.of_session
    if scaffold is None or not variables:
        return scaffold  # The default covers all local variables of the graph.
    own, given = tf.variables_initializer(variables), {}
    if scaffold.local_init_op is not None:
        given["local_init_op"] = tf.group(scaffold.local_init_op, own)
    if scaffold.init_fn is not None:

        def init_fn(_, session):  # Which may run steps already.
            session.run(own)
            scaffold.init_fn(session)

        given["init_fn"] = init_fn
    return tf.train.Scaffold(copy_from_scaffold=scaffold, **given) if given else scaffold
