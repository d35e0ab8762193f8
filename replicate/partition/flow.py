"""Loops and conditions of TensorFlow 1 in a draft, as `tf.while_loop` and `tf.cond` make them."""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat.node_defs import node_of
from replicate.partition.draft_values import Context, Value
from replicate.partition.drafts import Draft

_SCALAR = tf.TensorShape(()).as_proto()


def branches(draft: Draft, predicate: Value, name: str, outer: Context | None) -> list[Context]:
    """Begins a condition.

    Args:
        draft: The `Draft`.
        predicate: Boolean scalar.
        name: Prefix of names, such as "cond/".
        outer: The `Context` around it, None if there is none.

    Returns:
        The contexts of its branches, first of the one that runs if the predicate does not hold.
    """
    boolean = {"T": tf.bool}
    (held,) = draft.add("Identity", f"{name}pred_id", [predicate], (), outer, **boolean)
    sides = draft.put(node_of("Switch", f"{name}Switch", boolean), [held, held], (), outer)
    found = []
    for index, side in enumerate(sides):
        context = Context(outer, predicate=held, branch=index)
        node = node_of("Identity", f"{name}switch_{'ft'[index]}", boolean)
        context.pivot = draft.put(node, [side], (), context)[0].node
        found.append(context)
    return found


def merge(
    draft: Draft, values: Sequence[Value], contexts: Sequence[Context], name: str, shape: Any
) -> Value:
    """Returns the value of the branch that runs.

    Args:
        draft: The `Draft`.
        values: A value of each branch.
        contexts: See `branches`.
        name: Likewise.
        shape: The `TensorShapeProto` of the result, None if it is not known.
    """
    taken = [draft.within(value, context) for value, context in zip(values, contexts)]
    attrs = {"T": values[0].dtype, "N": len(values)}
    return draft.put(
        node_of("Merge", f"{name}Merge", attrs, shape, _SCALAR), taken, (), contexts[0].outer
    )[0]


class Loop:
    """A loop: first write its condition, then its rounds.

    Args:
        draft: The `Draft`.
        begins: The values that its variables begin with.
        shapes: The `TensorShapeProto`s that these have in all rounds, None for one not known.
        rounds: The number of rounds that may run at once.
        name: Prefix of names, such as "while/".
        outer: The `Context` around it, None if there is none.

    Attributes:
        context: Its `Context`.
        variables: The variables in the condition.
    """

    def __init__(
        self,
        draft: Draft,
        begins: Sequence[Value],
        shapes: Sequence[Any],
        rounds: int,
        name: str,
        outer: Context | None,
    ) -> None:
        self._draft = draft
        self._name = name
        self._merges: list[Any] = []
        self._ends: list[Value] = []
        frame = f"{draft.scope}/{name}while_context"
        self.context = Context(outer, frame=frame, rounds=rounds)
        self.variables: list[Value] = []
        for value, shape in zip(begins, shapes):
            attrs = {"T": value.dtype, "frame_name": frame, "parallel_iterations": rounds}
            entered = self._put("Enter", [draft.within(value, outer)], attrs, shape)
            attrs = {"T": value.dtype, "N": 2}
            node = node_of("Merge", f"{name}Merge", attrs, shape, _SCALAR)
            self.variables.append(draft.put(node, entered, (), self.context)[0])
            self._merges.append(node)
        self.context.pivot = self.variables[0].node

    def begin_round(self, goes_on: Value) -> list[Value]:
        """Ends the condition, a Boolean scalar; returns the variables in a round."""
        again = self._put("LoopCond", [self._draft.within(goes_on, self.context)], {})
        now = []
        for value in self.variables:
            end, begin = self._put("Switch", [value, *again], {"T": value.dtype})
            self._ends.append(end)
            now += self._put("Identity", [begin], {"T": value.dtype})
        self.context.pivot = now[0].node
        return now

    def end_round(self, values: Sequence[Value]) -> list[Value]:
        """Ends the loop, with the variables of the next round; returns their last values."""
        found = []
        for value, node, end in zip(values, self._merges, self._ends):
            attrs = {"T": value.dtype}
            taken = self._draft.within(value, self.context)
            node.input.append(self._put("NextIteration", [taken], attrs)[0].name)
            found += self._put("Exit", [end], attrs)
        return found

    def _put(
        self, kind: str, inputs: Sequence[Value], attrs: dict[str, Any], *shapes: Any
    ) -> list[Value]:
        node = node_of(kind, f"{self._name}{kind}", attrs, *shapes)
        return self._draft.put(node, inputs, (), self.context)
