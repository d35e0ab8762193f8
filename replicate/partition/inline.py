"""Inlines functions into the graph: calls, conditions and loops become operations.

A stateful operation of the body waits for all inputs and control inputs of the call. The results of
the call wait for the operations of the body that always run. So the order relative to operations
before and after the call stays the same.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import function_graphs
from replicate.compat import graph as graph_lib
from replicate.compat.function_graphs import Body, before
from replicate.partition import bodies as bodies_lib
from replicate.partition.bodies import Bodies
from replicate.partition.optionals import Optionals


class Made(NamedTuple):
    """Replacement of an operation that calls functions.

    Attributes:
        outputs: The tensors that replace its outputs.
        done: The operations to wait for in its place.
    """

    outputs: list[Any]
    done: list[Any]


class Place(NamedTuple):
    """Where operations are made.

    Attributes:
        scope: The name scope.
        device: The device string.
        is_quiet: Whether no operation there, or before it, writes state that could be read there.
    """

    scope: str
    device: str
    is_quiet: bool


class Inliner:
    """Makes operations from the bodies of functions.

    Args:
        graph: The graph.
        bodies: The `Bodies` of its functions.
    """

    def __init__(self, graph: Any, bodies: Bodies) -> None:
        self._graph = graph
        self._bodies = bodies
        self._optionals = Optionals()

    def lower(self, node: Any, inputs: Sequence[Any], waits: Sequence[Any], place: Place) -> Made:
        """Makes the replacement of a node that can be lowered.

        Args:
            node: The `NodeDef`.
            inputs: The tensors that it takes.
            waits: The operations that it waits for.
            place: The `Place` of the new operations.
        """
        names = bodies_lib.functions_of(node)
        if node.op in bodies_lib.CALLS:
            return self._call(self._bodies.body_of(names[0]), inputs, waits, place)
        if len(names) == 1:  # A `Case` with a single branch.
            before = [*waits, inputs[0].op]
            return self._call(self._bodies.body_of(names[0]), inputs[1:], before, place)
        with tf.name_scope(f"{place.scope}/"):
            if node.op in bodies_lib.LOOPS:
                return self._loop(node, inputs, waits, place)
            first = _after(inputs[0], waits)
            run = [
                functools.partial(self._branch, name, inputs[1:], place, index)
                for index, name in enumerate(names)
            ]
            if node.op in bodies_lib.CONDITIONS:
                return self._condition(_truth(first), run[0], run[1], place)
            return self._case(first, run, place)

    def _call(self, body: Body, inputs: Sequence[Any], waits: Sequence[Any], place: Place) -> Made:
        with tf.name_scope(f"{place.scope}/"):
            # One `NoOp` waits for all inputs, and stateful operations for it. It is left out if
            # nobody could notice that they run earlier.
            start: list[Any] = []
            if waits or any(self._is_noticed(node, place) for node in body.nodes):
                first = [*waits, *(tensor.op for tensor in inputs)]
                if first:
                    with tf.control_dependencies(list(dict.fromkeys(first))):
                        start = [tf.no_op()]
            values = dict(zip(body.arguments, inputs))
            # By node: the operations to wait for in its place, since it may become several.
            done = {name.split(":")[0]: [tensor.op] for name, tensor in values.items()}
            for node in body.nodes:
                given = [name for name in node.input if not name.startswith("^")]
                taken = [values[bodies_lib.full(name)] for name in given]
                after = [one for name in node.input[len(given) :] for one in done[name[1:]]]
                if start and (waits or self._is_noticed(node, place)) and self._has_state(node):
                    after += start
                made = self._node(node, taken, list(dict.fromkeys(after)), place)
                for index, tensor in enumerate(made.outputs):
                    name = f"{node.name}:{index}"
                    values[name] = _with_shape(tensor, body.shapes.get(name))
                done[node.name] = made.done
            outputs = self._returned(body, values, done, start if waits else [])
        last = [tensor.op for tensor in outputs]
        last += [one for name in body.waits for one in done[name]] + start
        return Made(outputs, list(dict.fromkeys(last)) or [tensor.op for tensor in inputs])

    def _node(self, node: Any, inputs: list[Any], waits: list[Any], place: Place) -> Made:
        device = graph_lib.device_within(node.device, place.device)
        if self._bodies.can_be_lowered(node):
            inner = Place(f"{place.scope}/{node.name}", device, place.is_quiet)
            return self.lower(node, inputs, waits, inner)
        found = self._optionals.value(node, inputs)
        if found is not None:  # An optional is not needed, see `optionals`.
            with tf.control_dependencies([*waits, *found.waits]):
                made = tf.identity(found.tensor, name=node.name).op
        else:
            made = function_graphs.make(self._graph, node, inputs, waits, device, node.name)
        return Made(list(made.outputs), [made])

    def _has_state(self, node: Any) -> bool:
        return function_graphs.is_stateful(self._graph, node) or node.op in bodies_lib.TYPES

    def _is_noticed(self, node: Any, place: Place) -> bool:
        """Whether it could make a difference that a node runs before all inputs are there."""
        if bodies_lib.is_read(node):
            return not place.is_quiet
        if node.op in bodies_lib.TYPES:
            return not place.is_quiet or self._bodies.writes(node)
        return self._bodies.writes(node)

    def _returned(
        self, body: Body, values: dict[str, Any], done: dict[str, list[Any]], start: list[Any]
    ) -> list[Any]:
        """Returns the results of a body, which wait for the operations that always run."""
        leads = _leads(body)
        always = list(dict.fromkeys([one for name in body.waits for one in done[name]] + start))
        last = always
        outputs: list[Any] = []
        for name in body.outputs:
            there = leads.get(name.split(":")[0], frozenset())
            is_last = not start and there.issuperset(body.waits)
            # One `NoOp` for all results saves edges: each would wait for many operations.
            if not is_last and len(last) > 1:
                with tf.control_dependencies(always):
                    last = [tf.no_op()]
            outputs.append(_after(values[bodies_lib.full(name)], () if is_last else last))
        return outputs

    def _condition(
        self, predicate: Any, then: Callable[[], Made], otherwise: Callable[[], Made], place: Place
    ) -> Made:
        """Makes a condition; an extra output of each branch waits for all that it has to run."""

        def run(branch: Callable[[], Made], index: int) -> list[Any]:
            with self._optionals.branch(predicate, index):
                made = branch()
            with tf.control_dependencies(made.done):
                return [*made.outputs, tf.constant(True)]

        branches = (lambda: run(then, 1)), (lambda: run(otherwise, 0))
        outputs = tf.cond(predicate, *branches, strict=True, name=f"{place.scope}/")
        self._optionals.are_merged(outputs, predicate)
        return Made(outputs[:-1], [outputs[-1].op])

    def _branch(self, name: str, inputs: Sequence[Any], place: Place, index: int) -> Made:
        inner = place._replace(scope=f"{place.scope}/branch_{index}")
        return self._call(self._bodies.body_of(name), inputs, (), inner)

    def _case(
        self, branch: Any, run: Sequence[Callable[[], Made]], place: Place, index: int = 0
    ) -> Made:
        """Makes nested conditions; numbers out of range lead to the last branch."""
        if index == len(run) - 1:
            return run[index]()
        rest = functools.partial(self._case, branch, run, place, index + 1)
        return self._condition(tf.equal(branch, index), run[index], rest, place)

    def _loop(self, node: Any, inputs: Sequence[Any], waits: Sequence[Any], place: Place) -> Made:
        """Makes a loop; values that no round changes are not variables of it."""
        holds, body = (self._bodies.body_of(name) for name in bodies_lib.functions_of(node))
        begins = [_after(tensor, waits) for tensor in inputs]
        same = bodies_lib.unchanged(body)
        changed = [index for index in range(len(begins)) if index not in same]
        shapes = _shapes(node, begins)

        def every(variables: Sequence[Any]) -> list[Any]:
            now = list(begins)
            for index, tensor in zip(changed, variables):
                now[index] = tensor
            return now

        def has_round(*variables: Any) -> Any:
            inner = place._replace(scope=f"{place.scope}/cond")
            return _truth(self._call(holds, every(variables), (), inner).outputs[0])

        def one_round(*variables: Any) -> list[Any]:
            inner = place._replace(scope=f"{place.scope}/body")
            made = self._call(body, every(variables), (), inner)
            return [_with_shape(made.outputs[index], shapes[index]) for index in changed]

        ends = tf.while_loop(
            has_round,
            one_round,
            [begins[index] for index in changed],
            [shapes[index] for index in changed],
            parallel_iterations=node.attr["parallel_iterations"].i or 10,
            back_prop=False,  # Gradients have been built already.
            name=f"{place.scope}/",
            return_same_structure=True,
        )
        last = [tensor.op for tensor in ends]
        outputs = every(ends)
        if self._bodies.writes(node):
            # Results that no round changes are there before the loop ends, but must not be used.
            outputs = [_after(each, last) if i in same else each for i, each in enumerate(outputs)]
        return Made(outputs, last)


def _leads(body: Body) -> dict[str, frozenset[str]]:
    """Returns, by node, the nodes that always run and lead to it, including itself."""
    always = set(body.waits)
    found: dict[str, frozenset[str]] = {}
    for node in body.nodes:
        itself = {node.name} & always
        found[node.name] = frozenset(itself).union(
            *(found.get(name, frozenset()) for name in before(node))
        )
    return found


def _after(tensor: Any, waits: Sequence[Any]) -> Any:
    """Returns a tensor that waits for operations."""
    if not waits:
        return tensor
    with tf.control_dependencies(list(waits)):
        return tf.identity(tensor)


def _truth(tensor: Any) -> Any:
    """Returns a condition as a boolean scalar, converted as TensorFlow 2 does.

    Raises:
        AttributeError: If this TensorFlow cannot convert it, such as 1.15.
    """
    if tensor.dtype == tf.bool and tensor.shape.rank == 0:
        return tensor
    return tf.raw_ops.ToBool(input=tensor)


def _shapes(node: Any, begins: Sequence[Any]) -> list[Any]:
    """Returns shapes of the variables of a loop that hold in all of its rounds."""
    said = [tf.TensorShape(shape) for shape in node.attr["output_shapes"].list.shape]
    if len(said) != len(begins):
        return [tf.TensorShape(None)] * len(begins)
    return [_in_both(one, tensor.shape) for one, tensor in zip(said, begins)]


def _in_both(one: Any, other: Any) -> Any:
    if one.rank is None or one.rank != other.rank:
        return tf.TensorShape(None)
    pairs = zip(one.as_list(), other.as_list())
    return tf.TensorShape([size if size == also else None for size, also in pairs])


def _with_shape(tensor: Any, shape: Any) -> Any:
    """Sets the static shape of a tensor if it is compatible, and returns the tensor."""
    if shape is not None and tensor.shape.is_compatible_with(shape):
        tensor.set_shape(shape)
    return tensor
