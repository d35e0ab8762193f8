"""The model's input in a graph: its iterators, and other operations that use their batches."""

from __future__ import annotations

import re
from typing import Collection, Iterable, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat.functions import functions_of
from replicate.compat.graph import id_of
from replicate.graphs import ancestors, descendants, line_of, takers

_NEXT = "IteratorGetNext"
# Other operations that give another batch in each step.
_OTHER_SOURCES = re.compile(
    "(MultiDevice)?IteratorGetNext.+|.*Dequeue.*|ReaderRead.*|(Eager)?PyFunc|Placeholder.*"
    "|(Ordered|Map)?Unstage.*"
)
# Operations with state that a step may change, and those that run though an input is dead.
_NOT_PLAIN = re.compile(
    "(Ref)?(Enter|Exit|Switch|Merge|NextIteration)|LoopCond|VarHandleOp|Variable(V2)?|Assign.*"
    "|.*ReadVariableOp.*|ResourceGather.*|Mutable.*Table.*"
)
_WAY_OUT = "Let `input_fn` return a dataset, or leave `prefetch_to_devices` out."


def taken_from_iterators(inputs: set[tf.Operation]) -> list[tf.Operation]:
    """Returns the operations that take a batch from an iterator, in the order of the graph.

    Args:
        inputs: All operations that lead to a batch.

    Raises:
        ValueError: If there are none, if another source gives another batch in each step, too, or
            if an operation between an iterator and the batch is not plain.
    """
    found = [op for op in inputs if op.type == _NEXT]
    others = [op for op in inputs if op not in found and _OTHER_SOURCES.fullmatch(op.type)]
    # A placeholder whose default comes from an iterator is no other source.
    others = [op for op in others if not op.inputs or not ancestors([op]) & set(found)]
    if others or not found:
        first = min(others, key=id_of) if others else None
        origin = f"come from {first.name}, a {first.type}" if first else "do not"
        raise ValueError(
            "With `prefetch_to_devices`, features and labels must come from the iterator of a "
            f"`tf.data.Dataset`, which tells when it ends, but they {origin}. {_WAY_OUT}"
        )
    _check_plain(found, inputs)
    return sorted(found, key=id_of)


def _check_plain(found: Sequence[tf.Operation], inputs: set[tf.Operation]) -> None:
    iterators = ancestors([op.inputs[0] for op in found])
    for op in sorted(inputs - iterators, key=id_of):
        is_linked = op in found and ancestors([op]) & set(found) - {op}
        if _NOT_PLAIN.fullmatch(op.type) or functions_of(op.node_def) or is_linked:
            raise ValueError(
                "With `prefetch_to_devices`, `input_fn` must process an iterator's batch by plain "
                "operations, without loops, conditions, functions, variables and other batches, "
                f"but {op.name}, a {op.type} ({line_of(op)}), is not plain. Move it into the "
                "dataset, by `dataset.map`, or into `model_fn`, or leave `prefetch_to_devices` out."
            )


def check_goes_nowhere_else(last: Iterable[tf.Operation], inputs: Collection[tf.Operation]) -> None:
    """Raises if an operation with an effect uses a batch, but does not lead to the model's input.

    Args:
        last: Operations that take the batch from iterators.
        inputs: See `taken_from_iterators`.

    Raises:
        ValueError: If there is such an operation.
    """
    kept = _in_collections(tf.get_default_graph())
    for op in sorted(descendants(last), key=id_of):
        if op not in inputs and _has_effect(op, kept):
            raise _taken_elsewhere(op)


def check_is_left_alone(operations: list[tf.Operation], first: int, last: int) -> None:
    """Raises if an operation other than those that stage the next batch uses it.

    Args:
        operations: List of operations that give the next batch.
        first: Id of the last operation from before those that stage it.
        last: Id of the last operation that stages it.

    Raises:
        ValueError: If an operation after `last` uses the batch, or a value computed from it up to
            `first`.
    """
    before = [op for op in descendants(operations) if id_of(op) <= first]
    for op in operations + before:
        for after in takers(op):
            if id_of(after) > last:
                raise _taken_elsewhere(after)


def forbid_fetching(operations: Iterable[tf.Operation], first: int) -> None:
    """Forbids sessions to fetch or feed the next batch, or values computed from it.

    Values of the operations that stage the batch are excepted.

    Args:
        operations: List of operations that give the next batch.
        first: Id of the last operation from before those that stage it.
    """
    graph = tf.get_default_graph()
    for op in descendants(operations):
        if id_of(op) <= first:
            graph.prevent_fetching(op)
            for output in op.outputs:
                graph.prevent_feeding(output)


def _in_collections(graph: tf.Graph) -> set[tf.Operation]:
    """Returns the set of operations that collections hold, or whose outputs they hold."""
    items = [item for key in graph.get_all_collection_keys() for item in graph.get_collection(key)]
    return {
        getattr(item, "op", item) for item in items if isinstance(item, (tf.Tensor, tf.Operation))
    }


def _has_effect(op: tf.Operation, kept: Collection[tf.Operation]) -> bool:
    # An assertion changes nothing; on the next batch, it only fails one step earlier.
    return op in kept or bool(op.op_def.is_stateful and op.type != "Assert")


def _taken_elsewhere(op: tf.Operation) -> ValueError:
    return ValueError(
        "With `prefetch_to_devices`, an iterator's batch goes to the model's features and labels "
        f"alone, since it is the next step's, but {op.name} ({line_of(op)}) uses it, too. Move it "
        "into `model_fn`, where it uses the features and labels, or into the dataset, or leave "
        "`prefetch_to_devices` out."
    )
