"""Finds the meetings and side effects that lead to an operation.

Two tensors may cross devices in one pack if neither leads to the other, and if the same operations
with side effects run for both. Then the pack changes neither the order of operations, nor the
effects of a session that fetches only one of them.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any, NamedTuple, Sequence

from replicate.compat import graph as graph_lib
from replicate.layouts import SIZE, WHOLE, Layouts, Share
from replicate.partition import branch_bits, effects, initializers, order, readers, sizes


class Origin(NamedTuple):
    """The meetings, and the operations with side effects, that lead to an operation.

    Sets of operations are integers with one bit for each, since there are many of them.

    Attributes:
        meetings: The largest number of meetings on a path to the operation.
        acts: Operations that change state, draw random numbers or have to be fed.
        fails: Operations that may fail.
        reads: Operations that read a variable, which others may write afterwards.
        skipped: Likewise, but by way of an input that a formula replaces.
        branches: Branches of conditions that contain the operation: dead unless all are taken.
    """

    meetings: int = 0
    acts: int = 0
    fails: int = 0
    reads: int = 0
    skipped: int = 0
    branches: int = 0


_NOTHING = Origin()


class Origins:
    """The origins of operations.

    Args:
        operations: The operations, each after those whose outputs it takes.
        layouts: Their `Layouts`.

    Attributes:
        all_control_inputs: By operation that has any: its control inputs.
        needed: By operation: the initializers that need it; see `initializers.needed`.
    """

    def __init__(self, operations: Sequence[Any], layouts: Layouts) -> None:
        self._layouts = layouts
        self._formulas: dict[Any, list[int]] = {}  # Indices of inputs that formulas replace.
        control_inputs = ((one, one.control_inputs) for one in operations)  # New lists: read once.
        self.all_control_inputs = {one: before for one, before in control_inputs if before}
        self._in_place_of_sizes = functools.partial(
            sizes.replaced,
            layouts=layouts,
            control_inputs=self.all_control_inputs,
            pivots=branch_bits.pivots(operations),
        )
        self._found: dict[Any, Origin] = {}
        self._waits: dict[Any, list[Any]] = {}
        given, outside = order.of_the_input(operations, self.all_control_inputs)
        leaving = effects.leaving(operations)
        self._leaving = set(leaving)
        self._actors = [one for one in operations if effects.acts(one) or one in self._leaving]
        self._actors += outside
        self._bits = {operation: 1 << index for index, operation in enumerate(self._actors)}
        self._inside = sum(self._bits[one] for one in self._actors if effects.is_inside(one))
        # The input may fail as well: at its end.
        fallible = [*given, *(one for one in operations if effects.may_fail(one))]
        batches, many = order.batches_of(given)
        self._fallible = {operation: 1 << index for index, operation in enumerate(fallible, many)}
        self._batches = (1 << many) - 1
        for one in [*given, *outside]:
            fails = self._fallible.get(one, 0) | batches.get(one, 0)
            self._found[one] = Origin(acts=self._bits.get(one, 0), fails=fails)
        self._readers = readers.Readers(operations, leaving)
        self._conditions = branch_bits.Branches(operations)
        self.needed = initializers.needed(operations, layouts)
        if order.waits_for_later(operations, self.all_control_inputs):
            self._find(operations, is_loop=True)
            return
        for loop, group in itertools.groupby(operations, key=graph_lib.outermost_loop):
            self._find(list(group), is_loop=loop is not None)

    def _find(self, operations: Sequence[Any], is_loop: bool) -> None:
        """Finds the origins of operations outside of loops, or of all those of a loop."""
        # An edge back to the beginning of a loop comes from an operation after it. Only what takes
        # such an edge may be out of date after a pass.
        late = order.taking_later(operations, self.all_control_inputs) if is_loop else ()
        is_done = False
        while not is_done:
            for operation in operations:
                self._found[operation] = self._origin(operation)
            is_done = all(self._origin(one) == self._found[one] for one in late)

    def origin_of(self, operation: Any) -> Origin:
        """Returns the `Origin` of an operation, an empty one if the operation was not given."""
        return self._found.get(operation, _NOTHING)

    def together(self, tensor: Any) -> Any:
        """Returns a key that is equal for tensors that may cross devices in one pack; see above."""
        origin = self.origin_of(tensor.op)
        needed = self.needed.get(tensor.op, 0)
        # A session that fetches what takes no batch must not take one, either.
        batches = origin.fails & self._batches
        return origin.meetings, origin.acts, batches, self._branches(tensor), needed

    def control_inputs(self, operation: Any) -> Sequence[Any]:
        """Returns the operations that an operation waits for in the graph of one device."""
        return self.all_control_inputs.get(operation, ())

    def reads(self, operation: Any) -> bool:
        """Whether an operation reads a variable when it runs."""
        return self._readers.has(operation)

    def waits(self, operation: Any) -> list[Any]:
        """Returns the control inputs of an operation that can make a difference.

        A control input makes none if it leads to the operation anyway; nor if it changes nothing,
        cannot fail, and reads no variable that could be written too early, such as a reference
        variable's memory. The gradients of an operation wait for each other, for example.
        """
        if operation not in self._waits:
            self._waits[operation] = self._noticed(operation)
        return self._waits[operation]

    def _noticed(self, operation: Any) -> list[Any]:
        if graph_lib.in_while_loop(operation):
            return self._in_round(operation)
        control_inputs = self.control_inputs(operation)
        if not control_inputs:
            return []
        acts, fails, reads, dead = 0, 0, 0, 0
        for index, tensor in enumerate(operation.inputs):
            if self._is_formula(operation, index):
                continue  # Operations that lead to the tensor do not lead to its formula.
            origin = self.origin_of(tensor.op)
            acts, fails, reads = acts | origin.acts, fails | origin.fails, reads | origin.reads
            dead |= self._branches(tensor)
        kept = []
        for before in self._in_place_of_sizes(control_inputs):
            # Keep it if it has an effect, or is in a branch, that no input has.
            origin = self.origin_of(before)
            is_seen = origin.acts & ~acts or origin.fails & ~fails or origin.reads & ~reads
            if is_seen or origin.branches & ~dead:
                kept.append(before)
        return kept

    def dead_with(self, operation: Any) -> list[Any]:
        """Returns operations to wait for so that an operation is dead when its original is.

        An input that is dead makes an operation dead, but a formula that replaces it never is.
        """
        has_formula = self._conditions.are_there and operation in self._formulas
        if not has_formula or graph_lib.in_while_loop(operation):
            return []
        by_formula, otherwise = [], 0
        for index, tensor in enumerate(operation.inputs):
            if self._is_formula(operation, index):
                by_formula.append(tensor)
            else:
                otherwise |= self._branches(tensor)
        for one in self.control_inputs(operation):
            otherwise |= self.origin_of(one).branches
        found = [tensor for tensor in by_formula if self._branches(tensor) & ~otherwise]
        places = self._in_place_of_sizes([], tensors=found)
        return [one for one in places if self.origin_of(one).branches]

    def _branches(self, tensor: Any) -> int:
        """Returns the bits of the branches in which a tensor is computed."""
        return self._conditions.of(tensor, self.origin_of(tensor.op).branches)

    def _in_round(self, operation: Any) -> list[Any]:
        """Returns the operations that an operation in a loop waits for.

        All are kept, since without them an operation could run in a round that does not take place.
        Formulas and constants are available in every round; so it also waits for the operations
        that the formulas replace.
        """
        waits = list(self.control_inputs(operation))
        if operation.type in graph_lib.ENTER or operation not in self._layouts.strategies:
            return waits
        taken = [t for i, t in enumerate(operation.inputs) if self._is_formula(operation, i)]
        return list(dict.fromkeys([*waits, *self._in_place_of_sizes([], tensors=taken)]))

    def hidden(self, *operations: Any) -> list[Any]:
        """Returns operations that act before others only through inputs that formulas replace.

        With the formula, the operations would not follow these actions any more.
        """
        if not any(operation in self._formulas for operation in operations):
            return []
        by_formula, otherwise = 0, 0
        for operation in operations:
            for index, tensor in enumerate(operation.inputs):
                acts = self.origin_of(tensor.op).acts
                if self._is_formula(operation, index):
                    by_formula |= acts
                else:
                    otherwise |= acts
        dead = 0
        for operation in operations:
            dead |= self.origin_of(operation).branches
            for before in self.control_inputs(operation):
                otherwise |= self.origin_of(before).acts
        return self._named(by_formula & ~otherwise, dead)

    def overtaken(self, operation: Any) -> list[Any]:
        """Returns reads of resource variables that an operation would not follow any more.

        On one device it does, by way of an input that a formula replaces. See also `references`.
        """
        origin = self.origin_of(operation)
        skipped = origin.skipped & ~origin.reads
        if not skipped or operation not in self._bits or graph_lib.in_while_loop(operation):
            return []
        found = self._readers.of_written(skipped, operation, lambda one: self.origin_of(one).reads)
        return [
            read
            for read in found
            if not self.origin_of(read).branches & ~origin.branches
            and not graph_lib.in_while_loop(read)
        ]

    def actors(self, operation: Any) -> list[Any]:
        """Returns the operations that act before an operation."""
        found = self.origin_of(operation)
        return self._named(found.acts, found.branches)

    def _is_formula(self, operation: Any, index: int) -> bool:
        """Whether a formula replaces an input."""
        return index in self._formulas.get(operation, ())

    def _named(self, acts: int, dead: int) -> list[Any]:
        """Returns the operations of bits `acts` that can be waited for.

        An operation that waits for a dead one is dead itself. So only actors are returned whose
        branches are all in `dead`, the bits of branches in which the waiting operation is anyway.
        """
        found = []
        while acts:
            lowest = acts & -acts
            actor = self._actors[lowest.bit_length() - 1]
            is_dead = self.origin_of(actor).branches & ~dead
            is_in_towers = actor in self._layouts.strategies and actor not in self._leaving
            if not (is_dead or is_in_towers or graph_lib.is_in_control_flow(actor)):
                found.append(actor)
            acts ^= lowest
        return found

    def _origin(self, operation: Any) -> Origin:
        inputs, waits = operation.inputs, self.control_inputs(operation)
        fails = self._fallible.get(operation, 0)
        if not (inputs or waits or fails or operation in self._bits):
            return _NOTHING  # The common case of a constant.
        strategy = self._layouts.strategies.get(operation)
        found = self.origin_of(operation)  # In a loop: from the pass before.
        meetings, acts, fails = found.meetings, found.acts, found.fails | fails
        reads, skipped = found.reads, found.skipped
        formulas = []
        for index, tensor in enumerate(inputs):
            before = self.origin_of(tensor.op)
            layout = self._layouts.layout_of(tensor)
            demand = WHOLE if strategy is None else strategy.inputs[index]
            meets = layout not in (demand, WHOLE, SIZE) and (
                operation.type in graph_lib.ENTER or not graph_lib.in_while_loop(operation)
            )  # In a loop, no input is converted.
            meetings = max(meetings, before.meetings + meets)
            acts, skipped = acts | before.acts, skipped | before.skipped
            if layout == SIZE or isinstance(demand, Share):
                formulas.append(index)  # A formula neither fails nor reads.
                skipped |= before.reads
            else:
                fails, reads = fails | before.fails, reads | before.reads
        if formulas:
            self._formulas[operation] = formulas
        for one in waits:
            before = self.origin_of(one)
            meetings = max(meetings, before.meetings)
            acts, fails, reads = acts | before.acts, fails | before.fails, reads | before.reads
            skipped |= before.skipped
        # One that leaves a loop or branch stands for all actions in there.
        if operation in self._bits and (acts & self._inside or effects.acts(operation)):
            acts |= self._bits[operation]
        branches = self._conditions.within(
            operation, waits, lambda one: self.origin_of(one).branches
        )
        reads = self._readers.with_own(operation, reads)
        return Origin(meetings, acts, fails, reads, skipped, branches)
