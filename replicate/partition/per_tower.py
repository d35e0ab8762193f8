"""Finds the per-tower tensors in the program of one tower, whose values differ among towers."""

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
    """The result of inference for a program.

    Attributes:
        operations: Its operations in topological order, those of a loop together.
        layouts: The `Layouts` of their tensors.
        may_be_dead: Operations in towers that a condition of TensorFlow 1 may skip.
        arrays: The makers of arrays that are in towers.
    """

    operations: Sequence[Any]
    layouts: Layouts
    may_be_dead: frozenset[Any]
    arrays: frozenset[Any]


def infer(program: Program, first: int) -> Inferred:
    """Returns the layouts of a program's tensors: per-tower, or the same for all towers.

    A tensor is per-tower if it depends on a tower's rows, its index, or random numbers. Operations
    that do not depend on any of these run once.

    Args:
        program: The `Program`.
        first: Index in the graph of its first operation.
    """
    operations = in_order(program.graph.get_operations()[first:])
    learnt: frozenset[Any] = frozenset()
    # An array may be used before a per-tower value is written to it, so its first uses are only
    # right in the next pass.
    while True:
        one_pass = _Pass(program, learnt)
        one_pass.run(operations)
        if one_pass.arrays <= learnt:
            return one_pass.inferred(operations)
        learnt |= one_pass.arrays


def extend(inferred: Inferred, program: Program, first: int) -> Inferred:
    """Returns the result of `infer` after operations were added to the program.

    Args:
        inferred: The result without them.
        program: The `Program`.
        first: Index in the graph of its first operation.
    """
    added = program.graph.get_operations()[first + len(inferred.operations) :]
    if any(graph_lib.in_while_loop(operation) for operation in added):
        return infer(program, first)  # The gradient of a loop adds operations to the loop itself.
    added = in_order(added)
    one_pass = _Pass(program, inferred.arrays, inferred)
    one_pass.run(added)
    if one_pass.arrays <= inferred.arrays:
        return one_pass.inferred([*inferred.operations, *added])
    return infer(program, first)


class _Pass:
    """One pass over the operations, or over those that were added to others."""

    def __init__(
        self, program: Program, arrays: frozenset[Any], before: Inferred | None = None
    ) -> None:
        self._program = program
        self._sources = tuple(one.tensor for one in program.per_tower)
        self._known = arrays
        self.arrays: set[Any] = set()
        self._layouts: dict[Any, Layout] = {}
        self._strategies: dict[Any, Strategy] = {}
        self._may_be_dead: set[Any] = set()  # Those that a condition of TensorFlow 1 may skip.
        if before is not None:
            self._layouts.update(before.layouts.by_reference)
            self._strategies.update(before.layouts.strategies)
            self._may_be_dead.update(before.may_be_dead)
        self._layouts.update((graph_lib.reference(one), PER_TOWER) for one in self._sources)
        self._given = {tensor.op for tensor in self._sources}
        self._given.update(one.mark for one in program.of_towers)
        self._put_together = {operation for operation, _ in program.layouts}
        self._runs_once = program.operations_run_once()
        self._first_values = _leading_to_initial_values()

    def inferred(self, operations: Sequence[Any]) -> Inferred:
        sources = tuple(Source(tensor, 0) for tensor in self._sources)
        facts = Facts(self._program.rows.dim)
        layouts = Layouts(facts, sources, self._strategies, self._layouts, collections.Counter())
        return Inferred(operations, layouts, frozenset(self._may_be_dead), self._known)

    def run(self, operations: Sequence[Any]) -> None:
        for name, group in itertools.groupby(operations, key=graph_lib.outermost_loop):
            if name is None:
                for operation in group:
                    if self._differs(operation):
                        self._enter(operation)
                continue
            loop = list(group)
            if any(self._differs(operation) for operation in loop):
                # All of the loop runs in towers. Outputs are marked first, since a round begins
                # with tensors that come last.
                for tensor in itertools.chain.from_iterable(one.outputs for one in loop):
                    self._layouts[graph_lib.reference(tensor)] = PER_TOWER
                for operation in loop:
                    self._enter(operation)

    def _differs(self, operation: Any) -> bool:
        """Whether an operation runs in each tower, since its result differs among towers."""
        if operation in self._given:
            return False
        if operation in self._put_together:
            return True  # It is a mark of a meeting, even if all towers have the same value.
        inputs = operation.inputs
        if any(self._layout_of(tensor) != WHOLE for tensor in inputs):
            # The result of a meeting is whole, so its consumers run once.
            return not any(tensor.op in self._put_together for tensor in inputs)
        # A `NoOp` is copied if it waits for towers, others only if they may be dead with those.
        waits = self._strategies if operation.type == "NoOp" else self._may_be_dead
        if any(before in waits for before in operation.control_inputs):
            return True
        if array_of(operation) in self._known or self._goes_back(operation):
            return True
        # An iterator calls functions, but draws no random numbers itself. Initial values of
        # variables, and numbers drawn in `running_once`, are the same for all towers.
        draws = state.draws(operation) and not state.makes_state(operation)
        draws = draws and operation not in self._runs_once
        return draws and operation not in self._first_values

    def _goes_back(self, operation: Any) -> bool:
        """Whether an operation is the gradient of a `tf.py_function` that towers call.

        It uses the tape of that call. Only its control input shows the connection.
        """
        before = operation.control_inputs if operation.type == "EagerPyFunc" else ()
        return any(one.type == "EagerPyFunc" and one in self._strategies for one in before)

    def _enter(self, operation: Any) -> None:
        demands = tuple(
            PER_TOWER if self._layout_of(t) != WHOLE else WHOLE for t in operation.inputs
        )
        # Per-tower tensors and sums over towers may pass through one `IdentityN`.
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
    """Returns the operations that compute initial values of variables."""
    variables = [*tf.global_variables(), *tf.local_variables()]
    given = [getattr(variable, "initializer", None) for variable in variables]
    made = [getattr(one, "op", one) for one in given]
    return ancestors([one for one in made if isinstance(one, tf.Operation)], waits=False)
