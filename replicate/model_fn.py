"""`replicate_model_fn`: one `model_fn`, run as towers."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, Sequence

import tensorflow.compat.v1 as tf

from replicate import arguments as arguments_lib
from replicate import devices as devices_lib
from replicate import partition
from replicate.arguments import call_arguments, call_devices, tower_params
from replicate.batch import sharding, weights
from replicate.clusters import Cluster
from replicate.compat import environment, estimator, servers
from replicate.compat import graph as graph_lib
from replicate.compat import tpu as tpu_lib
from replicate.engines import tpu_specs, tpu_training
from replicate.faults import recovery
from replicate.gradients import unwrapped
from replicate.graphs import uncollected
from replicate.partition import model as partition_model
from replicate.reports import report
from replicate.towers import (
    SharedVariables,
    Towers,
    boundary,
    current,
    last_id,
    placement,
    prefetching,
    references,
    specs,
    whole_gradients,
)
from replicate.towers import summaries as summaries_lib

if TYPE_CHECKING:
    from typing import Literal  # Which Python 3.7 lacks.


def replicate_model_fn(
    model_fn: Callable[..., tf.estimator.EstimatorSpec | tf.estimator.tpu.TPUEstimatorSpec],
    loss_reduction: str = tf.losses.Reduction.SUM_BY_NONZERO_WEIGHTS,
    devices: Iterable[str] | None = None,
    *,
    consolidation_device: str | None = None,
    variable_placement: Literal[
        "consolidation", "round_robin", "replicated", "auto"
    ] = "consolidation",
    per_tower_batch_size: bool | None = None,
    whole_features: Iterable[str] = (),
    batch_axis: int | Mapping[str, int] = 0,
    summaries: Literal["first", "mean", "all"] = "first",
    prefetch_to_devices: bool = False,
) -> Callable[..., tf.estimator.EstimatorSpec]:
    """Returns a `model_fn` that runs `model_fn` as towers, one per device.

    Each tower takes a shard of the batch. What the Estimator gets is what one device would give it
    for the whole batch: loss, gradients, variables under the same names, metrics and predictions.

        model_fn = replicate.replicate_model_fn(model_fn)

    Optimizers need no change. `replicate.TowerOptimizer` around them has options.

    With one device, and in graphs that are built for a SavedModel, `model_fn` is called as it is;
    inside a TPU computation, such as that of `TPUEstimator(use_tpu=True)`, too.

    `model_fn` may return a `TPUEstimatorSpec`. What comes out is an `EstimatorSpec`, which both
    Estimator and `TPUEstimator(use_tpu=False)` take: `eval_metrics` and `host_call` are called
    once, with the tensors of all towers concatenated along axis 0.

    On TPU cores, `model_fn` is trained in one computation that each core runs with an equal part of
    the batch, whose shape must be static. It is evaluated and predicts on the host, whole.

    The `model_fn` of an Estimator, canned or of `model_to_estimator`, starts from what that starts
    from, its `warm_start_from` or the weights of its Keras model, where there is no checkpoint yet.

    Args:
        model_fn: Function of `features, labels, mode, params, config` or some of them, as
            `tf.estimator.Estimator` takes it. It is called once, with the rows of the first tower
            and a copy of `params`, and its graph is copied for the other towers. Tensors in
            `features` and `labels` have the shape [n, ...], or what `batch_axis` says, the same n
            in all of a batch; where both are dicts with the same keys, each key may hold a batch of
            its own; see `replicate.batch.sharding`.
        loss_reduction: How `model_fn` makes its loss from the losses of rows, where its graph does
            not tell: a `tf.losses.Reduction`. With `SUM` the towers' losses are added up, but for
            terms that no row enters, which count once; with all others they are taken for means
            over the tower's rows, and averaged, weighted by rows. See
            `replicate.graphs.whole_loss`.
        devices: List of device names, one per tower. None: every local GPU, or, if there is none,
            every local CPU device. TPU cores are named all together: every core of the TPU system,
            or the first alone.
        consolidation_device: Where gradients are summed and what happens once per step takes
            place. None: the first of `devices`. Not for TPUs, whose cores do both themselves.
        variable_placement: `'consolidation'` places variables on the consolidation device,
            `'round_robin'` on the towers' devices in turn. `'replicated'` gives each tower a
            replica, on its own device, of each variable that is trained and of its optimizer's
            slots, so that gradients cross devices, and weights do not; checkpoints hold tower 0's.
            Optimizers need not be wrapped. `'auto'` does so on GPUs, if replicas can follow all
            that the model does, and else as `'consolidation'`; `tower_report` says why. Not for
            TPUs, which ignore `'auto'`.
        per_tower_batch_size: Whether `params["batch_size"]` is the size of its own shard in each
            tower, as TPUEstimator has it, instead of the whole batch's; all shards must be of that
            size then. None: if it is an integer, and `model_fn` has TPUEstimator's `RunConfig` or
            names `TPUEstimatorSpec` in its code.
        whole_features: Iterable of names of tensors that are no part of the batch, though they have
            an axis 0, and go to every tower as they are: `["class_weights"]` for an entry of
            `features`, `["extra/table"]` for one in a dict of it, `["labels/table"]` for one of
            `labels`. The name of a dict is that of all in it. Not for TPUs.
        batch_axis: The axis of rows of the tensors in the batch, an integer, or a dictionary of
            axes by names like those in `whole_features`, where it is not 0: `{"frames": 1}` for
            an entry of `features` of shape [time, n, ...], and `{"features": 1}` for all of them,
            or for the one tensor that they are. Of predictions, and of what goes to `eval_metrics`
            and `host_call`, rows are on axis 0 all the same: transpose them. Not for TPUs.
        summaries: Of which towers the summaries of `tf.summary` are that rows enter: `'first'`,
            tower 0's, under the tags that they have. With `'mean'`, scalars are the mean over
            towers, weighted by rows, integers rounded; all else is tower 0's. With `'all'`, those
            of tower i are under `tower_i/`. A tower without rows has none. What no row enters
            is made once, under its tag. Not for TPUs.
        prefetch_to_devices: Whether a training step stages the next batch on the towers' devices
            while it computes, so that a step finds its rows there. What is trained is the same,
            also at the end of the input; an error of the input comes a step earlier. For batches of
            a dataset's iterator, which must not be saved by a `CheckpointInputPipelineHook`, and
            which go to the model alone. Not for TPUs, which have queues; ignored on one device, in
            evaluation and in prediction.

    Returns:
        A function of `features, labels, mode, params=None, config=None`, as Estimators call it, and
        of what `model_fn` takes besides, by keyword. Params that `model_fn` does not take are an
        error, unless they are empty, as those of canned Estimators are.

    Raises:
        TypeError: If `model_fn`, `loss_reduction`, `per_tower_batch_size`, `whole_features`,
            `batch_axis` or `prefetch_to_devices` is something else.
        ValueError: If `model_fn` takes no `features`, `loss_reduction` is `NONE`,
            `variable_placement` or `summaries` unknown, or `devices` is empty or names a device
            twice, one that does not exist, or TPU cores among others or with what is not for TPUs.
        ImportError: If the Estimator cannot work in this process. The message says what to run.
    """
    environment.check_estimator()
    servers.install()
    checked = arguments_lib.check(
        model_fn,
        loss_reduction,
        devices,
        consolidation_device,
        variable_placement,
        per_tower_batch_size,
        whole_features,
        batch_axis,
        summaries,
        prefetch_to_devices,
    )
    on_tpus, summed = checked.on_tpus, loss_reduction == tf.losses.Reduction.SUM

    call = call_arguments.CallArguments(model_fn)

    def replicated_model_fn(*args: Any, **kwargs: Any) -> tf.estimator.EstimatorSpec:
        given, arguments = call.of_call(args, kwargs)
        if tpu_lib.in_computation():
            return tpu_training.call_in_replica(functools.partial(model_fn, **arguments), summed)
        with weights.losses_added_up(summed), uncollected():
            spec = build(given, arguments)
        _start_as(model_fn, given.get("config"))
        return recovery.prepare(spec, given.get("mode"), given.get("config"))

    def build(given: dict[str, Any], arguments: dict[str, Any]) -> tf.estimator.EstimatorSpec:
        mode, config = given.get("mode"), given.get("config")
        _check_surroundings()
        tower_devices, consolidation = call_devices.place(
            checked.devices, checked.consolidation_device, config
        )
        cluster = Cluster.of(config)
        cluster.check(tower_devices, consolidation, variable_placement)
        training = mode == estimator.ModeKeys.TRAIN
        by_rows = not checked.whole_features and not any(checked.batch_axis.values())
        batch = given["features"], given.get("labels")
        if len(tower_devices) > 1 and by_rows and not on_tpus:
            tower_devices = call_devices.with_rows(tower_devices, *batch, training)
        alone = not training if on_tpus else len(tower_devices) == 1
        if alone or _is_for_export(given["features"], mode):
            return _call_alone(model_fn, arguments, tower_devices)

        if partition_model.is_chosen() and not on_tpus:
            return partition_model.build(
                functools.partial(_call_alone, model_fn, arguments, ()),
                *batch,
                mode,
                partition.Placement(
                    tuple(tower_devices),
                    consolidation,
                    replicates=variable_placement == "replicated",
                ),
                partition_model.Options(
                    checked.whole_features, checked.batch_axis, variable_placement == "round_robin"
                ),
            )

        since = last_id(tf.get_default_graph())
        ahead = prefetching.of(batch, training and checked.prefetch_to_devices)
        if on_tpus:
            shards = tpu_training.whole_batch(*batch, len(tower_devices))
        else:
            shards = sharding.shard(
                ahead.batch[0],
                ahead.batch[1],
                len(tower_devices),
                need_row=training,
                whole_features=checked.whole_features,
                batch_axis=checked.batch_axis,
            )
            shards = ahead.stage(shards, tower_devices, cluster.worker)
        sharding.name_size(shards)
        for_tpus = tower_params.is_for_tpus(model_fn, config)
        params = tower_params.of_tower(
            arguments.get("params"), shards, for_tpus, per_tower_batch_size
        )

        def on_rows(features: Any, labels: Any) -> Any:
            own = {"features": features, "labels": labels, "params": params}
            return model_fn(**{name: own.get(name, arguments[name]) for name in arguments})

        if on_tpus:
            sessions = getattr(config, "session_config", None)
            return tpu_training.train(on_rows, shards, tower_devices, summed, sessions)

        placed = placement.Placement.of(variable_placement, tower_devices, consolidation, cluster)
        variables = SharedVariables(placed, cluster)
        variables.prefetched += ahead.variables
        group = Towers(tower_devices, consolidation, variables, shards, summed)
        with group.building(since), whole_gradients.intercepted(), unwrapped.intercepted():
            spec = on_rows(group.boundary.features, group.boundary.labels)
            boundary.warn_of_padding(group.boundary.features, group.boundary.labels)
            if estimator.is_tpu_estimator_spec(spec):
                tower_params.warn_of_whole_size(params, for_tpus, per_tower_batch_size)
            spec = tpu_specs.merge(spec, group, mode)
            if mode != estimator.ModeKeys.PREDICT:
                spec = summaries_lib.merge(spec, group, summaries)
        spec = specs.with_merges(spec, group.finish(), training)
        if training:
            spec = ahead.merge(spec)
            references.read_before_written([spec.train_op, spec.loss])
            report.publish(group, shards, loss_reduction, spec)
        return spec

    replicated: Any = functools.update_wrapper(replicated_model_fn, model_fn, updated=())
    replicated.__signature__ = call.signature  # The Estimator passes what it finds here.
    replicated.is_replicated = True
    return replicated


def _start_as(model_fn: Any, config: tf.estimator.RunConfig | None) -> None:
    """Starts from what the Estimator starts from that `model_fn` was taken of, as that does."""
    settings = estimator.start_left_behind(model_fn)
    model_dir = getattr(config, "model_dir", None)
    if settings is None or model_dir is None or estimator.is_exporting():
        return
    if not tf.train.latest_checkpoint(model_dir):
        tf.train.warm_start(*settings)


def _check_surroundings() -> None:
    if tf.executing_eagerly():
        raise RuntimeError(
            "`model_fn` builds a graph, but was called outside of one. Let an Estimator call it, "
            "or call it within `with tf.Graph().as_default():`."
        )
    if tf.distribute.has_strategy():
        raise ValueError(
            "`replicate_model_fn` runs a model on all devices by itself, but was called under "
            f"{type(tf.distribute.get_strategy()).__name__}. Drop `train_distribute` and "
            "`eval_distribute` from the `RunConfig`, or pass the Estimator the plain `model_fn`."
        )
    if current() is not None:
        raise ValueError(
            "A model runs as towers once, but was replicated again inside of one. "
            "Call `replicate_model_fn` only where the Estimator is made."
        )


def _is_for_export(features: Any, mode: str | None) -> bool:
    """Whether the graph is built for a SavedModel, which is to hold neither towers nor devices."""
    if estimator.is_exporting():
        return True
    # Whoever exports by hand feeds placeholders; `Estimator.predict` has none.
    return mode == estimator.ModeKeys.PREDICT and graph_lib.is_fed(features)


def _call_alone(
    model_fn: Callable[..., Any], arguments: dict[str, Any], devices: Sequence[str]
) -> tf.estimator.EstimatorSpec:
    """Calls `model_fn` without towers; returns its spec, as an `EstimatorSpec` if for TPUs."""
    placed = len(devices) == 1 and not devices_lib.are_tpus(devices)
    if placed and not devices_lib.is_default_device(devices[0]):
        with tf.device(devices[0]):
            return tpu_specs.as_estimator_spec(model_fn(**arguments))
    return tpu_specs.as_estimator_spec(model_fn(**arguments))
