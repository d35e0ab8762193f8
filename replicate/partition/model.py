"""Builds a model as on one device, and then partitions it over towers."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat import op_types, seeds
from replicate.layouts import RANDOM, Source, sources_of_ragged, sources_of_sparse, takes_moments
from replicate.partition import outside, specs
from replicate.partition.build import partition
from replicate.partition.effects import HOLDERS
from replicate.partition.placement import Placement
from replicate.partition.rows import Rows
from replicate.reduction import chosen

# Types of operations, or their beginnings, of k-means, SDCA and boosted trees.
_WITHOUT_GRADIENTS = (
    "KmeansPlusPlusInitialization",
    "KMC2ChainInitialization",
    "NearestNeighbors",
    "SdcaOptimizer",
    "BoostedTrees",
)


class Exact(NamedTuple):
    """Options that give exactly one device's numbers, but cost time.

    Attributes:
        random: Whether random numbers are drawn once for the whole batch.
        moments: Whether fused batch norm takes the moments of all rows.
    """

    random: bool = False
    moments: bool = False

    def runs_once(self, operation: Any) -> bool:
        """Whether these options make an operation run once, with the rows of the whole batch."""
        if operation.type in RANDOM:
            return self.random
        return self.moments and takes_moments(operation)


class Built(NamedTuple):
    """A model that runs in towers.

    Attributes:
        spec: Its `EstimatorSpec`.
        shards: The `Shards` of its batch.
        placement: Its `Placement`, without replicas if nothing in the model trains variables.
        coverage: In training, the `Coverage`: the share of a step that runs in towers; else None.
    """

    spec: Any
    shards: Any
    placement: Placement
    coverage: Any = None


def build(
    model_fn: Callable[[], Any],
    shard: Callable[[], Any],
    placement: Placement,
    exact: Exact,
    *,
    is_trained: bool = True,
    added: int = 0,
) -> Built:
    """Builds a model and partitions it over towers.

    Args:
        model_fn: Function without arguments that builds the model and returns its spec.
        shard: Function without arguments that splits its batch and returns the `Shards`.
        placement: The `Placement`.
        exact: The `Exact`.
        is_trained: Whether the model is trained, so that every batch has a row.
        added: The number of operations in the graph that one device would not have. TensorFlow
            1.15 makes seeds from the number of operations.

    Returns:
        The `Built`, whose spec has the values of the whole batch.

    Raises:
        TypeError: If the model returns no `EstimatorSpec`.
        ValueError: If the batch cannot be split; see `sharding.shard`.
    """
    graph = tf.get_default_graph()
    before = len(graph.get_operations())
    entered, seed_scope = graph_lib.entered_once(graph), seeds.as_on_one_device(graph, added)
    device = tf.device(placement.device_function(HOLDERS))
    with entered, seed_scope, device, chosen.listening() as choice:
        spec = specs.checked(specs.as_estimator_spec(model_fn()))
    operations = graph.get_operations()[before:]  # Not those of the input.
    shards = shard()
    if any(operation.type.startswith(_WITHOUT_GRADIENTS) for operation in operations):
        # Hooks run parts of such models separately, in an order that the graph does not express.
        tf.logging.info("replicate: a model that trains without gradients runs on one device.")
        return Built(spec, shards, placement)
    if is_trained and placement.replicates and not outside.are_trained(operations):
        why = placement.why and "since nothing in the model_fn updates variables"
        placement = placement._replace(replicates=False, why=why)
    split = _sources(shards)
    if is_trained:
        _warn_of_unknown_ranks(shards)
    partitioned = partition(
        [source for source, _ in split],
        [parts for _, parts in split],
        Rows(shards.rows, shards.total, shards.starts, shards.held, not is_trained),
        placement.with_choice(choice),
        operations,
        specs.asked_of(spec, is_trained),
        exact.runs_once,
        choice.gradients or _applied(operations),
        [loss for loss in (*choice.losses, spec.loss) if loss is not None],
        choice.unscaling,
        is_measured=is_trained,
        of_all_rows=exact.moments,
    )
    _say_what_differs(partitioned.plan.copied)
    spec = specs.map_tensors(spec, partitioned.whole)
    spec = specs.with_hooks(spec, partitioned.hooks)
    return Built(spec, shards, placement, partitioned.coverage)


def _applied(operations: Sequence[Any]) -> list[Any]:
    """Returns the gradients that kernels apply, for optimizers that do not announce theirs."""
    found = map(op_types.applied_gradient, operations)
    return [gradient for gradient in found if gradient is not None]


def _say_what_differs(copied: Sequence[Any]) -> None:
    """Logs which of the two differences from one device a model has."""
    draws = sum(operation.type in RANDOM for operation in copied)
    norms = sum(takes_moments(operation) for operation in copied)
    if draws:
        tf.logging.info(
            "replicate: each tower draws random numbers for its rows (%d operations); "
            'random="batch" draws those of one device.',
            draws,
        )
    if norms:
        tf.logging.info(
            "replicate: fused batch norm takes the moments of each tower's rows (%d operations); "
            'batch_norm="batch" takes those of all rows.',
            norms,
        )


def _warn_of_unknown_ranks(shards: Any) -> None:
    """Logs which tensors of the batch towers cannot use, since their rank is not known."""
    unknown = [one.path for one in shards.split if _lacks_rank(one.leaf)]
    if unknown:
        tf.logging.warning(
            "replicate: the rank of %s is not known, so operations on it run once, for all rows. "
            "Give it a shape in `input_fn`, such as `tensor.set_shape([None, 28, 28, 1])`.",
            ", ".join(unknown),
        )


def _lacks_rank(leaf: Any) -> bool:
    return isinstance(leaf, tf.Tensor) and leaf.shape.rank is None


def _sources(shards: Any) -> list[tuple[Source, Sequence[Any]]]:
    """Returns the tensors of the batch that were split, each once, with their shards."""
    found: dict[Any, tuple[Source, Sequence[Any]]] = {}
    for _, leaf, axis, each, parts in shards.split:
        if isinstance(leaf, tf.SparseTensor):
            values, made = leaf.values, _sources_of_sparse(leaf, axis, each, parts)
        elif isinstance(leaf, tf.RaggedTensor):
            values, made = leaf.flat_values, _sources_of_ragged(leaf, each, parts)
        elif isinstance(leaf, tf.Tensor) and not _lacks_rank(leaf):
            values, made = leaf, [(Source(leaf, axis, each), parts)]
        else:
            continue
        # Values that two features share are split once. The second feature has other indices or
        # row splits, which are used whole.
        if graph_lib.reference(values) not in found:
            for source, by_tower in made:
                found.setdefault(graph_lib.reference(source.tensor), (source, by_tower))
    return list(found.values())


def _sources_of_sparse(
    leaf: tf.SparseTensor, axis: int, each: int | None, parts: Sequence[tf.SparseTensor]
) -> list[tuple[Source, Sequence[Any]]]:
    """Returns the sources of a sparse tensor, with their shards.

    There are none if its rank is unknown or its rows are on another axis: it is used whole then.
    """
    if axis != 0 or each is None or leaf.shape.rank is None:
        return []
    by_tower = [(part.indices, part.values, part.dense_shape) for part in parts]
    return list(zip(sources_of_sparse(leaf, each), zip(*by_tower)))


def _sources_of_ragged(
    leaf: tf.RaggedTensor, each: int | None, parts: Sequence[tf.RaggedTensor]
) -> list[tuple[Source, Sequence[Any]]]:
    """Returns the sources of a ragged tensor, with their shards; its row splits stay whole.

    There are none if axes within its rows are ragged as well: it is used whole then.
    """
    if each is None or leaf.ragged_rank != 1 or leaf.flat_values.shape.rank is None:
        return []
    by_source = [part.flat_values for part in parts], [leaf.row_splits] * len(parts)
    return list(zip(sources_of_ragged(leaf, each), by_source))
