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
from replicate.compat.function_graphs import Body
from replicate.partition import bodies as bodies_lib
from replicate.partition import flow
from replicate.partition.bodies import Bodies
from replicate.partition.draft_values import Context, Value
from replicate.partition.drafts import Draft
from replicate.partition.optionals import Optionals


class Inlined(NamedTuple):
    """Nodes in place of an operation that calls functions.

    Attributes:
        outputs: The values that replace its outputs.
        done: The nodes to wait for in its place.
    """

    outputs: list[Value]
    done: list[str]


class Place(NamedTuple):
    """Where nodes are added.

    Attributes:
        scope: Prefix of their names, such as "body/".
        device: The device string.
        is_quiet: Whether no operation there, or before it, writes state that could be read there.
        context: The `Context`, None outside of loops and conditions.
    """

    scope: str
    device: str
    is_quiet: bool
    context: Context | None


class Inliner:
    """Writes nodes from the bodies of functions.

    Args:
        graph: The graph.
        bodies: The `Bodies` of its functions.
        draft: The `Draft` that takes the nodes.
        optionals: The `Optionals` of the graph.
    """

    def __init__(self, graph: Any, bodies: Bodies, draft: Draft, optionals: Optionals) -> None:
        self._graph = graph
        self._bodies = bodies
        self._draft = draft
        self._optionals = optionals

    def lower(
        self, node: Any, inputs: Sequence[Value], waits: Sequence[str], place: Place
    ) -> Inlined:
        """Writes the replacement of a node that can be lowered.

        Args:
            node: The `NodeDef`.
            inputs: The values that it takes.
            waits: The nodes that it waits for.
            place: The `Place` of the new nodes.
        """
        names = bodies_lib.functions_of(node)
        if node.op in bodies_lib.CALLS:
            return self._call(self._bodies.body_of(names[0]), inputs, waits, place)
        if len(names) == 1:  # A `Case` with a single branch.
            before = [*waits, inputs[0].node]
            return self._call(self._bodies.body_of(names[0]), inputs[1:], before, place)
        if node.op in bodies_lib.LOOPS:
            return self._loop(node, inputs, waits, place)
        first = self._after(inputs[0], waits, place)
        run = [
            functools.partial(self._branch, name, inputs[1:], place, index)
            for index, name in enumerate(names)
        ]
        shapes = list(node.attr["_output_shapes"].list.shape)
        if node.op in bodies_lib.CONDITIONS:
            return self._condition(self._truth(first, place), run[1], run[0], place, shapes)
        return self._case(first, run, place, shapes)

    def _call(
        self, body: Body, inputs: Sequence[Value], waits: Sequence[str], place: Place
    ) -> Inlined:
        # One `NoOp` waits for all inputs, and stateful operations for it. It is left out if
        # nobody could notice that they run earlier.
        start: list[str] = []
        if waits or any(self._is_noticed(node, place) for node in body.nodes):
            first = [*waits, *(value.node for value in inputs)]
            start = [self._wait(first, place)] if first else []
        values = dict(zip(body.arguments, inputs))
        # By node: the nodes to wait for in its place, since it may become several.
        done = {name.split(":")[0]: [value.node] for name, value in values.items()}
        for node in body.nodes:
            given = [name for name in node.input if not name.startswith("^")]
            taken = [values[bodies_lib.full(name)] for name in given]
            after = [one for name in node.input[len(given) :] for one in done[name[1:]]]
            if start and (waits or self._is_noticed(node, place)) and self._has_state(node):
                after += start
            made = self._node(node, taken, after, place)
            for index, value in enumerate(made.outputs):
                values[f"{node.name}:{index}"] = value
            done[node.name] = made.done
        outputs = self._returned(body, values, done, start if waits else [], place)
        last = [value.node for value in outputs]
        last += [one for name in body.waits for one in done[name]] + start
        return Inlined(outputs, list(dict.fromkeys(last)) or [value.node for value in inputs])

    def _node(self, node: Any, inputs: list[Value], waits: list[str], place: Place) -> Inlined:
        device = graph_lib.device_within(node.device, place.device)
        if self._bodies.can_be_lowered(node):
            inner = place._replace(scope=f"{place.scope}{node.name}/", device=device)
            return self.lower(node, inputs, waits, inner)
        found = self._optionals.value(node, inputs, self._draft)
        if found is not None:  # An optional is not needed, see `optionals`.
            value = self._after(found.value, [*waits, *found.waits], place, always=True)
            return Inlined([value], [value.node])
        made = tf.NodeDef()
        made.CopyFrom(node)
        del made.input[:]
        made.name, made.device = f"{place.scope}{node.name}", device
        outputs = self._draft.node(made, inputs, waits, place.context)
        return Inlined(outputs, [made.name])

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
        self,
        body: Body,
        values: dict[str, Value],
        done: dict[str, list[str]],
        start: list[str],
        place: Place,
    ) -> list[Value]:
        """Returns the results of a body, which wait for the operations that always run."""
        leads = bodies_lib.leads(body)
        always = list(dict.fromkeys([one for name in body.waits for one in done[name]] + start))
        last = always
        outputs: list[Value] = []
        for name in body.outputs:
            there = leads.get(name.split(":")[0], frozenset())
            is_last = not start and there.issuperset(body.waits)
            # One `NoOp` for all results saves edges: each would wait for many operations.
            if not is_last and len(last) > 1:
                last = [self._wait(always, place)]
            value = values[bodies_lib.full(name)]
            outputs.append(self._after(value, () if is_last else last, place))
        return outputs

    def _condition(
        self,
        predicate: Value,
        otherwise: Callable[[Context], Inlined],
        then: Callable[[Context], Inlined],
        place: Place,
        shapes: Sequence[Any],
    ) -> Inlined:
        """Writes a condition; an extra output of each branch waits for all that it has to run."""
        contexts = flow.branches(self._draft, predicate, place.scope, place.context)
        found: list[list[Value]] = []
        for index, (run, context) in enumerate(zip((otherwise, then), contexts)):
            with self._optionals.branch(predicate, index, self._draft):
                made = run(context)
            has_run = self._draft.constant(True, tf.bool, place.scope, made.done, context)
            found.append([*made.outputs, has_run])
        known = [*shapes, None] if len(shapes) == len(found[0]) - 1 else [None] * len(found[0])
        outputs = [
            flow.merge(self._draft, values, contexts, place.scope, shape)
            for values, shape in zip(zip(*found), known)
        ]
        self._optionals.are_merged(outputs, predicate, self._draft)
        return Inlined(outputs[:-1], [outputs[-1].node])

    def _branch(
        self, name: str, inputs: Sequence[Value], place: Place, index: int, context: Context
    ) -> Inlined:
        inner = place._replace(scope=f"{place.scope}branch_{index}/", context=context)
        return self._call(self._bodies.body_of(name), inputs, (), inner)

    def _case(
        self,
        branch: Value,
        run: Sequence[Callable[[Context], Inlined]],
        place: Place,
        shapes: Sequence[Any],
        index: int = 0,
    ) -> Inlined:
        """Writes nested conditions; numbers out of range lead to the last branch."""

        def rest(context: Context) -> Inlined:
            if index == len(run) - 2:
                return run[-1](context)
            inner = place._replace(context=context)
            return self._case(branch, run, inner, shapes, index + 1)

        number = self._draft.constant(index, tf.int32, place.scope, (), place.context)
        name = f"{place.scope}Equal"
        (this,) = self._draft.add(
            "Equal", name, [branch, number], (), place.context, T=number.dtype
        )
        return self._condition(this, rest, run[index], place, shapes)

    def _loop(
        self, node: Any, inputs: Sequence[Value], waits: Sequence[str], place: Place
    ) -> Inlined:
        """Writes a loop; values that no round changes are not variables of it."""
        holds, body = (self._bodies.body_of(name) for name in bodies_lib.functions_of(node))
        begins = [self._after(value, waits, place) for value in inputs]
        same = bodies_lib.unchanged(body)
        changed = [index for index in range(len(begins)) if index not in same]
        shapes = bodies_lib.shapes_in_all_rounds(node, body)

        def every(variables: Sequence[Value]) -> list[Value]:
            now = list(begins)
            for index, value in zip(changed, variables):
                now[index] = value
            return now

        loop = flow.Loop(
            self._draft,
            [begins[index] for index in changed],
            [shapes[index] for index in changed],
            node.attr["parallel_iterations"].i or 10,
            place.scope,
            place.context,
        )
        inner = place._replace(scope=f"{place.scope}cond/", context=loop.context)
        made = self._call(holds, every(loop.variables), (), inner)
        variables = loop.begin_round(self._truth(made.outputs[0], inner))
        inner = inner._replace(scope=f"{place.scope}body/")
        made = self._call(body, every(variables), (), inner)
        ends = loop.end_round([made.outputs[index] for index in changed])
        last = [value.node for value in ends]
        outputs = every(ends)
        if self._bodies.writes(node):
            # Results that no round changes are there before the loop ends, but must not be used.
            outputs = [
                self._after(value, last, place) if index in same else value
                for index, value in enumerate(outputs)
            ]
        return Inlined(outputs, last)

    def _wait(self, names: Sequence[str], place: Place) -> str:
        """Returns an operation that waits for others."""
        return self._draft.wait(names, f"{place.scope}NoOp", place.context)

    def _after(
        self, value: Value, waits: Sequence[str], place: Place, always: bool = False
    ) -> Value:
        """Returns a value that waits for operations; a new one if there are any, or `always`."""
        if not waits and not always:
            return value
        name, dtype = f"{place.scope}Identity", value.dtype
        return self._draft.add("Identity", name, [value], waits, place.context, T=dtype)[0]

    def _truth(self, value: Value, place: Place) -> Value:
        """Returns a condition as a Boolean scalar, converted as TensorFlow 2 does.

        Raises:
            tf.errors.NotFoundError: If this TensorFlow cannot convert it, as 1.15.
        """
        if value.is_scalar and value.dtype == tf.bool:
            return value
        name = f"{place.scope}ToBool"
        return self._draft.add("ToBool", name, [value], (), place.context, T=value.dtype)[0]
