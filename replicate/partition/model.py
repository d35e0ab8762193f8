"""One call of a `model_fn`, built as on one device and then partitioned over towers."""

from __future__ import annotations

import os
from typing import (
    Any,
    Callable,
    Iterable,
    Mapping,
    NamedTuple,
    Sequence,
)

import tensorflow.compat.v1 as tf

from replicate.batch import sharding
from replicate.compat import estimator
from replicate.compat import graph as graph_lib
from replicate.gathering import chosen
from replicate.layouts import RANDOM, Source
from replicate.partition.build import partition
from replicate.partition.effects import HOLDERS
from replicate.partition.placement import Placement
from replicate.partition.rows import Rows
from replicate.partition.surgery import Partitioned

_MOMENTS = frozenset(f"FusedBatchNorm{version}" for version in ("", "V2", "V3"))


class Options(NamedTuple):
    """How a model is to run in towers, as users say it; see `replicate_model_fn`.

    Attributes:
        whole_features: Names of tensors that are no part of the batch.
        batch_axis: The axis of rows, or axes by name.
        in_turn: Whether variables are placed on the towers' devices in turn.
        exact_random: Whether random numbers are drawn once for the whole batch.
        exact_moments: Whether fused batch norm takes the moments of all rows.
    """

    whole_features: Iterable[str] = ()
    batch_axis: int | Mapping[str, int] = 0
    in_turn: bool = False
    exact_random: bool = False
    exact_moments: bool = False


def is_chosen() -> bool:
    """Whether models are partitioned after they are built, instead of copied from tower 0's."""
    return os.environ.get("REPLICATE_PARTITION", "") not in ("", "0")


def build(
    model_fn: Callable[[], Any],
    features: Any,
    labels: Any,
    mode: str | None,
    placement: Placement,
    options: Options,
) -> Any:
    """Returns the `EstimatorSpec` of a model that runs in towers.

    Args:
        model_fn: Function without arguments that builds the model and returns its spec.
        features: The batch's features, as the model has them.
        labels: Likewise.
        mode: The mode that it is built for.
        placement: The `Placement`.
        options: The `Options`.

    Raises:
        TypeError: If the model returns no `EstimatorSpec`.
        ValueError: If the batch cannot be split; see `sharding.shard`.
    """
    graph = tf.get_default_graph()
    # A model may take things out of dictionaries, and put others in.
    all_features, all_labels = tf.nest.map_structure(lambda leaf: leaf, (features, labels))
    before = len(graph.get_operations())
    device = tf.device(_devices(placement, options.in_turn))
    with graph_lib.entered_once(graph), device, chosen.listening() as choice:
        spec = model_fn()
    if not estimator.is_estimator_spec(spec):
        raise TypeError(
            f"`model_fn` must return a `tf.estimator.EstimatorSpec`, but returned {spec!r}. If it "
            "makes a spec of another kind, convert it before returning."
        )
    operations = graph.get_operations()[before:]  # How the batch is made is no part of the model.
    is_trained = mode == estimator.ModeKeys.TRAIN
    shards = sharding.shard(
        all_features,
        all_labels,
        len(placement.devices),
        need_row=is_trained,
        whole_features=options.whole_features,
        batch_axis=options.batch_axis,
    )
    sharding.name_size(shards)
    split = _dense(shards)
    partitioned = partition(
        [Source(leaf, axis, each) for leaf, axis, each, _ in split],
        [parts for *_, parts in split],
        Rows(shards.rows, shards.total, shards.starts, shards.held, not is_trained),
        placement._replace(gather=choice.how),
        operations,
        _tensors_of(spec),
        _kept_whole(options),
        choice.gradients,
    )
    return _with_whole_values(spec, partitioned)


def _devices(placement: Placement, in_turn: bool) -> Any:
    """Returns the device, or the function of operations, by which a model is placed."""
    if not in_turn:
        return placement.consolidation
    made: list[str] = []

    def place(operation: Any) -> str:
        if operation.type not in HOLDERS:
            return placement.consolidation
        if graph_lib.is_colocating(operation.graph):
            return ""  # A slot is where its variable is, wherever that is.
        made.append(placement.devices[len(made) % len(placement.devices)])
        return made[-1]

    return place


def _dense(shards: Any) -> list[Any]:
    """Returns the dense tensors of the batch that were split, each once."""
    found: dict[int, Any] = {}
    for leaf, axis, each, parts in shards.split:
        if isinstance(leaf, tf.Tensor) and leaf.shape.rank is not None:
            found.setdefault(id(leaf), (leaf, axis, each, parts))
    return list(found.values())


def _kept_whole(options: Options) -> frozenset[str]:
    random = RANDOM if options.exact_random else frozenset()
    return random | (_MOMENTS if options.exact_moments else frozenset())


def _leaves(value: Any) -> Sequence[Any]:
    return tf.nest.flatten(value, expand_composites=True)


def _tensors_of(spec: Any) -> list[Any]:
    """Returns the tensors of a spec that are fetched."""
    given = [spec.predictions, spec.loss, spec.train_op, *(spec.eval_metric_ops or {}).values()]
    return [leaf for leaf in _leaves(given) if isinstance(leaf, tf.Tensor)]


def _with_whole_values(spec: Any, partitioned: Partitioned) -> Any:
    """Returns a spec whose tensors hold the whole batch's values."""

    def whole(value: Any) -> Any:
        if value is None:
            return None
        leaves = [
            partitioned.whole(leaf) if isinstance(leaf, tf.Tensor) else leaf
            for leaf in _leaves(value)
        ]
        return tf.nest.pack_sequence_as(value, leaves, expand_composites=True)

    metrics = spec.eval_metric_ops
    return spec._replace(
        training_hooks=(*spec.training_hooks, *partitioned.hooks),
        predictions=whole(spec.predictions),
        loss=whole(spec.loss),
        train_op=whole(spec.train_op),
        eval_metric_ops=metrics and {name: whole(metric) for name, metric in metrics.items()},
    )
