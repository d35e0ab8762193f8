"""Checks of the arguments of `replicate_model_fn`, before there is a graph."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate import devices as devices_lib
from replicate import partition
from replicate.batch import entries
from replicate.partition import placement
from replicate.partition import summaries as summaries_lib


class Arguments(NamedTuple):
    """Arguments of `replicate_model_fn`, checked.

    Attributes:
        devices: Device strings; None for the default.
        consolidation_device: Device string; None for the default.
        on_tpus: Whether the devices are the cores of a TPU.
        unsplit_features: Paths, as `entries.unsplit_paths` returns them.
        batch_axis: Axes by path, as `entries.axes_by_path` returns them.
        prefetch_to_devices: Whether steps stage the next batch.
        exact: The `Exact`: options that give one device's numbers, and cost time.
    """

    devices: Sequence[str] | None
    consolidation_device: str | None
    on_tpus: bool
    unsplit_features: Sequence[str]
    batch_axis: dict[str, int]
    prefetch_to_devices: bool
    exact: partition.model.Exact


def check(
    model_fn: Any,
    loss_reduction: Any,
    devices: Any,
    consolidation_device: Any,
    variable_placement: Any,
    per_tower_batch_size: Any,
    unsplit_features: Any,
    batch_axis: Any,
    summaries: Any,
    prefetch_to_devices: Any,
    batch_norm: Any,
    random: Any,
    per_tower: Any,
    read_step_first: Any,
) -> Arguments:
    """Returns the checked `Arguments` of `replicate_model_fn`.

    It takes the arguments of `replicate_model_fn`, and raises the errors that its docstring lists.
    """
    if not callable(model_fn):
        raise TypeError(f"`model_fn` must be a function, but is {model_fn!r}.")
    _check_reduction(loss_reduction)
    if variable_placement not in placement.PLACEMENTS:
        raise ValueError(
            "`variable_placement` must be one of "
            f"{', '.join(map(repr, placement.PLACEMENTS))}, but is {variable_placement!r}."
        )
    if not (per_tower_batch_size is None or isinstance(per_tower_batch_size, bool)):
        raise TypeError(
            f"`per_tower_batch_size` must be True, False or None, but is {per_tower_batch_size!r}. "
            "The size itself belongs in `params['batch_size']`."
        )
    unsplit_features = entries.unsplit_paths(unsplit_features)
    batch_axis = entries.axes_by_path(batch_axis)
    if summaries not in summaries_lib.HOW:
        raise ValueError(
            f"`summaries` must be one of {', '.join(map(repr, summaries_lib.HOW))}, but is "
            f"{summaries!r}: tower 0's, means of scalars, or those of all towers."
        )
    if not isinstance(prefetch_to_devices, bool):
        raise TypeError(
            f"`prefetch_to_devices` must be True or False, but is {prefetch_to_devices!r}. One "
            "batch waits on the devices; to prefetch more on the host, use `dataset.prefetch`."
        )
    for name, value in (("batch_norm", batch_norm), ("random", random)):
        if value not in ("tower", "batch"):
            raise ValueError(
                f"`{name}` must be 'tower' or 'batch', but is {value!r}: by each tower for its "
                "rows, or for all rows as on one device."
            )
    for name, value in (("per_tower", per_tower), ("read_step_first", read_step_first)):
        if not isinstance(value, bool):
            raise TypeError(f"`{name}` must be True or False, but is {value!r}.")
    on_tpus = False
    if devices is not None:
        devices = devices_lib.canonical_list(devices)
        on_tpus = devices_lib.are_tpus(devices)
        devices_lib.check_exist(devices, cpus_known=False)
    if (per_tower or on_tpus) and "batch" in (batch_norm, random):
        raise ValueError(
            "The program of one tower or TPU core only has its own rows, but `batch_norm` is "
            f"{batch_norm!r} and `random` {random!r}. Leave them out, and use "
            "`replicate.batch_normalization` for moments of all rows."
        )
    if on_tpus:
        _check_for_tpus(consolidation_device, variable_placement, unsplit_features, batch_axis)
        if summaries != summaries_lib.HOW[0]:
            raise ValueError(
                "On TPU cores, summaries are made by `host_call`, of the rows of all cores, but "
                f"`summaries` is {summaries!r}. Leave it out."
            )
        if prefetch_to_devices:
            raise ValueError(
                "TPU cores have queues for the batches of next steps, but `prefetch_to_devices` is "
                "True. Leave it out."
            )
    if consolidation_device is not None:
        consolidation_device = devices_lib.canonical(consolidation_device)
        devices_lib.check_exist([consolidation_device], cpus_known=False)
    return Arguments(
        devices,
        consolidation_device,
        on_tpus,
        unsplit_features,
        batch_axis,
        prefetch_to_devices,
        partition.model.Exact(random=random == "batch", moments=batch_norm == "batch"),
    )


def _check_reduction(reduction: Any) -> None:
    if callable(reduction):
        raise TypeError(
            f"`loss_reduction` must be a `tf.losses.Reduction`, but is {reduction!r}. Wrap "
            "optimizers inside `model_fn`: `optimizer = replicate.TowerOptimizer(optimizer)`."
        )
    if reduction not in tf.losses.Reduction.all():
        raise ValueError(
            f"`loss_reduction` must be one of {', '.join(tf.losses.Reduction.all())}, but is "
            f"{reduction!r}."
        )
    if reduction == tf.losses.Reduction.NONE:
        raise ValueError(
            "`loss_reduction` must say how `model_fn` reduces its loss to a scalar, but is "
            "`Reduction.NONE`. Pass `SUM` if it sums the losses of rows, or one of the means."
        )


def _check_for_tpus(
    consolidation_device: Any,
    variable_placement: str,
    unsplit_features: Sequence[str],
    batch_axis: dict[str, int],
) -> None:
    if consolidation_device is not None or variable_placement not in (
        "consolidation",
        "auto",
    ):
        raise ValueError(
            "TPU cores reduce gradients themselves, and keep variables on their host, but got "
            f"`consolidation_device` {consolidation_device!r} and `variable_placement` "
            f"{variable_placement!r}. Leave them out."
        )
    if unsplit_features:
        raise ValueError(
            "TPU cores take a shard of each tensor in the batch, but `unsplit_features` is "
            f"{unsplit_features}. Leave it out, and pass tensors that are not part of the batch "
            "through `params`."
        )
    if any(batch_axis.values()):
        raise ValueError(
            f"TPU cores take shards along axis 0, but `batch_axis` is {batch_axis}. Leave it out, "
            "let `input_fn` put rows on axis 0, and let `model_fn` transpose the tensors."
        )
