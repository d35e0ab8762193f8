"""Products that are summed over shared axes: matrix products, and einsums."""

from __future__ import annotations

from typing import Hashable, Sequence

from replicate.layouts.layout import Layout, Strategy
from replicate.layouts.rule import Op, rule
from replicate.layouts.rules.labels import Labels, cut, linear


def contract(
    op: Op,
    layouts: Sequence[Layout],
    operands: Sequence[Labels],
    result: Labels,
    broadcast: frozenset[Hashable | None] = frozenset(),
) -> Strategy | None:
    """Returns the strategy of a product of operands, which is linear in each of them."""
    # Without rows, an operand may still be partial, and then so is the product.
    return cut(op, layouts, operands, [result], broadcast) or linear(op, layouts)


def transposed(labels: Labels, is_transposed: bool) -> Labels:
    """Returns the labels of a matrix, or of a batch of matrices, transposed if `is_transposed`."""
    return (*labels[:-2], labels[-1], labels[-2]) if is_transposed else labels


@rule("MatMul", "SparseMatMul")
def matmul(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Labels matrices as an einsum does."""
    a = transposed(("row", "inner"), op.attr("transpose_a"))
    b = transposed(("inner", "column"), op.attr("transpose_b"))
    return contract(op, layouts, (a, b), ("row", "column"))


@rule("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def batch_matmul(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Labels leading axes, which are broadcast, by their distance from those of the matrices."""
    ranks, rank = [op.rank(0), op.rank(1)], op.out_rank()
    if ranks[0] is None or ranks[1] is None or rank is None:
        return None
    x = transposed((*_leading(ranks[0] - 2), "row", "inner"), op.attr("adj_x"))
    y = transposed((*_leading(ranks[1] - 2), "inner", "column"), op.attr("adj_y"))
    result = (*_leading(rank - 2), "row", "column")
    # The first version does not broadcast leading axes.
    batch = frozenset(_leading(rank - 2) if op.type != "BatchMatMul" else ())
    return contract(op, layouts, (x, y), result, batch)


def _leading(count: int) -> Labels:
    """Returns the labels of leading axes, counted from the last of them."""
    return tuple(range(-count, 0))


@rule("Einsum")
def einsum(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Reads the labels from the equation; each character is one, also a space."""
    given, _, made = op.attr("equation").decode().partition("->")
    terms = [term.partition("...") for term in (*given.split(","), made)]
    ranks = [*(op.rank(index) for index in range(len(layouts))), op.out_rank()]
    # A letter that is repeated in a term takes a diagonal, which needs both axes whole.
    whole = {label for a, _, b in terms for label in a + b if (a + b).count(label) > 1}
    labels: list[Labels] = []
    for (before, _, after), rank in zip(terms, ranks):
        if rank is None:
            return None
        every = (*before, *_leading(rank - len(before + after)), *after)
        labels.append(tuple(None if label in whole else label for label in every))
    return contract(op, layouts, labels[:-1], labels[-1], frozenset(_leading(len(labels[-1]))))


@rule("Cross")
def cross(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Splits any axis except the last, which holds the vectors."""
    # Both operands have the same shape; the graph may know only one rank.
    rank = op.rank(0) if op.rank(0) is not None else op.rank(1)
    if rank is None:
        return None
    labels = (*_leading(rank - 1), None)
    return contract(op, layouts, (labels, labels), labels)
