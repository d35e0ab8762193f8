"""Wrong rules, planted one at a time: the proof finds each with its usual number of examples.

It finds nothing wrong with the right ones, see `test_proof.py`.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

import pytest

from layouts import proof
from replicate.layouts import rule as rule_lib
from replicate.layouts.layout import MAX, MEAN, MIN, SUM, WHOLE, Layout, Partial, Shard, Strategy
from replicate.layouts.rule import Op, Rule

Layouts = Sequence[Layout]
Plant = Callable[[Rule], Rule]


def claims(old: Layout, new: Layout) -> Plant:
    """Plants another claim of what comes out."""
    return _outputs(lambda op, layout: new if layout == old else layout)


def axes(change: Callable[[Op, int], int]) -> Plant:
    """Plants another axis of what comes out."""
    return _outputs(
        lambda op, layout: Shard(change(op, layout.axis)) if isinstance(layout, Shard) else layout
    )


def _outputs(change: Callable[[Op, Layout], Layout]) -> Plant:
    def plant(right: Rule) -> Rule:
        def wrong(op: Op, layouts: Layouts) -> Strategy | None:
            found = right(op, layouts)
            if found is None:
                return None
            return Strategy(found.inputs, tuple(change(op, layout) for layout in found.outputs))

        return wrong

    return plant


def demands(old: type, new: Layout) -> Plant:
    """Plants another demand of what is given whole."""

    def plant(right: Rule) -> Rule:
        def wrong(op: Op, layouts: Layouts) -> Strategy | None:
            found = right(op, layouts)
            if found is None:
                return None
            inputs = [
                new if given == WHOLE and isinstance(demand, old) else demand
                for given, demand in zip(layouts, found.inputs)
            ]
            return Strategy(tuple(inputs), found.outputs)

        return wrong

    return plant


def keeps(*kinds: Any) -> Plant:
    """Plants that an input's layout is kept where the rule says nothing."""

    def plant(right: Rule) -> Rule:
        def wrong(op: Op, layouts: Layouts) -> Strategy | None:
            kept = [layout for layout in layouts if layout in kinds or type(layout) in kinds]
            found = right(op, layouts)
            if found is not None or len(kept) != 1:
                return found
            rank = op.out_rank()
            if isinstance(kept[0], Shard) and (rank is None or kept[0].axis >= rank):
                return None
            return Strategy(tuple(layouts), (kept[0],) * len(op.outputs))

        return wrong

    return plant


def _concatenates(right: Rule) -> Rule:
    def wrong(op: Op, layouts: Layouts) -> Strategy | None:
        axis = op.ints(len(layouts) - 1)
        rank = op.out_rank()
        if axis is None or rank is None or Shard(axis[0] % rank) not in layouts:
            return right(op, layouts)
        rows = Shard(axis[0] % rank)
        return Strategy((rows,) * (len(layouts) - 1) + (WHOLE,), (rows,))

    return wrong


def _multiplies(right: Rule) -> Rule:
    def wrong(op: Op, layouts: Layouts) -> Strategy | None:
        return Strategy((SUM, SUM), (SUM,)) if set(layouts) == {SUM} else right(op, layouts)

    return wrong


def _inverse(op: Op, axis: int) -> int:
    order = op.ints(1)
    return axis if order is None else order[order[axis]]


def _next(op: Op, axis: int) -> int:
    return (axis + 1) % (op.out_rank() or 1)


def _without_shrinking(right: Rule) -> Rule:
    """Forgets that axes before the one of rows are taken out."""

    def wrong(op: Op, layouts: Layouts) -> Strategy | None:
        found, rank = right(op, layouts), op.out_rank()
        rows = layouts[0]
        if found is None or not isinstance(rows, Shard) or rank is None or rows.axis >= rank:
            return found
        return Strategy(found.inputs, (rows,))

    return wrong


PLANTED: dict[str, tuple[str, Plant]] = {
    "a mean is added up": ("Mean", claims(MEAN, SUM)),
    "a maximum is added up": ("Max", claims(MAX, SUM)),
    "a minimum is a maximum": ("Min", claims(MIN, MAX)),
    "outer axes change places": ("MatMul", axes(lambda op, axis: 1 - axis)),
    "softmax over rows": ("Softmax", keeps(Shard)),
    "another axis of a reshape": ("Reshape", axes(_next)),
    "gradients of a bias are kept apart": ("BiasAddGrad", claims(SUM, Shard(0))),
    "rows are padded": ("Pad", keeps(Shard)),
    "a sum along rows": ("Cumsum", keeps(Shard)),
    "one hot a place further": ("OneHot", axes(_next)),
    "the inverse order": ("Transpose", axes(_inverse)),
    "rows are concatenated": ("ConcatV2", _concatenates),
    "some of the rows": ("Slice", keeps(Shard)),
    "the exponential of a sum": ("Exp", keeps(SUM)),
    "the logarithm of a maximum": ("Log", keeps(MAX)),
    "a product of two sums": ("Mul", _multiplies),
    "division by a part": ("RealDiv", keeps(Partial)),
    "a mean of squares": ("L2Loss", claims(SUM, MEAN)),
    "an operand as long as the batch": ("AddV2", demands(Shard, WHOLE)),
    "rows are repeated": ("Tile", keeps(Shard)),
    "an axis is taken out": ("StridedSlice", _without_shrinking),
    "segments of maxima are added up": ("UnsortedSegmentMax", claims(MAX, SUM)),
    "ranks along rows": ("ArgMax", keeps(Shard)),
}


@pytest.mark.parametrize("error", PLANTED)
def test_the_proof_finds(error, monkeypatch):
    name, plant = PLANTED[error]
    generators = proof.types([name])[name]
    right = rule_lib.rules()[name]
    monkeypatch.setitem(rule_lib._rules, name, plant(right))
    assert proof.Proof(name, generators, missing=False).run(proof.MOST).wrong
