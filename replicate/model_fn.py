"""`replicate_model_fn`: runs one `model_fn` in towers."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, Sequence

import tensorflow.compat.v1 as tf

from replicate import arguments as arguments_lib
from replicate import devices as devices_lib
from replicate import partition
from replicate.arguments import call_arguments, call_devices, surroundings, tower_params
from replicate.batch import loss_sums, prefetching, sharding
from replicate.clusters import Cluster
from replicate.compat import environment, estimator, renamed, servers
from replicate.compat import graph as graph_lib
from replicate.compat import tpu as tpu_lib
from replicate.cross_tower import cross_tower_sum
from replicate.engines import tpu_training
from replicate.faults import recovery
from replicate.graphs import initialise, step_reads, uncollected
from replicate.reports import report

if TYPE_CHECKING:
    from typing import Literal  # Python 3.7 lacks it.


@renamed.arguments("replicate_model_fn", whole_features="unsplit_features")
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
    unsplit_features: Iterable[str] = (),
    batch_axis: int | Mapping[str, int] = 0,
    summaries: Literal["first", "mean", "all"] = "first",
    prefetch_to_devices: bool = False,
    batch_norm: Literal["tower", "batch"] = "tower",
    random: Literal["tower", "batch"] = "tower",
    per_tower: bool = False,
    read_step_first: bool = False,
) -> Callable[..., tf.estimator.EstimatorSpec]:
    """Returns a `model_fn` that runs `model_fn` on several devices, its *towers*.

    Each tower computes on a shard of the batch. The Estimator gets the same results as from one
    device with the whole batch: loss, gradients, variables under the same names, metrics and
    predictions.

        model_fn = replicate.replicate_model_fn(model_fn)

    `model_fn` is called once and builds one device's graph of the whole batch. Then the graph is
    partitioned: operations that can run on shards run in towers, all others run once. Optimizers
    need no change. `replicate.TowerOptimizer` around them has options.

    On one device, in a graph for a SavedModel, and inside a TPU computation, such as that of
    `TPUEstimator(use_tpu=True)`, `model_fn` is called without towers.

    `model_fn` may return a `TPUEstimatorSpec`. The result is then an `EstimatorSpec`, which both
    Estimator and `TPUEstimator(use_tpu=False)` take: `eval_metrics` and `host_call` are called
    once, with the tensors of the whole batch.

    On TPU cores, `model_fn` is trained in one computation that each core runs with an equal part of
    the batch, whose shape must be static. Evaluation and prediction run on the host, with the whole
    batch.

    The `model_fn` of an Estimator, canned or made by `model_to_estimator`, starts from the same
    values as in that Estimator, its `warm_start_from` or the weights of its Keras model, unless
    there is a checkpoint.

    Args:
        model_fn: Function of `features, labels, mode, params, config` or some of them, as
            `tf.estimator.Estimator` takes it. Tensors in `features` and `labels` have the shape
            [n, ...], or another one given by `batch_axis`, with the same n in all of a batch. If
            both are dicts with the same keys, each key may hold a separate batch; see
            `replicate.batch.sharding`.
        loss_reduction: With `per_tower` or on TPU cores: how a tower's loss is computed from the
            losses of rows, a `tf.losses.Reduction`. With `SUM`, the towers' losses and gradients
            are summed, penalties of weights included; with all others they are averaged, weighted
            by rows. Otherwise the loss is that of the whole batch, and this has no effect.
        devices: List of device names, one per tower. None: every local GPU, or every local CPU
            device if there is no GPU. For TPU cores, name every core of the TPU system, or the
            first alone, which stands for all.
        consolidation_device: Device that combines the towers' values, and runs operations that run
            once. None: the first of `devices`. Not for TPUs, whose cores do both themselves.
        variable_placement: `'consolidation'` places variables on the consolidation device,
            `'round_robin'` on the towers' devices in turn. `'replicated'` gives each tower a
            replica, on the tower's device, of each trained variable and of its optimizer slots, so
            that gradients cross devices, and weights do not; checkpoints hold tower 0's. `'auto'`
            is `'replicated'` on GPUs, else `'consolidation'`; `tower_report` says why. Not for
            TPUs, which ignore `'auto'`.
        per_tower_batch_size: With `per_tower` or on TPU cores: whether `params["batch_size"]` is
            the size of the tower's shard, as in TPUEstimator, instead of the whole batch's; all
            shards must then have that size. None: True if it is an integer, and `model_fn` has
            TPUEstimator's `RunConfig` or names `TPUEstimatorSpec` in its code. Otherwise this has
            no effect.
        unsplit_features: Iterable of names of tensors that have an axis 0 but no rows of the batch.
            Every tower gets all of them: `["class_weights"]` for an entry of `features`,
            `["extra/table"]` for one in a dict of it, `["labels/table"]` for one of `labels`. The
            name of a dict means all of its entries. Not for TPUs.
        batch_axis: The axis of rows of the tensors in the batch, an integer; or, if it is not 0 for
            all, a dictionary of axes by names like those in `unsplit_features`: `{"frames": 1}` for
            an entry of `features` of shape [time, n, ...], and `{"features": 1}` for all of them,
            or for features that are one tensor. Not for TPUs.
        summaries: With `per_tower`: which towers write batch-dependent summaries of `tf.summary`.
            `'first'`: tower 0, with unchanged tags. `'mean'`: scalars are the mean over towers,
            weighted by rows, with integers rounded; all other kinds are tower 0's. `'all'`: those
            of tower i are under `tower_i/`. A tower without rows writes none. Otherwise summaries
            are those of the whole batch. Not for TPUs.
        prefetch_to_devices: Whether a training step stages the next batch on the towers' devices
            while it computes, so that the next step finds its rows there. Training gives the same
            result, also at the end of the input; an error of the input comes a step earlier. Only
            for batches from a dataset's iterator that go to the model alone, without a
            `CheckpointInputPipelineHook` that saves the iterator. Not for TPUs, which have queues;
            ignored on one device, in evaluation and in prediction.
        batch_norm: `'tower'`: in training, the fused kernel of batch norm takes the moments of each
            tower's rows, as data-parallel trainers do. `'batch'`: it takes those of all rows, as on
            one device, with an all-reduce of the moments in every layer. Other kernels always take
            those of all rows. Like `random='batch'`, not with `per_tower=True` or on TPU cores.
        random: `'tower'`: each tower draws random numbers for its rows, e.g. for dropout.
            `'batch'`: they are drawn once for the batch, as on one device, and split.
        per_tower: Whether `model_fn` builds the program of one tower, as on TPU cores, instead of
            one device's graph. It is called with the rows of the first tower and a copy of
            `params`, and its graph is copied for the others. Each tower draws separate random
            numbers and has a `tower_index()`. Values are reduced only where the program asks for
            it: in `TowerOptimizer`, `cross_tower_sum`, `cross_tower_mean` and `merge_call`. Scalars
            other than the loss are averaged by rows, metrics summed, predictions concatenated.
        read_step_first: Whether a training step that assigns the global step itself does so after
            it has read it. Otherwise the order is open, on one device, too; a warning is logged.

    Returns:
        A function of `features, labels, mode, params=None, config=None`, as Estimators call it, and
        of any further arguments of `model_fn`, by keyword. Passing params to a `model_fn` that
        takes none is an error, unless they are empty, as those of canned Estimators are.

    Raises:
        TypeError: If `model_fn`, `loss_reduction`, `per_tower_batch_size`, `unsplit_features`,
            `batch_axis`, `prefetch_to_devices`, `per_tower` or `read_step_first` has a wrong type.
        ValueError: If `model_fn` takes no `features`; `loss_reduction` is `NONE`; another option is
            unknown; or `devices` is empty or names a device twice, one that does not exist, or TPU
            cores among others or with an argument not for TPUs.
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
        unsplit_features,
        batch_axis,
        summaries,
        prefetch_to_devices,
        batch_norm,
        random,
        per_tower,
        read_step_first,
    )
    on_tpus, summed = checked.on_tpus, loss_reduction == tf.losses.Reduction.SUM

    call = call_arguments.CallArguments(model_fn)

    def replicated_model_fn(*args: Any, **kwargs: Any) -> tf.estimator.EstimatorSpec:
        given, arguments = call.of_call(args, kwargs)
        if tpu_lib.in_computation() and not surroundings.is_replicated():
            return tpu_training.call_in_replica(functools.partial(model_fn, **arguments), summed)
        cluster = Cluster.from_config(given.get("config"))
        sums = (
            contextlib.nullcontext() if on_tpus else tpu_lib.sums_over_replicas_by(cross_tower_sum)
        )
        # The loss of a whole batch is the model's, whatever `loss_reduction` is.
        added_up = loss_sums.losses_added_up(summed and (per_tower or on_tpus))
        with uncollected(), added_up, cluster.building(), sums:
            spec = build(given, arguments, cluster)
        estimator.start_as(model_fn, given.get("config"))
        return recovery.prepare(spec, given.get("mode"), given.get("config"))

    def build(
        given: dict[str, Any], arguments: dict[str, Any], cluster: Cluster
    ) -> tf.estimator.EstimatorSpec:
        mode, config = given.get("mode"), given.get("config")
        surroundings.check()
        tower_devices, consolidation = call_devices.place(
            checked.devices, checked.consolidation_device, config
        )
        cluster.check(tower_devices, consolidation, variable_placement)
        training = mode == estimator.ModeKeys.TRAIN
        by_rows = not checked.unsplit_features and not any(checked.batch_axis.values())
        batch = given["features"], given.get("labels")
        if len(tower_devices) > 1 and by_rows and not on_tpus:
            tower_devices = call_devices.with_rows(tower_devices, *batch, training)
        alone = not training if on_tpus else len(tower_devices) == 1
        if alone or surroundings.is_for_export(given["features"], mode):
            spec = _call_alone(model_fn, arguments, tower_devices)
            if training and not on_tpus:
                step_reads.order([spec.train_op, spec.loss], read_step_first)
            return spec

        since = graph_lib.last_id(tf.get_default_graph())
        if on_tpus:
            shards = tpu_training.whole_batch(*batch, len(tower_devices))
            sharding.name_size(shards)
            sessions = getattr(config, "session_config", None)
            on_rows = with_rows(arguments, shards, config)
            return tpu_training.train(on_rows, shards, tower_devices, summed, sessions)
        placed = partition.Placement.from_argument(
            variable_placement, tower_devices, consolidation, cluster
        )

        shard = functools.partial(
            sharding.shard,
            num_towers=len(tower_devices),
            need_row=training,
            unsplit_features=checked.unsplit_features,
            batch_axis=checked.batch_axis,
            same_rows=per_tower,
        )
        prefetched = shards = coverage = None
        if training and checked.prefetch_to_devices:
            prefetched = prefetching.Prefetched(batch)
            shards = shard(*prefetched.batch)
            shards, batch = prefetched.stage(shards, tower_devices, cluster.worker, not per_tower)
        elif per_tower:
            shards = shard(*batch)
        if per_tower:
            sharding.name_size(shards)
            spec = partition.build_towers(
                with_rows(arguments, shards, config),
                shards,
                mode,
                placed,
                summed=summed,
                which_summaries=summaries,
                since=since,
            )
        else:
            given_batch = {"features": batch[0], "labels": batch[1]}
            batch_arguments = {name: given_batch.get(name, arguments[name]) for name in arguments}
            model = functools.partial(_call_alone, model_fn, batch_arguments, ())
            # A model may add and remove entries of dictionaries.
            as_given = tf.nest.map_structure(lambda leaf: leaf, batch)
            spec, shards, placed, coverage = partition.model.build(
                model,
                lambda: shards or shard(*as_given),
                placed,
                checked.exact,
                is_trained=training,
                added=graph_lib.last_id(tf.get_default_graph()) - since,
            )
            sharding.name_size(shards)
        partition.specs.name_loss(spec)
        spec = prefetched.merge(spec) if prefetched else spec
        initialise(spec.scaffold)
        if training:
            step_reads.order([spec.train_op, spec.loss], read_step_first)
            partition.read_before_written([spec.train_op, spec.loss])
            report.publish(placed, shards, loss_reduction if per_tower else None, spec, coverage)
            report.tell_of_session(tower_devices, getattr(config, "session_config", None))
        return spec

    def with_rows(arguments: dict[str, Any], shards: Any, config: Any) -> Callable[[Any, Any], Any]:
        """Returns the model as a function of the features and labels of a tower."""
        for_tpus = tower_params.is_for_tpus(model_fn, config)
        params = tower_params.params_of_towers(
            arguments.get("params"), shards, for_tpus, per_tower_batch_size
        )

        def on_rows(features: Any, labels: Any) -> Any:
            per_tower_arguments = {"features": features, "labels": labels, "params": params}
            return model_fn(
                **{key: per_tower_arguments.get(key, arguments[key]) for key in arguments}
            )

        return on_rows

    replicated: Any = functools.update_wrapper(replicated_model_fn, model_fn, updated=())
    replicated.__signature__ = call.signature  # Estimators pass the arguments that it names.
    replicated.is_replicated = True
    return replicated


def _call_alone(
    model_fn: Callable[..., Any], arguments: dict[str, Any], devices: Sequence[str]
) -> tf.estimator.EstimatorSpec:
    """Calls `model_fn` without towers; returns its spec, always as an `EstimatorSpec`."""
    placed = len(devices) == 1 and not devices_lib.are_tpus(devices)
    if placed and not devices_lib.is_default_device(devices[0]):
        with tf.device(devices[0]):
            return partition.specs.as_estimator_spec(model_fn(**arguments))
    return partition.specs.as_estimator_spec(model_fn(**arguments))
