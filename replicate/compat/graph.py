"""Functions on a TensorFlow graph under construction that have no public name."""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, ContextManager, Hashable, Iterable, Iterator, Sequence

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import importer
from tensorflow.python.util import nest

from replicate.compat import op_types

try:
    from tensorflow.python.eager import record
except ImportError:  # TensorFlow 2.12 and older
    from tensorflow.python.eager import tape as record


# Types of operations by which a value, or the memory of a variable, enters a loop.
ENTER = frozenset(["Enter", "RefEnter"])
EXIT = frozenset(["Exit", "RefExit"])


@contextlib.contextmanager
def entered_once(graph: tf.Graph) -> Iterator[None]:
    """A scope in which entering `graph` again is cheap if it is the current graph.

    TensorFlow enters it in every `tf.init_scope`, and whenever a variable is hashed or compared:
    `tf.layers` compares all variables for each new weight.
    """
    enter = graph.as_default
    entered = contextlib.nullcontext(graph)
    switches = context.context().context_switches  # Belongs to the current thread.

    def enter_unless_entered() -> ContextManager[tf.Graph]:
        # Entering another graph, a function or eager mode adds a switch.
        if switches.stack and switches.stack[-1].device_stack is graph._device_function_stack:
            return entered
        return enter()

    graph.as_default = enter_unless_entered
    try:
        with enter():  # `tf.init_scope` later calls `as_default` as it is at this point.
            yield
    finally:
        del graph.as_default


def has_run_eagerly() -> bool:
    """Whether eager mode is on, and operations have run in it."""
    return context.context()._initialized and tf.executing_eagerly()


class Scopes:
    """The device scopes and colocations that are open in a graph when this object is made."""

    def __init__(self, graph: tf.Graph) -> None:
        self._graph = graph
        self._devices = graph._device_function_stack.copy()
        self._colocation = graph._colocation_stack.copy()

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """A scope in which only these are open."""
        graph = self._graph
        saved = graph._device_function_stack, graph._colocation_stack
        graph._device_function_stack = self._devices.copy()
        graph._colocation_stack = self._colocation.copy()
        try:
            yield
        finally:
            graph._device_function_stack, graph._colocation_stack = saved


@contextlib.contextmanager
def outside_of_scopes(graph: tf.Graph) -> Iterator[None]:
    """A scope without open name scopes, devices, colocations and control dependencies."""
    saved = graph._device_function_stack, graph._colocation_stack
    graph._device_function_stack = type(saved[0])()
    graph._colocation_stack = type(saved[1])()
    try:
        with graph.as_default(), tf.control_dependencies(None), tf.name_scope(None):
            yield
    finally:
        graph._device_function_stack, graph._colocation_stack = saved


def free_scope(graph: tf.Graph, wanted: str) -> str:
    """Takes a name scope that does not exist yet, and returns its name."""
    with outside_of_scopes(graph), tf.name_scope(wanted) as chosen:
        return chosen.rstrip("/")


def is_colocating(graph: tf.Graph) -> bool:
    """Whether operations made now are colocated with another one."""
    return any(one is not None for one in graph._colocation_stack.peek_objs())


def in_while_loop(op: tf.Operation) -> bool:
    """Whether an operation belongs to a loop of TensorFlow 1's control flow."""
    flow = op._get_control_flow_context()
    return flow is not None and flow.GetWhileContext() is not None


def runs_in_rounds(op: tf.Operation) -> bool:
    """Whether an operation gives another value in each round of a loop of TensorFlow 1.

    An `Exit` belongs to the loop that it leaves, but gives its value outside of it.
    """
    return len(loops_of(op)) > (op.type == "Exit")


def is_in_control_flow(op: tf.Operation) -> bool:
    """Whether an operation belongs to a `cond` or `while_loop` body of TensorFlow 1."""
    return op._get_control_flow_context() is not None


def is_outside(op: tf.Operation) -> bool:
    """Whether an operation is in no `cond` or `while_loop` of TensorFlow 1, or at a loop's border.

    An `Enter` of the outermost loop may wait for others outside of it, and these for its `Exit`.
    """
    flow = op._get_control_flow_context()
    return flow is None or (op.type in ENTER | EXIT and flow.outer_context is None)


def loops_of(op: tf.Operation) -> list[tuple[str, int]]:
    """Returns the loops of TensorFlow 1 that an operation is in, the outermost first.

    Each is a pair: the name of its frame, and the number of iterations that may run in parallel. An
    `Enter` is in the loop that it leads into, an `Exit` in the one that it leads out of.
    """
    flow = op._get_control_flow_context()
    if flow is None:
        return []
    found = []
    while flow is not None:
        if flow.IsWhileContext():
            found.append((flow.name, flow.parallel_iterations))
        flow = flow.outer_context
    return found[::-1]


def outermost_loop(op: tf.Operation) -> tuple[str, int] | None:
    """Returns the first of `loops_of`, None if an operation is in no loop."""
    found = loops_of(op)
    return found[0] if found else None


def enters_as_a_wait(op: tf.Operation) -> bool:
    """Whether a value enters a loop of TensorFlow 1 only as a control dependency."""
    if op.type not in ENTER:
        return False
    takers = [taker for tensor in op.outputs for taker in tensor.consumers()]
    return bool(takers) and all(
        taker.type == "Identity" and not taker.outputs[0].consumers() for taker in takers
    )


def in_control_flow(graph: tf.Graph) -> bool:
    """Whether ops made now belong to a `cond` or `while_loop` body, or to a function."""
    return tf.get_default_graph() is not graph or graph._get_control_flow_context() is not None


def in_control_flow_v1() -> bool:
    """Whether ops made now belong to a `cond` or `while_loop` body of TensorFlow 1's control flow.

    Bodies of TensorFlow 2's control flow are separate graphs.
    """
    return tf.get_default_graph()._get_control_flow_context() is not None


def tapes_stopped() -> ContextManager[None]:
    """A scope in which no `tf.GradientTape` records."""
    return record.stop_recording()


def record_on_tapes(
    outputs: list[tf.Tensor], inputs: list[tf.Tensor], gradient: Callable[..., list[Any]]
) -> None:
    """Records an operation with a gradient on every open `tf.GradientTape`.

    Args:
        outputs: List of tensors, made while tapes did not record.
        inputs: List of tensors.
        gradient: Function that takes a gradient, or None, for each of `outputs`, and returns the
            list of gradients for `inputs`.
    """
    record.record_operation("CrossTowerSum", outputs, inputs, gradient)


def set_control_inputs(op: tf.Operation, control_inputs: Sequence[tf.Operation]) -> None:
    """Makes the existing operation `op` wait only for `control_inputs`."""
    op._remove_all_control_inputs()
    op._add_control_inputs(control_inputs)


def add_control_inputs(op: tf.Operation, control_inputs: Iterable[tf.Operation]) -> None:
    """Makes the existing operation `op` wait for `control_inputs`."""
    op._add_control_inputs([c for c in control_inputs if c not in op.control_inputs])


def flatten_with_paths(structure: Any) -> list[tuple[str, Any]]:
    """Returns `(path, leaf)` pairs of a nested structure, e.g. `("image/left", tensor)`."""
    return nest.flatten_with_joined_string_paths(structure)


def reference(tensor: Any) -> Hashable:
    """Returns a hashable key for a tensor or variable: tensors may not be hashable themselves."""
    try:
        return tensor.op, tensor.value_index  # Takes a fifth of the time of a reference.
    except AttributeError:  # A variable or an eager tensor.
        return tensor.ref() if hasattr(tensor, "ref") else tensor.experimental_ref()  # 1.15


def constant(tensor: tf.Tensor) -> np.ndarray[Any, Any]:
    """Returns the value of a `Const`, in a tenth of the time that its attribute takes."""
    with c_graph(tensor.graph) as held:
        return np.asarray(
            importer.c_api.TF_TryEvaluateConstant_wrapper(held, tensor._as_tf_output())
        )


def c_graph(graph: tf.Graph) -> ContextManager[Any]:
    """Returns a scope that gives the C++ graph of a Python graph."""
    held = graph._c_graph
    return held.get() if hasattr(held, "get") else contextlib.nullcontext(held)  # 1.15


def id_of(op: tf.Operation) -> int:
    """Returns an operation's number in its graph; later operations have larger ones."""
    return op._id


def count(graph: tf.Graph) -> int:
    """Returns the number of operations of a graph, without making a list of them."""
    if hasattr(graph, "num_operations"):
        return graph.num_operations()
    return len(graph._nodes_by_id)  # TensorFlow 2.12 and older; newer ones make a copy of it.


def last_id(graph: tf.Graph) -> int:
    """Returns the number, by `id_of`, of the newest operation; 0 if there is none."""
    operations = graph.get_operations()
    return id_of(operations[-1]) if operations else 0


def control_outputs(op: tf.Operation) -> list[tf.Operation]:
    """Returns the operations that wait for `op`."""
    return list(op._control_outputs)


def branches_around(op: tf.Operation) -> list[tuple[tf.Tensor, int, tf.Operation]]:
    """Returns the branches of conditions of TensorFlow 1 that an operation is in.

    Each is a predicate, the value for which it is taken, and an operation that is dead otherwise.
    """
    flow, found = op._get_control_flow_context(), []
    while flow is not None:
        if hasattr(flow, "pred") and hasattr(flow, "branch"):
            found.append((flow.pred, flow.branch, flow.pivot.op))
        flow = flow.outer_context
    return found


@functools.lru_cache(maxsize=4096)  # Called for every operation.
def same_device(one: str, other: str) -> bool:
    """Whether two device strings name the same device, maybe in different spellings."""
    first, second = (tf.DeviceSpec.from_string(device) for device in (one, other))
    kinds = first.device_type, second.device_type
    if kinds[0] != kinds[1] or (first.device_index or 0) != (second.device_index or 0):
        return False
    pairs = zip((first.job, first.task), (second.job, second.task))
    return all(a is None or b is None or a == b for a, b in pairs)


def device_within(device: str, around: str) -> str:
    """Returns a device string, completed by that of the surrounding scope."""
    if not device or not around:
        return device or around
    merged = tf.DeviceSpec.from_string(around)
    merged.merge_from(tf.DeviceSpec.from_string(device))
    return merged.to_string()


_REPLACED = "_replicate_replaced"


def set_replaced(op: tf.Operation) -> None:
    """Marks an operation as replaced by others; it stays for code that refers to it."""
    op._set_attr(_REPLACED, tf.AttrValue(b=True))


def is_replaced(op: tf.Operation) -> bool:
    """Whether an operation is marked as replaced by others."""
    return (op.type == "Merge" or op_types.calls_functions(op)) and _REPLACED in op.node_def.attr
