"""Finds what leads to an operation: how many meetings, and what acts when it runs.

Two tensors may cross devices in one pack if neither leads to the other, and if whatever runs for
one of them runs for the other as well. Then a pack changes neither the order of things, nor what
happens in a session that asks for one of them alone.
"""

from __future__ import annotations

from typing import Any, Iterable, NamedTuple, Sequence

from replicate.compat import graph as graph_lib
from replicate.layouts import SIZE, WHOLE, Layouts, Share
from replicate.partition import effects, initializers, readers


class Origin(NamedTuple):
    """The meetings, and the operations that act or may fail, that lead to an operation.

    Attributes:
        meetings: How many meetings, at most, one after the other.
        acts: A bit for each operation that changes a state, draws a number or has to be fed.
        fails: A bit for each operation that may fail.
        reads: A bit for each operation that reads a variable, which others may write afterwards.
        branches: A bit for each branch of a condition: where another one is taken, it is dead.
    """

    meetings: int = 0
    acts: int = 0
    fails: int = 0
    reads: int = 0
    branches: int = 0


_NOTHING = Origin()


class Origins:
    """The origins of operations.

    Args:
        operations: The operations, in the order in which they were made.
        layouts: Their `Layouts`.
    """

    def __init__(self, operations: Sequence[Any], layouts: Layouts) -> None:
        self._layouts = layouts
        self._formulas: dict[Any, list[int]] = {}  # Inputs that formulas take the place of.
        # TensorFlow lists them anew each time.
        control_inputs = ((operation, operation.control_inputs) for operation in operations)
        self._control_inputs = {one: before for one, before in control_inputs if before}
        self._found: dict[Any, Origin] = {}
        self._waits: dict[Any, list[Any]] = {}
        self._actors = [one for one in operations if effects.acts(one) or effects.leaves(one)]
        self._bits = {operation: 1 << index for index, operation in enumerate(self._actors)}
        self._inside = sum(self._bits[one] for one in self._actors if effects.is_inside(one))
        # So may what makes the batch: once there are no more rows.
        there = set(operations)
        given = dict.fromkeys(t.op for one in operations for t in one.inputs if t.op not in there)
        fallible = [*given, *(one for one in operations if effects.may_fail(one))]
        self._fallible = {operation: 1 << index for index, operation in enumerate(fallible)}
        self._found.update((one, Origin(fails=self._fallible[one])) for one in given)
        self._readers = {one: 1 << index for index, one in enumerate(readers.find(operations))}
        self._branch_bits: dict[Any, int] = {}
        self._has_branches = any(operation.type == "Switch" for operation in operations)
        self._needed = initializers.needed(operations, layouts)
        loops = any(operation.type == "NextIteration" for operation in operations)
        changed = True
        while changed:
            changed = False
            for operation in operations:
                origin = self._origin(operation)
                if origin != self._found.get(operation):
                    self._found[operation] = origin
                    changed = loops  # What leads back to where a loop begins was made after it.

    def origin_of(self, operation: Any) -> Origin:
        """Returns the `Origin` of an operation; of one that was not given, that of nothing."""
        return self._found.get(operation, _NOTHING)

    def together(self, tensor: Any) -> Any:
        """Returns what tensors that cross devices together have in common; see above."""
        origin = self.origin_of(tensor.op)
        needed = self._needed.get(tensor.op, 0)
        return origin.meetings, origin.acts, self._branches(tensor), needed

    def control_inputs(self, operation: Any) -> Sequence[Any]:
        """Returns what an operation waits for in the graph of one device."""
        return self._control_inputs.get(operation, ())

    def reads(self, operation: Any) -> bool:
        """Whether an operation reads a variable when it runs."""
        return operation in self._readers

    def waits(self, operation: Any) -> list[Any]:
        """Returns what an operation waits for in a way that could be noticed.

        To wait for an operation only takes time if it changes nothing, may not fail, and reads no
        variable that could be written too early, or if it leads to the other one anyway. Gradients
        of one operation wait for each other so; those that take weights have to be waited for where
        the memory of the weights is the variable's.
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
                continue  # What leads to the tensor does not lead to the formula.
            origin = self.origin_of(tensor.op)
            acts, fails, reads = acts | origin.acts, fails | origin.fails, reads | origin.reads
            dead |= self._branches(tensor)
        kept = []
        for before in self._in_place_of_sizes(control_inputs):
            origin = self.origin_of(before)
            is_seen = origin.acts & ~acts or origin.fails & ~fails or origin.reads & ~reads
            if is_seen or origin.branches & ~dead:
                kept.append(before)
        return kept

    def dead_with(self, operation: Any) -> list[Any]:
        """Returns what is dead where an operation is, but for integers that formulas replace."""
        if operation not in self._formulas or not self._has_branches:
            return []
        if graph_lib.in_while_loop(operation):
            return []
        by_formula, otherwise = [], 0
        for index, tensor in enumerate(operation.inputs):
            if self._is_formula(operation, index):
                by_formula.append(tensor)
            else:
                otherwise |= self._branches(tensor)
        for one in self.control_inputs(operation):
            otherwise |= self.origin_of(one).branches
        found = [tensor.op for tensor in by_formula if self._branches(tensor) & ~otherwise]
        return [one for one in self._in_place_of_sizes(found) if self.origin_of(one).branches]

    def _branches(self, tensor: Any) -> int:
        """Returns the bits of the branches that a tensor is of."""
        if not self._has_branches:
            return 0
        operation = tensor.op
        found = self.origin_of(operation).branches
        if operation.type != "Switch" or graph_lib.in_while_loop(operation):
            return found
        key = graph_lib.reference(operation.inputs[1]), tensor.value_index
        return found | self._branch_bits.setdefault(key, 1 << len(self._branch_bits))

    def _branches_in(self, operation: Any) -> int:
        """Returns the bits of the branches in which an operation is."""
        if not self._has_branches:
            return 0
        given = [self._branches(tensor) for tensor in operation.inputs]
        if operation.type == "Merge" and graph_lib.in_while_loop(operation):
            given = given[:1]  # What a loop begins with.
        found = given[0] if given else 0
        for other in given[1:]:
            found = found & other if operation.type == "Merge" else found | other
        for one in self.control_inputs(operation):
            found |= self.origin_of(one).branches
        return found

    def _in_round(self, operation: Any) -> list[Any]:
        """Returns what an operation waits for in a loop: in a round that is not made, it is not.

        What takes the place of sizes, and of constants, is there in every round.
        """
        waits = list(self.control_inputs(operation))
        if operation.type in graph_lib.ENTER or operation not in self._layouts.strategies:
            return waits
        for index, tensor in enumerate(operation.inputs):
            if self._is_formula(operation, index):
                waits += self._in_place_of_sizes([tensor.op])
        return list(dict.fromkeys(waits))

    def _in_place_of_sizes(self, operations: Iterable[Any]) -> list[Any]:
        """Returns operations, with what is behind it in place of each that formulas replace.

        Nothing in a loop waits for what is outside of it.
        """
        found: dict[Any, None] = {}
        seen, pending = set(), list(operations)
        while pending:
            one = pending.pop()
            if one in seen:
                continue
            seen.add(one)
            if one.type in graph_lib.ENTER:
                continue
            if is_size(one, self._layouts):
                pending += [tensor.op for tensor in one.inputs] + list(self.control_inputs(one))
            else:
                found[one] = None
        return list(found)

    def hidden(self, *operations: Any) -> list[Any]:
        """Returns what acts before operations only by way of integers that formulas replace."""
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
        if not by_formula & ~otherwise:
            return []
        dead = 0
        for operation in operations:
            dead |= self.origin_of(operation).branches
            for before in self.control_inputs(operation):
                otherwise |= self.origin_of(before).acts
        return self._named(by_formula & ~otherwise, dead)

    def actors(self, operation: Any) -> list[Any]:
        """Returns what acts before an operation."""
        found = self.origin_of(operation)
        return self._named(found.acts, found.branches)

    def _is_formula(self, operation: Any, index: int) -> bool:
        """Whether a formula takes the place of an input."""
        return index in self._formulas.get(operation, ())

    def _named(self, acts: int, dead: int) -> list[Any]:
        """Returns the operations of bits that can be waited for.

        What waits for an operation that is dead is dead itself: it has to be so anyway, by the bits
        of branches that are given.
        """
        return [
            actor
            for index, actor in enumerate(self._actors)
            if acts >> index & 1
            and not self.origin_of(actor).branches & ~dead
            and not effects.is_inside(actor)
            and (actor not in self._layouts.strategies or effects.leaves(actor))
        ]

    def _origin(self, operation: Any) -> Origin:
        strategy = self._layouts.strategies.get(operation)
        meetings, acts, fails, reads, _ = self.origin_of(operation)
        fails |= self._fallible.get(operation, 0)
        reads |= self._readers.get(operation, 0)
        formulas = []
        for index, tensor in enumerate(operation.inputs):
            before = self.origin_of(tensor.op)
            layout = self._layouts.layout_of(tensor)
            demand = WHOLE if strategy is None else strategy.inputs[index]
            meets = layout not in (demand, WHOLE, SIZE) and not _is_inside(operation)
            meetings = max(meetings, before.meetings + meets)
            acts |= before.acts
            if layout == SIZE or isinstance(demand, Share):
                formulas.append(index)
            else:
                fails, reads = fails | before.fails, reads | before.reads
        if formulas:
            self._formulas[operation] = formulas
        for one in self.control_inputs(operation):
            before = self.origin_of(one)
            meetings = max(meetings, before.meetings)
            acts, fails, reads = acts | before.acts, fails | before.fails, reads | before.reads
        if operation in self._bits and (acts & self._inside or effects.acts(operation)):
            acts |= self._bits[operation]
        return Origin(meetings, acts, fails, reads, self._branches_in(operation))


def _is_inside(operation: Any) -> bool:
    """Whether no value that an operation takes changes its layout: but on its way into a loop."""
    return operation.type not in graph_lib.ENTER and graph_lib.in_while_loop(operation)


def is_size(operation: Any, layouts: Layouts) -> bool:
    """Whether all that an operation gives are integers of known formulas."""
    return bool(operation.outputs) and all(
        layouts.layout_of(tensor) == SIZE for tensor in operation.outputs
    )
