"""Infers the layout of every tensor of a graph, in one pass that may step back.

The pass may learn something that it should have known earlier: that an array is in towers, or that
an operation runs once although rows reach it. Then it steps back to the first operation for which
that matters, and continues from there.
"""

from __future__ import annotations

import itertools
from typing import Any, Iterable, Sequence

from replicate.compat import graph as graph_lib
from replicate.layouts import lists
from replicate.layouts import rules as _table  # noqa: F401  # Enters the rules.
from replicate.layouts.dims import Dim
from replicate.layouts.facts import Facts
from replicate.layouts.found import Layouts, Source
from replicate.layouts.lateness import run_late
from replicate.layouts.learnt import Learnt, Step
from replicate.layouts.lookahead import Lookahead
from replicate.layouts.one_pass import Pass

# The least number of steps between two saved states, and about how many are saved at most.
_BETWEEN = 500
_SAVED = 16


def infer(
    operations: Sequence[Any],
    sources: Iterable[Source],
    rows: Dim,
    once: Iterable[Any] = (),
    towers: int | None = None,
) -> Layouts:
    """Returns the layouts of all tensors of a graph.

    Args:
        operations: The operations in topological order, those of a loop together.
        sources: The tensors of the batch.
        rows: n, an integer, or a symbol, `dims.ROWS` or `dims.ROWS_OR_NONE`.
        once: Operations that run once, whatever their rule says.
        towers: N, None if it is not known.
    """
    sources = tuple(sources)
    if operations:
        lists.forget(operations[0].graph)
    steps = [
        Step(name is not None, part)
        for name, group in itertools.groupby(operations, key=graph_lib.outermost_loop)
        for part in ([list(group)] if name is not None else [[one] for one in group])
    ]
    learnt = Learnt(once, steps)
    given = [source.tensor.op for source in sources]
    lookahead = Lookahead(operations, given, rows)
    one_pass = Pass(sources, Facts(rows, learnt.varying, towers), learnt, lookahead)
    between = max(_BETWEEN, len(steps) // _SAVED)
    saved = [(0, one_pass.copy())]
    at = 0
    while at < len(steps):
        before, _ = saved[-1]
        # Most of what is learnt late concerns a loop, so the states around each loop are saved.
        is_beside_loop = steps[at].is_loop or (at > 0 and steps[at - 1].is_loop)
        if at - before >= (1 if is_beside_loop else between):
            saved.append((at, one_pass.copy()))
        one_pass.run(steps[at])
        at += 1
        if at == len(steps):
            one_pass.end()
        # After most discoveries, the pass can continue; after urgent ones, its rest would be wrong.
        if at == len(steps) or learnt.is_urgent:
            first = learnt.first()
            while first is not None and saved[-1][0] > first:
                saved.pop()
            if first is not None:
                at, one_pass = saved[-1][0], saved[-1][1].copy()
    return run_late(operations, one_pass.layouts())
