"""One pass over a graph that infers the layout of every tensor, step by step."""

from __future__ import annotations

import collections
import copy
from typing import Any, Counter, Sequence

from replicate.compat import graph as graph_lib
from replicate.layouts import branches, loop_variables, loops, ragged
from replicate.layouts.arrays import array_of, makers_in
from replicate.layouts.costs import MULTIPLIES
from replicate.layouts.demands import can_be
from replicate.layouts.facts import Facts
from replicate.layouts.found import Layouts, Source, put
from replicate.layouts.kinds import BEGIN, SOURCES, differs
from replicate.layouts.layout import (
    SIZE,
    WHOLE,
    Demand,
    Grown,
    Indices,
    Layout,
    Partial,
    PerTowerLayout,
    Shard,
    Size,
    Strategy,
    Whole,
    is_shard,
)
from replicate.layouts.learnt import Learnt, Step
from replicate.layouts.lookahead import Lookahead
from replicate.layouts.rule import pointing_rule_of, rule_of
from replicate.layouts.starts import Starts
from replicate.layouts.traffic import is_less_if_once


class Pass:
    """The state of inference before a step: the layouts and facts of all earlier operations."""

    def __init__(
        self,
        sources: tuple[Source, ...],
        facts: Facts,
        learnt: Learnt,
        lookahead: Lookahead,
    ) -> None:
        self._lookahead = lookahead
        self._facts = facts
        self._sources = sources
        self._learnt = learnt
        self._kept = learnt.kept
        self._arrays = learnt.arrays
        self._layouts: dict[Any, Layout] = {}
        self._strategies: dict[Any, Strategy] = {}
        self._whole: Counter[str] = collections.Counter()
        self._met: set[Any] = set()  # Partial tensors that an operation takes whole.
        self._starts = Starts(self._facts, sources)
        for source in sources:
            self._layouts[graph_lib.reference(source.tensor)] = source.layout or Shard(source.axis)
            put(source, sources, self._facts)
        self._given = {source.tensor.op for source in sources}

    def layouts(self) -> Layouts:
        """Returns the layouts; call it after the last step."""
        made = self._strategies, self._layouts, self._whole, dict(self._learnt.refused)
        return Layouts(self._facts, self._sources, *made)

    def copy(self) -> Pass:
        """Returns an independent pass in the same state."""
        other = copy.copy(self)
        other._facts = self._facts.copy()
        other._starts = self._starts.copy(other._facts)
        other._layouts, other._strategies = dict(self._layouts), dict(self._strategies)
        other._whole, other._met = self._whole.copy(), set(self._met)
        return other

    def run(self, step: Step) -> None:
        """Infers the layouts of a step."""
        if step.is_loop:
            self._run_loop(step.operations)
        else:
            self._run(step.operations[0])

    def end(self) -> None:
        """Records, after the last step, the values that are not combined with rows."""
        self._learnt.keep(self._starts.idle)

    def _run(self, operation: Any) -> None:
        """Infers the layouts of an operation outside of loops."""
        if self._only_waits(operation):
            self._strategies[operation] = Strategy((), ())
            return
        inputs = [self._layout_of(tensor) for tensor in operation.inputs]
        maker = array_of(operation)
        is_array = self._arrays.has(maker)
        if maker is not None and not is_array and any(one != WHOLE for one in inputs):
            self._arrays.put_in_towers([maker])  # From the next pass on.
        if operation in self._given or (not is_array and all(one == WHOLE for one in inputs)):
            if not self._start(operation, inputs):
                self._go_on(operation)
            return
        strategy = self._strategy(operation, inputs)
        if strategy is not None:
            self._enter(operation, strategy)
            return
        if operation.outputs and all(self._layout_of(one) == SIZE for one in operation.outputs):
            return  # A formula replaces it, so it costs nothing.
        # The operation runs once. A per-tower input cannot become whole: its maker runs once, too.
        for tensor, layout in zip(operation.inputs, inputs):
            if isinstance(layout, PerTowerLayout):
                self._keep(tensor.op)
        # While assumptions about arrays change, a refusal, which is final, could be wrong.
        if is_array and not self._arrays.changed:
            self._arrays.refuse([maker])
        self._whole[operation.type] += 1
        self._meet(operation, [WHOLE] * len(inputs))
        # If n is known, a sum over rows may have n entries of something else.
        has_rows = any(map(is_shard, inputs)) or any(self._starts.are_split(operation))
        if has_rows or not isinstance(self._facts.rows, int):
            self._starts.may_split(operation, has_rows)

    def _go_on(self, operation: Any) -> None:
        """Splits rows that were made by an operation which runs once, if towers can use them."""
        given = self._starts.are_split(operation)
        if operation in self._given or not any(given):
            # It may read the rows that a loop has stored, or give a result the shape of rows.
            self._starts.pass_on(operation, self._arrays.is_refused(array_of(operation)))
            return
        pairs = zip(operation.inputs, given)
        layouts = [self._layout_of(tensor) if one is None else one for tensor, one in pairs]
        # If n is known, these may be no rows: values must be the same however they are split.
        is_same = not (isinstance(self._facts.rows, int) and differs(operation))
        strategy = self._strategy(operation, layouts) if is_same else None
        is_shared = strategy is not None and any(isinstance(o, Shard) for o in strategy.outputs)
        waits = self._starts.wait_for_products(operation, given)
        # Sums of entries that are joined anyway are not worth it, but products are.
        if strategy is not None and (operation.type in MULTIPLIES or (is_shared and not waits)):
            self._enter(operation, strategy)
        elif strategy is not None and is_shared:
            self._starts.may_split_later(operation, strategy)
        else:
            self._starts.may_split(operation, has_rows=strategy is None)

    def _keep(self, operation: Any) -> None:
        """Records that an operation, and all others that use the same array, are to run once."""
        if self._arrays.changed:
            return  # The pass will be repeated, and may find something else.
        self._learnt.keep([operation])
        maker = array_of(operation)
        if maker is not None:
            self._arrays.refuse([maker])

    def _run_loop(self, operations: list[Any]) -> None:
        """Infers the layouts in a loop of TensorFlow 1."""
        enter = [one for one in operations if one.type == "Enter"]
        # Ragged units are joined before a loop.
        entered = [self._layout_for_loop(one.inputs[0]) for one in enter]
        makers, kept = makers_in(operations), [one for one in operations if one in self._kept]
        found, has_rows = None, any(layout != WHOLE for layout in entered)
        if has_rows and not kept and self._arrays.put_in_towers(makers):
            begun = self._learnt.begun.get(operations[0], {})
            loop = loops.Loop(operations, self._layout_for_loop, self._facts, self._arrays, begun)
            found = loop.infer()
            self._learnt.know(operations[0], loop.begun, loop.refused, is_whole=found is None)
        elif has_rows and kept:
            self._learnt.know(operations[0], {}, kept[0], is_whole=True)
        self._learnt.vary(loop_variables.varying(operations, self._facts), operations)
        if found is not None:
            strategies, layouts = found
            self._strategies.update(strategies)
            self._layouts.update(layouts)
            self._starts.leave(operations, layouts)
            for operation, strategy in strategies.items():
                self._meet(operation, strategy.inputs)
            return
        if self._arrays.changed:
            return  # The pass will be repeated, and knows more then.
        # The loop runs once, as do its arrays and the makers of per-tower tensors that enter.
        self._arrays.refuse(makers)
        for one, layout in zip(enter, entered):
            self._meet(one, [WHOLE])
            if isinstance(layout, PerTowerLayout):
                self._keep(one.inputs[0].op)
        # Without rows, nothing is lost if the loop runs once.
        if any(layout not in (WHOLE, SIZE) for layout in entered):
            self._whole["while"] += 1
            for one in operations:
                if one.type == "Exit":
                    self._starts.may_split(one, has_rows=True)

    def _only_waits(self, operation: Any) -> bool:
        """Whether an operation is a `NoOp` that waits for operations in towers.

        Each tower's copy waits for that tower alone. Gradients wait for each other like this, layer
        by layer.
        """
        return (
            operation.type == "NoOp"
            and any(before in self._strategies for before in operation.control_inputs)
            and not graph_lib.is_in_control_flow(operation)
        )

    def _layout_of(self, tensor: Any) -> Layout:
        return self._layouts.get(graph_lib.reference(tensor), WHOLE)

    def _layout_for_loop(self, tensor: Any) -> Layout:
        """Returns the layout in which a tensor may enter a loop; other units are joined."""
        layout = ragged.as_rows(self._facts, tensor, self._layout_of(tensor))
        return self._starts.row_shard_of(tensor) or WHOLE if layout == WHOLE else layout

    def _enter(self, operation: Any, strategy: Strategy) -> None:
        """Records that an operation runs in towers."""
        self._strategies[operation] = strategy
        self._meet(operation, strategy.inputs)
        self._starts.follow(operation, list(map(self._layout_of, operation.inputs)), strategy)
        sizes = strategy.sizes or (None,) * len(strategy.outputs)
        for tensor, layout, size in zip(operation.outputs, strategy.outputs, sizes):
            self._layouts[graph_lib.reference(tensor)] = layout
            axis = layout.axis if isinstance(layout, Shard) else 0
            if size is not None:
                self._facts.have_size(tensor, axis, size)
            if isinstance(layout, (Shard, Indices)):
                self._facts.have_rows(tensor, axis, layout.unit)

    def _meet(self, operation: Any, demands: Sequence[Demand]) -> None:
        """Records partials that are reduced for an operation."""
        for tensor, demand in zip(operation.inputs, demands):
            if isinstance(self._layout_of(tensor), Partial) and isinstance(demand, Whole):
                self._met.add(graph_lib.reference(tensor))

    def _start(self, operation: Any, inputs: Sequence[Layout]) -> bool:
        """Lets towers draw or repeat values if a shape has the batch's rows; returns whether."""
        if operation in self._given or operation.type not in BEGIN:
            return False
        strategy = self._strategy(operation, inputs)
        if strategy is None or not self._lookahead.may_meet_rows(operation):
            return False
        self._enter(operation, strategy)
        self._starts.begin(operation)
        return True

    def _strategy(self, operation: Any, inputs: Sequence[Layout]) -> Strategy | None:
        """Returns how towers run an operation, None if it runs once."""
        if self._arrays.has(array_of(operation)):
            return self._array_strategy(operation, inputs)
        # Integers of formulas need no operation: they are computed where they are used.
        if self._facts.are_formulas(operation) and branches.are_sizes_only(operation):
            for tensor in operation.outputs:
                self._layouts[graph_lib.reference(tensor)] = SIZE
            return None
        if operation in self._kept:
            return None
        rule = rule_of(operation.type)
        is_branch = operation.type in branches.TYPES
        if rule is None and not is_branch and pointing_rule_of(operation.type) is None:
            return None
        # Rules know neither: they ask for a `Size` as integers, and a `Grown` tensor is joined.
        seen = [WHOLE if isinstance(one, (Grown, Size)) else one for one in inputs]
        if operation.type not in SOURCES and all(layout == WHOLE for layout in seen):
            return None
        if self._is_met(operation, seen):
            return None
        op = self._facts.op_of(operation)
        if is_branch:
            strategy = branches.strategy(op, seen)
        else:
            strategy = ragged.strategy(self._facts, operation, seen, rule)
        if strategy is None or not any(not isinstance(demand, Whole) for demand in strategy.inputs):
            return None  # All towers would compute the same.
        demands = enumerate(zip(seen, strategy.inputs))
        if not all(can_be(op, index, *one) for index, one in demands):
            return None
        if branches.replace_a_branch(operation, strategy) or is_less_if_once(op, seen, strategy):
            return None
        there = self._given, self._strategies
        return strategy if ragged.are_counted(strategy, operation, self._facts, there) else None

    def _is_met(self, operation: Any, layouts: Sequence[Layout]) -> bool:
        """Whether an operation takes no rows, but partials that are reduced in any case.

        In towers, its result would have to be reduced as well. For example, a gradient is reduced
        for the global norm, so it is also clipped after the reduction.
        """
        return not any(
            isinstance(one, (Indices, PerTowerLayout, Shard)) for one in layouts
        ) and any(graph_lib.reference(tensor) in self._met for tensor in operation.inputs)

    def _array_strategy(self, operation: Any, inputs: Sequence[Layout]) -> Strategy | None:
        """Returns how towers run an operation on an array in towers."""
        pairs = zip(operation.inputs, inputs)
        seen = [WHOLE if one == SIZE else ragged.as_rows(self._facts, t, one) for t, one in pairs]
        strategy = self._arrays.strategy(operation, seen)
        if strategy is None or operation in self._kept:
            return None
        op, demands = self._facts.op_of(operation), zip(seen, strategy.inputs)
        if not all(can_be(op, index, *one) for index, one in enumerate(demands)):
            return None
        return strategy
