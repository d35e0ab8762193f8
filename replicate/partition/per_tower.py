"""Finds what each tower has of its own, in the program of one tower."""

from __future__ import annotations

import collections
import itertools
from typing import Any, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.graphs import ancestors, state
from replicate.layouts import PER_TOWER, WHOLE, Facts, Layout, Layouts, Source, Strategy, array_of
from replicate.partition.order import in_order
from replicate.partition.program import Program


class Inferred(NamedTuple):
    """What is known of a program.

    Attributes:
        operations: Its operations, each after all that leads to it, those of a loop together.
        layouts: The `Layouts` of their tensors.
        may_be_dead: Those that a condition of TensorFlow 1 may skip.
        arrays: The arrays that towers have.
    """

    operations: Sequence[Any]
    layouts: Layouts
    may_be_dead: frozenset[Any]
    arrays: frozenset[Any]


def infer(program: Program, first: int) -> Inferred:
    """Returns the layouts of a program's tensors: each tower's own, or the same for all.

    A tower has its own of what its rows enter, or its index, or random numbers, and of whatever is
    made of that. What no such value enters runs once.

    Args:
        program: The `Program`.
        first: Index in the graph of its first operation.
    """
    operations = in_order(program.graph.get_operations()[first:])
    learnt: frozenset[Any] = frozenset()
    while True:
        one_pass = _Pass(program, learnt)
        one_pass.run(operations)
        if one_pass.arrays <= learnt:
            return one_pass.inferred(operations)
        learnt |= one_pass.arrays


def extend(inferred: Inferred, program: Program, first: int) -> Inferred:
    """Returns what `infer` does, after operations that the program did not have then.

    Args:
        inferred: What is known of it without them.
        program: The `Program`.
        first: Index in the graph of its first operation.
    """
    added = program.graph.get_operations()[first + len(inferred.operations) :]
    if any(graph_lib.in_while_loop(operation) for operation in added):
        return infer(program, first)  # Gradients of a loop add to what was there.
    added = in_order(added)
    one_pass = _Pass(program, inferred.arrays, inferred)
    one_pass.run(added)
    if one_pass.arrays <= inferred.arrays:
        return one_pass.inferred([*inferred.operations, *added])
    return infer(program, first)


class _Pass:
    """One pass over the operations, or over those that follow on others."""

    def __init__(
        self, program: Program, arrays: frozenset[Any], before: Inferred | None = None
    ) -> None:
        self._program = program
        self._sources = tuple(one.tensor for one in program.per_tower)
        self._known = arrays
        self.arrays: set[Any] = set()
        self._layouts: dict[Any, Layout] = {}
        self._strategies: dict[Any, Strategy] = {}
        self._may_be_dead: set[Any] = set()  # Of these: what a condition of TensorFlow 1 skips.
        if before is not None:
            self._layouts.update(before.layouts.by_reference)
            self._strategies.update(before.layouts.strategies)
            self._may_be_dead.update(before.may_be_dead)
        self._layouts.update((graph_lib.reference(one), PER_TOWER) for one in self._sources)
        self._given = {tensor.op for tensor in self._sources}
        self._given.update(one.mark for one in program.of_towers)
        self._put_together = {operation for operation, _ in program.layouts}
        self._runs_once = program.once()
        self._first_values = _leading_to_initial_values()

    def inferred(self, operations: Sequence[Any]) -> Inferred:
        sources = tuple(Source(tensor, 0) for tensor in self._sources)
        facts = Facts(self._program.rows.dim)
        layouts = Layouts(facts, sources, self._strategies, self._layouts, collections.Counter())
        return Inferred(operations, layouts, frozenset(self._may_be_dead), self._known)

    def run(self, operations: Sequence[Any]) -> None:
        for name, group in itertools.groupby(operations, key=_outermost_loop):
            if name is None:
                for operation in group:
                    if self._differs(operation):
                        self._enter(operation)
                continue
            loop = list(group)
            if any(self._differs(operation) for operation in loop):
                # First of all, since a round begins with what the one before ended with.
                for tensor in itertools.chain.from_iterable(one.outputs for one in loop):
                    self._layouts[graph_lib.reference(tensor)] = PER_TOWER
                for operation in loop:
                    self._enter(operation)

    def _differs(self, operation: Any) -> bool:
        if operation in self._given:
            return False
        if operation in self._put_together:
            return True  # Also if it is the same in all towers.
        inputs = operation.inputs
        if any(self._layout_of(tensor) != WHOLE for tensor in inputs):
            # What is put together is taken by what runs once.
            return not any(tensor.op in self._put_together for tensor in inputs)
        waits = self._strategies if operation.type == "NoOp" else self._may_be_dead
        if any(before in waits for before in operation.control_inputs):
            return True
        if array_of(operation) in self._known or self._goes_back(operation):
            return True
        # An iterator that calls functions draws nothing.
        draws = state.draws(operation) and not state.makes_state(operation)
        draws = draws and operation not in self._runs_once
        return draws and operation not in self._first_values

    def _goes_back(self, operation: Any) -> bool:
        """Whether an operation is the gradient of a `tf.py_function` that towers call.

        It takes the tape of that, of which only the control input tells.
        """
        before = operation.control_inputs if operation.type == "EagerPyFunc" else ()
        return any(one.type == "EagerPyFunc" and one in self._strategies for one in before)

    def _enter(self, operation: Any) -> None:
        demands = tuple(
            PER_TOWER if self._layout_of(t) != WHOLE else WHOLE for t in operation.inputs
        )
        # Beside what each tower has, sums over towers pass through an `IdentityN`.
        passes = operation.type == "IdentityN"
        made = []
        for index, tensor in enumerate(operation.outputs):
            key = graph_lib.reference(tensor)
            otherwise = demands[index] if passes else PER_TOWER
            self._layouts[key] = self._program.layouts.get(key, otherwise)
            made.append(self._layouts[key])
        self._strategies[operation] = Strategy(demands, tuple(made))
        before = [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]
        is_skipped = operation.type == "Switch" or not self._may_be_dead.isdisjoint(before)
        if is_skipped and operation.type != "Merge" and not graph_lib.in_while_loop(operation):
            self._may_be_dead.add(operation)
        maker = array_of(operation)
        if maker is not None:
            self.arrays.add(maker)

    def _layout_of(self, tensor: Any) -> Layout:
        return self._layouts.get(graph_lib.reference(tensor), WHOLE)


def _leading_to_initial_values() -> set[Any]:
    """Returns the operations that make what variables begin with."""
    variables = [*tf.global_variables(), *tf.local_variables()]
    given = [getattr(variable, "initializer", None) for variable in variables]
    made = [getattr(one, "op", one) for one in given]
    return ancestors([one for one in made if isinstance(one, tf.Operation)], waits=False)


def _outermost_loop(operation: Any) -> Any:
    found = graph_lib.loops_of(operation)
    return found[0] if found else None
