"""Layouts in a loop of TensorFlow 1, with the loops and conditions in it.

Either all of a loop runs in towers, or none of it. In towers, each tower iterates by itself, and no
value changes its layout inside the loop. So a variable of the loop begins with the layout that it
has at the end of a round, and a value enters with the layout that is demanded inside. Both are
converted before the loop. Values that do not depend on rows are the same in all towers, and
each tower computes them.

A few values are reduced in each round, such as whether all rows are done, which ends the loop, or
the length of the longest. Then the towers iterate together.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Callable, Mapping, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat import op_types
from replicate.layouts import assertions, beginnings, branches, loop_variables
from replicate.layouts import dims as dims_lib
from replicate.layouts.arrays import Arrays, array_of
from replicate.layouts.demands import can_be
from replicate.layouts.facts import Facts
from replicate.layouts.kinds import MADE_OUTSIDE, SOURCES, STARTS
from replicate.layouts.layout import (
    PER_TOWER,
    SIZE,
    WHOLE,
    Demand,
    Grown,
    Layout,
    Partial,
    Shard,
    Share,
    Strategy,
    meets_in_round,
)
from replicate.layouts.rule import rule_of

_PASS_ON = frozenset(["Exit", "Identity", "NextIteration"])
_KEEP_GROWN = frozenset(["Enter", "Exit", "Merge", "NextIteration", "Switch"])
_MEASURE = frozenset(["Rank", "Shape", "ShapeN", "Size"])
# Stateful, but without effect on others if each tower runs them.
_HARMLESS = frozenset(["ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape"])


class Loop:
    """Infers the layouts in a loop.

    Args:
        operations: Its operations, in order.
        layout_of: Function of a tensor outside of the loop that returns its layout.
        facts: The `Facts`.
        arrays: The `Arrays`.
        begun: What `begun` was when layouts in this loop were last inferred. Then more was learnt
            about the graph, but most of it probably holds; if not, inference begins without it.

    Attributes:
        begun: By operation where a value begins, see `beginnings`: the layout that is wanted of it.
        refused: The first operation that has no strategy, in the last pass; None if all have one.
    """

    def __init__(
        self,
        operations: Sequence[Any],
        layout_of: Callable[[Any], Layout],
        facts: Facts,
        arrays: Arrays,
        begun: Mapping[Any, Layout] = MappingProxyType({}),
    ) -> None:
        self._operations = operations
        self._inside = set(operations)
        self._layout_outside = layout_of
        self._facts = facts
        self._arrays = arrays
        self.begun = dict(begun)
        self.refused: Any = None
        self._again = False
        self._layouts: dict[Any, Layout] = {}
        self._waited_for = {one for each in operations for one in each.control_inputs}

    def infer(self) -> tuple[dict[Any, Strategy], dict[Any, Layout]] | None:
        """Returns strategies, and layouts by reference of tensors; None if the loop is whole."""
        before, is_assumed = self._facts.copy(), bool(self.begun)
        found = self._infer(before)
        if found is None and is_assumed:
            self.begun = {}
            found = self._infer(before)
        if found is None:
            self._facts.reset(before)
        return found

    def _infer(self, before: Facts) -> tuple[dict[Any, Strategy], dict[Any, Layout]] | None:
        # Each pass that is repeated adds to `begun`, and nothing is removed: so this ends.
        while True:
            self._again, self.refused = False, None
            self._layouts = {}
            # The sizes of a pass in vain may be wrong: it may have taken other values for rows.
            self._facts.reset(before)
            strategies = self._pass()
            if not self._again:
                # Without rows, all towers would compute all of the loop.
                made = self._layouts.values()
                has_rows = any(isinstance(one, (Partial, Shard)) for one in made)
                return (strategies, self._layouts) if strategies and has_rows else None

    def _pass(self) -> dict[Any, Strategy] | None:
        strategies: dict[Any, Strategy] = {}
        for operation in self._operations:
            layouts = [self._layout_of(tensor) for tensor in operation.inputs]
            if self._is_size(operation, layouts):
                self._set(operation, [SIZE] * len(operation.outputs))
                continue
            seen = [WHOLE if layout == SIZE else layout for layout in layouts]
            strategy = self._strategy(operation, seen)
            if strategy is not None and self._demands(operation, seen, strategy):
                strategies[operation] = strategy
                self._set(operation, strategy.outputs)
                continue
            if self._again:
                return None  # A value will begin in another layout, so this pass is in vain.
            # The rest of the pass may still find that a variable has to begin with rows; then
            # this operation may fit in the next pass.
            self.refused = self.refused or operation
            self._set(operation, self._guessed(operation))
        for operation in self._operations:
            if operation.type == "Merge" and not self._closes(operation):
                return None
        return strategies if self.refused is None else None

    def _guessed(self, operation: Any) -> list[Layout]:
        """Returns the layouts to continue with after an operation that has no strategy yet."""
        is_of_array = array_of(operation) is not None
        return [
            PER_TOWER if is_of_array and tensor.dtype in (tf.variant, tf.resource) else WHOLE
            for tensor in operation.outputs
        ]

    def _layout_of(self, tensor: Any) -> Layout:
        if tensor.op in self._inside:
            return self._layouts.get(graph_lib.reference(tensor), WHOLE)
        return self._layout_outside(tensor)

    def _set(self, operation: Any, layouts: Sequence[Layout]) -> None:
        for tensor, layout in zip(operation.outputs, layouts):
            self._layouts[graph_lib.reference(tensor)] = layout
            if isinstance(layout, Shard):
                self._facts.have_rows(tensor, layout.axis)

    def _is_size(self, operation: Any, layouts: Sequence[Layout]) -> bool:
        """Whether an operation returns integers of a formula, which can be computed outside."""
        # A formula cannot be waited for, has no shards, and is never dead.
        is_other = operation in self._waited_for or operation in self.begun
        has_rows = any(isinstance(one, Shard) for one in layouts)
        if is_other or (has_rows and operation.type not in _MEASURE) or set(layouts) <= {WHOLE}:
            return False
        return branches.are_sizes_only(operation) and self._facts.are_formulas(operation)

    def _strategy(self, operation: Any, layouts: Sequence[Layout]) -> Strategy | None:
        kind = operation.type
        if kind == "Enter":
            wanted = self.begun.get(operation, layouts[0])
            return Strategy((wanted,), (wanted,))
        if kind in MADE_OUTSIDE and operation in self.begun:
            return Strategy((WHOLE,) * len(layouts), (self.begun[operation],))
        if kind == "Merge" and loop_variables.is_variable(operation):
            # The layout at the end of a round is not known yet: `_closes` compares it later.
            return Strategy((layouts[0],) * 2, (layouts[0], WHOLE))
        if kind == "ConcatV2" and len(layouts) == 3:
            grown = self._grown(operation, layouts)
            if grown is not None:
                return Strategy((grown, Shard(0), WHOLE), (grown,))
        if any(isinstance(one, Grown) for one in layouts) and kind not in _KEEP_GROWN:
            return None
        if kind in branches.TYPES:
            return branches.strategy(self._facts.op_of(operation), layouts)
        if kind == "LoopCond":
            return Strategy((WHOLE,), (WHOLE,))
        if kind in _PASS_ON:
            return Strategy((layouts[0],), (layouts[0],))
        if kind == "Assert":
            return assertions.strategy(layouts)
        if array_of(operation) is not None:
            return self._arrays.strategy(operation, layouts)
        rule = rule_of(kind)
        if all(layout == WHOLE for layout in layouts):
            if rule is not None and self._has_rows(operation):
                found = rule(self._facts.op_of(operation), layouts)
                if found is not None:
                    return found
            # An operation that takes a variable's memory may write to it; one that only waits for
            # it does not.
            is_harmless = kind in _HARMLESS or graph_lib.enters_as_a_wait(operation)
            if op_types.is_stateful(operation) and not is_harmless:
                return None  # It must not run once in each tower.
            return Strategy((WHOLE,) * len(layouts), (WHOLE,) * len(operation.outputs))
        return None if rule is None else self._by_rule(operation, layouts, rule)

    def _grown(self, operation: Any, layouts: Sequence[Layout]) -> Grown | None:
        """Returns how a concatenation makes a variable of the loop grow, None if it does not."""
        before = operation.inputs[0]
        if layouts[1] != Shard(0) or self._facts.op_of(operation).ints(2) != (0,):
            return None
        each = self._facts.op_of(operation).per_row(1, 0)
        enter = loop_variables.enter_of(before, operation, self._inside)
        begin = None if enter is None else self._facts.dims(enter.inputs[0])
        if each is None or dims_lib.is_of_loop(each) or not begin or not isinstance(begin[0], int):
            return None
        return Grown(begin[0], each)

    def _has_rows(self, operation: Any) -> bool:
        """Whether a value made from a shape has rows: the shape holds n, or rows are wanted."""
        if operation.type not in SOURCES:
            return False
        if operation in self.begun or operation.type in STARTS:
            return True
        return any(map(dims_lib.holds_rows, self._facts.dims(operation.outputs[0]) or ()))

    def _by_rule(self, operation: Any, layouts: Sequence[Layout], rule: Any) -> Strategy | None:
        op = self._facts.op_of(operation)
        found: Strategy | None = rule(op, layouts)
        if found is not None:
            return None if branches.replace_a_branch(operation, found) else found
        # For example a sum that begins with a whole 0, to which partials are added: let a whole
        # input begin in the layout of another one, if there is a rule for that.
        others = [layout for layout in dict.fromkeys(layouts) if layout not in (WHOLE, PER_TOWER)]
        for index, layout in enumerate(layouts):
            for other in others if layout == WHOLE else ():
                tried = [*layouts[:index], other, *layouts[index + 1 :]]
                if rule(op, tried) is not None and self._change(operation.inputs[index], other):
                    return None  # The pass is repeated.
        # Else let inputs enter the loop whole.
        for index, layout in enumerate(layouts):
            if layout not in (WHOLE, PER_TOWER) and self._change(operation.inputs[index], WHOLE):
                return None
        # Else take values whole that can be reduced in each round.
        met = [WHOLE if meets_in_round(layout, WHOLE) else layout for layout in layouts]
        return None if met == list(layouts) else self._strategy(operation, met)

    def _closes(self, operation: Any) -> bool:
        """Whether a variable of the loop begins and ends a round with the same layout."""
        if not loop_variables.is_variable(operation):
            return True
        begins, ends = (self._layout_of(tensor) for tensor in operation.inputs)
        # As in `_pass`, integers of a formula count as a whole value.
        ends = WHOLE if ends == SIZE else ends
        if begins == ends:
            return True
        if begins == WHOLE:
            return self._change(operation.inputs[0], ends)
        return ends == WHOLE and self._change(operation.inputs[1], begins)

    def _demands(self, operation: Any, layouts: Sequence[Layout], strategy: Strategy) -> bool:
        """Whether an operation gets its inputs as it demands them; if not, tries to change them."""
        for index, (layout, demand) in enumerate(zip(layouts, strategy.inputs)):
            tensor = operation.inputs[index]
            if operation.type == "Merge" and index and loop_variables.is_variable(operation):
                continue  # The end of a round is inferred later; see `_closes`.
            if operation.type == "Enter" and tensor.op not in self._inside:
                if not self._enters(operation, layout, demand):
                    return False
            elif isinstance(demand, Share):
                if not can_be(self._facts.op_of(operation), index, layout, demand):
                    return False
            elif layout != demand and (
                self._change(tensor, demand) or not meets_in_round(layout, demand)
            ):
                return False  # The pass is repeated if something was changed.
        return True

    def _enters(self, operation: Any, layout: Layout, demand: Demand) -> bool:
        if layout == demand:
            return True
        # The flow of an array is a scalar, and may begin with the same value in all towers.
        if demand == PER_TOWER:
            return layout == WHOLE and operation.outputs[0].shape.rank == 0
        if layout == PER_TOWER:
            return False
        if isinstance(demand, Grown):
            return layout == WHOLE
        if isinstance(demand, Shard):
            return can_be(self._facts.op_of(operation), 0, layout, demand)
        return demand == WHOLE or layout == WHOLE

    def _change(self, tensor: Any, wanted: Demand) -> bool:
        """Lets a tensor begin in another layout; returns False if there is no such beginning."""
        found = beginnings.find(tensor, wanted, self._inside, self._facts, self._layout_of)
        return found is not None and self._begin_as(found, wanted)

    def _begin_as(self, operation: Any, wanted: Demand) -> bool:
        if operation in self.begun or isinstance(wanted, Share):
            return False  # Two demands contradict each other.
        self.begun[operation] = wanted
        self._again = True
        return True
