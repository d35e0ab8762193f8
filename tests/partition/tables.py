"""Tables of models that train side by side in one graph, which takes less time than one for each.

Every model is a `model_fn` as `partition.harness` takes it, and has a scope of its own.
"""

import functools

import tensorflow.compat.v1 as tf

from partition import harness, model_inputs
from partition.harness import ModeKeys

EstimatorSpec = tf.estimator.EstimatorSpec

_APPLIED = [functools.partial(harness.applied, mode=m) for m in (ModeKeys.EVAL, ModeKeys.PREDICT)]


def minimize(loss, params, var_list=None):
    """Returns the train operation of a model of a table; it waits for the updates of its scope."""
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS, own_scope())):
        return params["optimizer"]().minimize(loss, var_list=var_list or own_variables())


def own_variables(part=""):
    """Returns the trainable variables of a model of a table, or of a scope in it."""
    return tf.trainable_variables(own_scope() + part)


def own_scope():
    """Returns how names in a model of a table begin."""
    name = tf.get_variable_scope().name
    return f"{name}/" if name else ""


def spec_of(mode, predictions, loss, params, metrics=None):
    """Returns the usual spec: of the loss, what minimises it, and its mean."""
    if mode == ModeKeys.PREDICT:
        return EstimatorSpec(mode, predictions=predictions)
    if mode == ModeKeys.EVAL:
        metrics = {"mean_loss": tf.metrics.mean(loss), **(metrics or {})}
        return EstimatorSpec(mode, predictions, loss, eval_metric_ops=metrics)
    return EstimatorSpec(mode, predictions, loss, minimize(loss, params))


def of_loss(loss):
    """Returns the model of a small network by whose outputs, [n, 3], `loss(h, batch)` is made."""

    def model(features, labels, mode, params):
        h = model_inputs.hidden(features["x"])
        made = None if labels is None else loss(h, model_inputs.Batch(**features, **labels))
        return spec_of(mode, {"h": h}, made, params)

    return model


def of_old_control_flow(model):
    """Returns a model with the loops and branches of TensorFlow 1, also on TensorFlow 2."""

    @functools.wraps(model)
    def old(*args, **kwargs):
        is_new = tf.control_flow_v2_enabled()
        tf.disable_control_flow_v2()
        try:
            return model(*args, **kwargs)
        finally:
            if is_new:
                tf.enable_control_flow_v2()

    return old


def of_new_control_flow(model):
    """Returns a model with the loops and branches of TensorFlow 2, which are functions."""

    @functools.wraps(model)
    def new(*args, **kwargs):
        is_new = tf.control_flow_v2_enabled()
        tf.enable_control_flow_v2()
        try:
            return model(*args, **kwargs)
        finally:
            if not is_new:
                tf.disable_control_flow_v2()

    return new


def of_losses_in_new_control_flow(losses):
    """Returns the `Table` of losses by name, with loops and branches of TensorFlow 2."""
    return Table({name: of_new_control_flow(of_loss(loss)) for name, loss in losses.items()})


def of_losses_in_old_control_flow(losses):
    """Returns the `Table` of losses by name, with loops and branches of TensorFlow 1."""
    return Table({name: of_old_control_flow(of_loss(loss)) for name, loss in losses.items()})


def of_losses(losses):
    """Returns the `Table` of losses by name, which `of_loss` makes models of."""
    return Table({name: of_loss(loss) for name, loss in losses.items()})


class Table:
    """Models by name.

    Args:
        models: Dictionary of `model_fn`s.
        rtol: How much towers may deviate.
        is_split: Whether towers are to have a part of the work.
        **options: Those of `replicate_model_fn`.
    """

    def __init__(self, models, rtol=1e-9, is_split=True, **options):
        self.models = models
        self._rtol, self._is_split, self._options = rtol, is_split, options
        self._fns = {name: self._side_by_side([name]) for name in models}
        self._all = self._side_by_side(list(models))
        self._fails = set()

    def check_training(self, name, batches, num_towers):
        """Asserts that the model `name` trains in towers as on one device."""
        want, got = self._records(harness.trained, name, batches, num_towers)
        harness.assert_trains(want)
        harness.assert_same(got, want, self._rtol, self._is_split)

    def check_applied(self, name, batches, num_towers):
        """Asserts that it evaluates and predicts in towers as on one device."""
        for applied in _APPLIED:
            want, got = self._records(applied, name, batches, num_towers)
            harness.assert_same(got, want, self._rtol, self._is_split)

    def in_towers(self, name, batches, num_towers):
        """Returns the `Record` of the model `name` that trains in towers, beside all others."""
        return self._records(harness.trained, name, batches, num_towers)[1]

    def _records(self, function, name, batches, num_towers):
        """Returns the `Record`s of a model on one device and in towers.

        All models run in one graph; if that fails, each runs in its own.
        """
        case = function, batches, num_towers
        if case not in self._fails:
            try:
                records = [function(self._all, batches, number) for number in (1, num_towers)]
                if not records[1].said:
                    return [record.part(name) for record in records]
            except Exception:  # Of whichever model: now each is made for itself.
                pass
            self._fails.add(case)
        return [function(self._fns[name], batches, number).part(name) for number in (1, num_towers)]

    def _side_by_side(self, names):
        """Returns the `model_fn` of some of the models."""

        def model_fn(features, labels, mode, params):
            specs = {}
            for name in names:
                with tf.variable_scope(name):
                    model = self.models[name]
                    specs[name] = model(features, labels, mode=mode, params=params)
            return _joined(specs, mode)

        model_fn.options = self._options
        return model_fn


def _joined(specs, mode):
    predictions, metrics = {}, {}
    for name, spec in specs.items():
        predictions.update({f"{name}/{key}": value for key, value in spec.predictions.items()})
        metrics.update({f"{name}/{key}": value for key, value in spec.eval_metric_ops.items()})
        if spec.loss is not None:
            predictions[f"{name}/loss"] = spec.loss
    if mode == ModeKeys.PREDICT:
        return EstimatorSpec(mode, predictions=predictions)
    loss = tf.add_n([spec.loss for spec in specs.values()])
    if mode == ModeKeys.EVAL:
        return EstimatorSpec(mode, predictions, loss, eval_metric_ops=metrics)
    hooks = [hook for spec in specs.values() for hook in spec.training_hooks]
    train_op = tf.group([spec.train_op for spec in specs.values()])
    return EstimatorSpec(mode, predictions, loss, train_op, training_hooks=hooks)
