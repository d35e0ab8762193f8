"""Matrices and Fourier transforms: leading axes hold many, each by itself."""

from __future__ import annotations

from typing import Sequence

from replicate.layouts.layout import OWN, Layout, Strategy
from replicate.layouts.rule import Op, rule
from replicate.layouts.rules.labels import Labels, cut, leading, linear

DECOMPOSITIONS = (
    *("Cholesky", "MatrixInverse", "MatrixDeterminant", "LogMatrixDeterminant", "MatrixLogarithm"),
    *("MatrixSquareRoot", "Lu", "Qr", "Svd", "SelfAdjointEigV2", "Eig"),
)

TRIANGULAR = ("MatrixTriangularSolve", "BandedTriangularSolve")


@rule("FFT", "FFT2D", "FFT3D", "IFFT", "IFFT2D", "IFFT3D")
@rule("RFFT", "RFFT2D", "RFFT3D", "IRFFT", "IRFFT2D", "IRFFT3D")
def fourier(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut all axes but those that are transformed; lengths, if given, are the same for all."""
    axes = int(op.type[-2]) if op.type.endswith("D") else 1
    return _leading(op, layouts, [0], op.rank(0), axes) or linear(op, layouts, [0])


def _leading(
    op: Op, layouts: Sequence[Layout], operands: Sequence[int], rank: int | None, axes: int = 2
) -> Strategy | None:
    """Returns the strategy that cuts leading axes, in some operands and in all that comes out.

    Args:
        op: The operation.
        layouts: Those of its inputs.
        operands: The indices of the inputs that have the leading axes; others are whole.
        rank: The number of axes of one of them.
        axes: So many of these are its own.
    """
    if rank is None:
        return None
    labels = leading(rank - axes)
    given = [labels if index in operands else () for index in range(len(layouts))]
    return cut(op, layouts, given, [labels] * len(op.outputs))


@rule(*DECOMPOSITIONS)
def decompose(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut leading axes; vectors that are not asked for are of no shape, and nobody's."""
    kept = _leading(op, layouts, [0], op.rank(0))
    if kept is None or op.attr("compute_uv", op.attr("compute_v", True)):
        return kept
    return Strategy(kept.inputs, (kept.outputs[0], *[OWN] * (len(op.outputs) - 1)))


@rule("CholeskyGrad")
def cholesky_gradient(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut leading axes; the gradient alone is linear."""
    return _leading(op, layouts, [0, 1], op.rank(0)) or linear(op, layouts, [1])


@rule("MatrixSolve", "MatrixSolveLs", *TRIANGULAR, "TridiagonalSolve")
def solve(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut leading axes, or columns of the right side: each column is solved by itself."""
    return _columns(op, layouts, [0], 1)


@rule("TridiagonalMatMul")
def multiply(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut leading axes, or columns."""
    return _columns(op, layouts, [0, 1, 2], 3)


def _columns(
    op: Op, layouts: Sequence[Layout], matrices: Sequence[int], right: int
) -> Strategy | None:
    """Returns the strategy of matrices that are applied to the columns of others.

    Leading axes are counted from the last of them, since triangular kernels broadcast them.
    """
    rank = op.out_rank()
    ranks = [op.rank(index) for index in range(len(layouts))]
    if rank is None or any(ranks[index] is None for index in (*matrices, right)):
        return linear(op, layouts, [right])
    operands: list[Labels] = [()] * len(layouts)
    for index in (*matrices, right):
        operands[index] = tuple(range(2 - (ranks[index] or 0), 0))
    operands[right] = (*operands[right], None, "column")
    result = (*range(2 - rank, 0), None, "column")
    wide = frozenset(range(2 - rank, 0)) if op.type in TRIANGULAR else frozenset()
    return cut(op, layouts, operands, [result], wide) or linear(op, layouts, [right])


@rule("MatrixBandPart", "MatrixDiagPart")
def part(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut leading axes."""
    return _leading(op, layouts, [0], op.rank(0)) or linear(op, layouts, [0])


@rule("MatrixDiagPartV2", "MatrixDiagPartV3")
def padded_part(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut leading axes; which diagonals, and what fills them up, is the same for all."""
    return _leading(op, layouts, [0], op.rank(0))


@rule("MatrixDiag")
def diagonal(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut leading axes of vectors."""
    return _leading(op, layouts, [0], op.rank(0), 1) or linear(op, layouts)


@rule("MatrixDiagV2", "MatrixDiagV3")
def diagonals(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut leading axes; a single diagonal has an axis less than several."""
    return _leading(op, layouts, [0], op.out_rank())


@rule("MatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3")
def set_diagonal(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut leading axes of matrices, and of their diagonals."""
    return _leading(op, layouts, [0, 1], op.rank(0))
