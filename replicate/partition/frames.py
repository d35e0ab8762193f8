"""Gives loops of TensorFlow 1 one frame per tower, so that each tower iterates by itself."""

from __future__ import annotations

from typing import Any, Callable, Collection, Iterable, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import contexts
from replicate.compat import graph as graph_lib
from replicate.compat.node_defs import node_of


def around(operation: Any) -> Sequence[Any]:
    """Returns the loops in which an operation takes its inputs; see `loops_of`."""
    loops = graph_lib.loops_of(operation)
    return loops[:-1] if operation.type in graph_lib.ENTER else loops


def enter(
    name: str, given: str, dtype: Any, loop: tuple[str, int], tower: int, shared: Collection[str]
) -> Any:
    """Returns the `NodeDef` by which a value, constant in all rounds, enters a tower's loop.

    Args:
        name: The name of the node.
        given: The name of the value.
        dtype: The type of the value.
        loop: One of `loops_of`.
        tower: The tower.
        shared: See `change`.
    """
    frame, rounds = loop
    attrs = {"T": dtype, "frame_name": frame, "is_constant": True, "parallel_iterations": rounds}
    node = node_of("Enter", name, attrs)
    node.input.append(given)
    change(node, tower, shared)
    return node


def concerns(node: Any) -> bool:
    """Whether `change` has to change a node."""
    changes = node.op.startswith("TensorArray") or node.op in ("RefEnter", "OptionalGetValue")
    return changes or "frame_name" in node.attr


def change(node: Any, tower: int, shared: Collection[str]) -> None:
    """Renames the frame of a node that enters a loop, and removes element shapes of arrays.

    These would be the shapes of the whole batch.

    Args:
        node: A `NodeDef`.
        tower: The tower.
        shared: The names of frames that all towers share.
    """
    if "frame_name" in node.attr:
        is_shared = node.attr["frame_name"].s.decode() in shared
        node.attr["frame_name"].s += b"/towers" if is_shared else f"/tower_{tower}".encode()
    # References cannot cross devices. In towers, such a node only waits for the variable.
    if node.op == "RefEnter":
        node.op = "Enter"
        node.attr["T"].type = tf.as_dtype(node.attr["T"].type).base_dtype.as_datatype_enum
    for name in ("element_shape", "element_shape_except0"):
        if node.op.startswith("TensorArray") and name in node.attr:
            node.attr[name].shape.Clear()
            node.attr[name].shape.unknown_rank = True
    if node.op == "OptionalGetValue":
        for shape in node.attr["output_shapes"].list.shape:
            shape.Clear()
            shape.unknown_rank = True


def pass_on(node: Any, given: str) -> None:
    """Turns the node of a constant or range into an `Identity` of the tensor named `given`.

    Control inputs stay, so the value is there in the rounds in which the constant would be.
    """
    dtype = node.attr["dtype" if node.op == "Const" else "Tidx"].type
    waits = [name for name in node.input if name.startswith("^")]
    node.op = "Identity"
    node.attr.clear()
    node.attr["T"].type = dtype
    del node.input[:]
    node.input.extend([given, *waits])


def refuse_gradients(operations: Iterable[Any], copies_of: Callable[[Any], Sequence[Any]]) -> None:
    """Lets gradients through the towers' loops fail, from now on.

    Args:
        operations: The operations that towers run.
        copies_of: Function of an operation that returns those that towers run in place of it.
    """
    for operation in operations:
        if operation.type not in graph_lib.EXIT:
            continue
        frame, rounds = graph_lib.loops_of(operation)[-1]
        for copy in copies_of(operation):
            if copy is not operation:
                contexts.put(copy, contexts.loop(None, frame, rounds))
