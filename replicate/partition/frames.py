"""The loops of TensorFlow 1 that towers go round, each for itself, in frames of their own."""

from __future__ import annotations

from typing import Any, Collection, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib


def around(operation: Any) -> Sequence[Any]:
    """Returns the loops that an operation takes its inputs in; see `loops_of`."""
    loops = graph_lib.loops_of(operation)
    return loops[:-1] if operation.type in graph_lib.ENTER else loops


def enter(
    name: str, given: str, dtype: Any, loop: tuple[str, int], tower: int, shared: Collection[str]
) -> Any:
    """Returns the `NodeDef` by which a value enters a tower's loop, the same in all rounds.

    Args:
        name: The name of the node.
        given: That of the value.
        dtype: The type of the value.
        loop: One of `loops_of`.
        tower: The tower.
        shared: See `change`.
    """
    frame, rounds = loop
    node = tf.NodeDef(name=name, op="Enter", input=[given])
    node.attr["T"].type = dtype.as_datatype_enum
    node.attr["frame_name"].s = frame.encode()
    node.attr["is_constant"].b = True
    node.attr["parallel_iterations"].i = rounds
    change(node, tower, shared)
    return node


def concerns(node: Any) -> bool:
    """Whether `change` has something to do."""
    changes = node.op.startswith("TensorArray") or node.op in ("RefEnter", "OptionalGetValue")
    return changes or "frame_name" in node.attr


def change(node: Any, tower: int, shared: Collection[str]) -> None:
    """Gives what enters a loop the frame of a tower, and arrays elements of any shape.

    Args:
        node: A `NodeDef`.
        tower: The tower.
        shared: The names of frames that all towers have together.
    """
    if "frame_name" in node.attr:
        is_shared = node.attr["frame_name"].s.decode() in shared
        node.attr["frame_name"].s += b"/towers" if is_shared else f"/tower_{tower}".encode()
    if node.op == "RefEnter":  # Memory does not cross devices; here, it is only waited for.
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
    """Lets a node of a constant pass something else on, by name, in the rounds in which it is."""
    dtype = node.attr["dtype"].type
    waits = list(node.input)
    node.op = "Identity"
    node.attr.clear()
    node.attr["T"].type = dtype
    del node.input[:]
    node.input.extend([given, *waits])
