"""Replaces calls of functions, conditions and loops of TensorFlow 2 by inlined operations.

Only operations that rows can reach are replaced. They stay in the graph, but nothing takes their
values anymore except code that fetches them by name.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat import op_types, partitioning
from replicate.graphs import INLINED
from replicate.layouts import Source
from replicate.partition import bodies as bodies_lib
from replicate.partition import branch_bits
from replicate.partition.bodies import Bodies
from replicate.partition.drafts import Draft
from replicate.partition.inline import Inliner, Place
from replicate.partition.optionals import Optionals


class Lowered(NamedTuple):
    """A graph some of whose operations were replaced by others.

    Attributes:
        operations: Its operations, without those that were replaced.
        now: Function of a tensor, or of an operation that was asked for, that returns its
            replacement, or itself.
    """

    operations: Sequence[Any]
    now: Callable[[Any], Any]


class _Replacement(NamedTuple):
    """Operations in place of another one.

    Attributes:
        outputs: The tensors that replace its outputs.
        done: The operations to wait for in its place.
        added: All operations that were made.
    """

    outputs: Sequence[Any]
    done: Sequence[Any]
    added: Sequence[Any]


def lower(operations: Sequence[Any], sources: Iterable[Source], asked: Sequence[Any]) -> Lowered:
    """Replaces operations that call functions with rows.

    Args:
        operations: The operations of the graph, in topological order.
        sources: The tensors of the batch.
        asked: Tensors that are fetched, and operations that are run.
    """
    if not any(operation.type in bodies_lib.TYPES for operation in operations):
        return Lowered(operations, lambda tensor: tensor)
    graph = tf.get_default_graph()
    wanted = {tensor.op if isinstance(tensor, tf.Tensor) else tensor for tensor in asked}
    needed = {one for one in asked if isinstance(one, tf.Operation)}
    bodies = Bodies(graph)
    optionals = Optionals()
    replaced: dict[Any, _Replacement] = {}
    waiting: dict[Any, Any] = {}  # By operation that was asked for.
    added: list[Any] = []
    with_rows = {source.tensor.op for source in sources}
    after_writes: set[Any] = set()

    def now(asked: Any) -> Any:
        if not isinstance(asked, tf.Tensor):
            return waiting.get(asked, asked)
        made = replaced.get(asked.op)
        return asked if made is None else made.outputs[asked.value_index]

    def done(operation: Any) -> Sequence[Any]:
        return replaced[operation].done if operation in replaced else [operation]

    for operation in operations:
        inputs = [now(tensor) for tensor in operation.inputs]
        waits = list(dict.fromkeys(w for one in operation.control_inputs for w in done(one)))
        has_rows = not with_rows.isdisjoint(tensor.op for tensor in inputs)
        is_written = not after_writes.isdisjoint([*(tensor.op for tensor in inputs), *waits])
        made = None
        if operation.type in bodies_lib.TYPES:
            node = operation.node_def
            is_written |= bodies.writes(node)
            # A hook may hold a call that writes, and run it. So such a call has to stay.
            stays = not has_rows or bodies.writes(node) or not _is_used(operation, wanted)
            if not stays and bodies.can_be_lowered(node):
                made = _replace(operation, bodies, optionals, inputs, waits, not is_written)
                added += [] if made is None else made.added
                if made is not None and operation in needed:
                    waiting[operation] = _awaiting(made.done, operation)
                    added.append(waiting[operation])
        elif not is_written and op_types.is_stateful(operation):
            is_written = bodies.writes(operation.node_def)
        results = [operation]
        if made is None:
            _take(operation, inputs, waits)
        else:
            graph_lib.set_replaced(operation)
            replaced[operation] = made
            results += [*(tensor.op for tensor in made.outputs), *made.done]
            # The shape functions of these two know less than the function's signature.
            for tensor, other in zip(operation.outputs, made.outputs):
                if other.op.type in ("Exit", "Merge"):
                    other.set_shape(tensor.shape)
        with_rows.update(results if has_rows else ())
        after_writes.update(results if is_written else ())
    if not replaced:
        return Lowered(operations, lambda tensor: tensor)

    kept = [operation for operation in operations if operation not in replaced]
    used = {one.op if isinstance(one, tf.Tensor) else one for one in map(now, asked)}
    left = _needed(kept, added, used)
    for operation in set(added).difference(left):
        # Lists that were only connected by an unused `Merge` may have different layouts.
        if operation.type == "Merge":
            graph_lib.set_replaced(operation)
    return Lowered(kept + left, now)


def _replace(
    operation: Any,
    bodies: Bodies,
    optionals: Optionals,
    inputs: Sequence[Any],
    waits: Sequence[Any],
    is_quiet: bool,
) -> _Replacement | None:
    """Makes the replacement of an operation, None if it stays."""
    graph, device = operation.graph, str(operation.device)
    # TensorFlow itself inlines calls under their own name, which must stay free.
    draft = Draft(graph, f"{operation.name}/{INLINED}", device)
    inliner = Inliner(graph, bodies, draft, optionals)
    given = [draft.given(tensor) for tensor in inputs]
    before = [draft.awaited(one) for one in waits]
    try:
        found = inliner.lower(operation.node_def, given, before, Place("", device, is_quiet, None))
        made = draft.make()
    except (ValueError, tf.errors.NotFoundError):
        # This TensorFlow refuses shapes or types, or has no such operation.
        optionals.forget()
        return None
    optionals.are_made(made)
    return _Replacement(
        [made.tensor(value) for value in found.outputs],
        list(dict.fromkeys(map(made.operation, found.done))),
        made.operations(),
    )


def _awaiting(others: Sequence[Any], operation: Any) -> Any:
    """Returns an operation that waits for others, on the device of the one in whose place it is."""
    device = tf.device(str(operation.device))
    with graph_lib.outside_of_scopes(operation.graph), device, tf.control_dependencies(others):
        return tf.no_op()


def _is_used(operation: Any, wanted: set[Any]) -> bool:
    """Whether something takes an output of an operation, or waits for it.

    If nothing does, the code that built the graph may hold the operation, and run it.
    """
    if graph_lib.is_in_control_flow(operation):
        return False
    taken = any(tensor.consumers() for tensor in operation.outputs)
    return taken or operation in wanted or bool(graph_lib.control_outputs(operation))


def _take(operation: Any, inputs: Sequence[Any], waits: Sequence[Any]) -> None:
    """Replaces the inputs and control inputs of an operation."""
    for index, (given, other) in enumerate(zip(list(operation.inputs), inputs)):
        if given.op is not other.op:
            partitioning.take(operation, index, other)
    if waits != list(operation.control_inputs):
        graph_lib.set_control_inputs(operation, waits)


def _needed(kept: Sequence[Any], added: Sequence[Any], used: set[Any]) -> list[Any]:
    """Returns the added operations that something takes or waits for, or that have effects."""
    there, left = set(kept).union(added), set(added)
    pending = list(reversed(added))
    while pending:
        gone = [one for one in pending if _is_idle(one, there, used)]
        there.difference_update(gone)
        left.difference_update(gone)
        before = [tensor.op for one in gone for tensor in one.inputs]
        before += [waited_for for one in gone for waited_for in one.control_inputs]
        pending = [one for one in dict.fromkeys(before) if one in left]
    # Operations that take a formula in a branch wait for its pivot; see `Origins.dead_with`.
    taken = {branch_bits.branch(tensor) for one in left for tensor in one.inputs}
    for branch, pivot in branch_bits.pivots(added).items():
        if branch in taken:
            left |= {pivot, pivot.inputs[0].op}
    return [one for one in added if one in left]


def _is_idle(operation: Any, there: set[Any], used: set[Any]) -> bool:
    """Whether an operation can be left out."""
    if graph_lib.in_while_loop(operation) and operation.type != "Exit":
        return False  # A loop needs all of its operations, or none.
    if op_types.is_stateful(operation):
        return False
    if operation in used:
        return False
    if any(taker in there for tensor in operation.outputs for taker in tensor.consumers()):
        return False
    return not any(one in there for one in graph_lib.control_outputs(operation))
