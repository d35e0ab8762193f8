"""What a graph tells of a model's input: which iterators it has, and who else takes from them."""

import re

import tensorflow.compat.v1 as tf

from replicate.compat.functions import functions_of
from replicate.compat.graph import id_of
from replicate.graphs import ancestors, descendants, line_of, takers

_NEXT = "IteratorGetNext"
# What else gives another batch in each step.
_OTHER_SOURCES = re.compile(
    "(MultiDevice)?IteratorGetNext.+|.*Dequeue.*|ReaderRead.*|(Eager)?PyFunc|Placeholder.*"
    "|(Ordered|Map)?Unstage.*"
)
# What has a state that a step may change, or what is not dead if parts of it are.
_NOT_PLAIN = re.compile(
    "(Ref)?(Enter|Exit|Switch|Merge|NextIteration)|LoopCond|VarHandleOp|Variable(V2)?|Assign.*"
    "|.*ReadVariableOp.*|ResourceGather.*|Mutable.*Table.*"
)
_WAY_OUT = "Let `input_fn` return a dataset, or leave `prefetch_to_devices` out."


def taken_from_iterators(inputs):
    """Returns the operations of a set that take a batch from an iterator, in their order.

    Args:
        inputs: All operations that lead to a batch.

    Raises:
        ValueError: If there are none, something else gives another batch in each step, too, or what
            is made of it is not made by plain operations.
    """
    found = [op for op in inputs if op.type == _NEXT]
    others = [op for op in inputs if op not in found and _OTHER_SOURCES.fullmatch(op.type)]
    # Placeholders with defaults of what iterators give are none.
    others = [op for op in others if not op.inputs or not ancestors([op]) & set(found)]
    if others or not found:
        first = min(others, key=id_of) if others else None
        what = f"come from {first.name}, a {first.type}" if first else "do not"
        raise ValueError(
            "With `prefetch_to_devices`, features and labels must come from the iterator of a "
            f"`tf.data.Dataset`, which tells when it ends, but they {what}. {_WAY_OUT}"
        )
    _check_plain(found, inputs)
    return sorted(found, key=id_of)


def _check_plain(found, inputs):
    iterators = ancestors([op.inputs[0] for op in found])
    for op in sorted(inputs - iterators, key=id_of):
        is_linked = op in found and ancestors([op]) & set(found) - {op}
        if _NOT_PLAIN.fullmatch(op.type) or functions_of(op.node_def) or is_linked:
            raise ValueError(
                "With `prefetch_to_devices`, what `input_fn` makes of an iterator's batch must be "
                "made by plain operations, without loops, conditions, functions, variables and "
                f"other batches, but {op.name}, a {op.type} ({line_of(op)}), is among them. Do it "
                "in the dataset, by `dataset.map`, or inside `model_fn`, or leave "
                "`prefetch_to_devices` out."
            )


def check_goes_nowhere_else(last, inputs):
    """Raises if something with an effect takes a batch, and does not lead to the model's.

    Args:
        last: Operations that take the batch from iterators.
        inputs: See `taken_from_iterators`.
    """
    kept = _in_collections(tf.get_default_graph())
    for op in sorted(descendants(last), key=id_of):
        if op not in inputs and _has_effect(op, kept):
            raise _taken_elsewhere(op)


def check_is_left_alone(operations, first, last):
    """Raises if what was made since takes what was before, other than by what stages it.

    Args:
        operations: List of operations that give the next batch.
        first: Id of the last operation that was there before what stages it.
        last: Id of the last operation that does.
    """
    before = [op for op in descendants(operations) if id_of(op) <= first]
    for op in operations + before:
        for after in takers(op):
            if id_of(after) > last:
                raise _taken_elsewhere(after)


def forbid_fetching(operations, first):
    """Lets no session fetch or feed the next batch, or what is made of it but what stages it.

    Args:
        operations: List of operations that give it.
        first: Id of the last operation that was there before what stages it.
    """
    graph = tf.get_default_graph()
    for op in descendants(operations):
        if id_of(op) <= first:
            graph.prevent_fetching(op)
            for output in op.outputs:
                graph.prevent_feeding(output)


def _in_collections(graph):
    """Returns the set of operations that collections hold, or whose results they do."""
    items = [item for key in graph.get_all_collection_keys() for item in graph.get_collection(key)]
    return {
        getattr(item, "op", item) for item in items if isinstance(item, (tf.Tensor, tf.Operation))
    }


def _has_effect(op, kept):
    return op in kept or (op.op_def.is_stateful and op.type != "Assert")


def _taken_elsewhere(op):
    return ValueError(
        "With `prefetch_to_devices`, an iterator's batch goes to the model's features and labels "
        f"alone, since it is the next step's, but {op.name} ({line_of(op)}) takes it, too. Do that "
        "inside `model_fn`, of its features and labels, or in the dataset, or leave "
        "`prefetch_to_devices` out."
    )
