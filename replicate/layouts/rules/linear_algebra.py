"""Matrices and Fourier transforms, which are batched along leading axes."""

from __future__ import annotations

from typing import Sequence

from replicate.layouts.layout import PER_TOWER, Layout, Strategy
from replicate.layouts.rule import Op, rule
from replicate.layouts.rules.labels import Labels, by_leading_axes, cut, cut_leading, linear

DECOMPOSITIONS = (
    *("Cholesky", "MatrixInverse", "MatrixDeterminant", "LogMatrixDeterminant", "MatrixLogarithm"),
    *("MatrixSquareRoot", "Lu", "Qr", "Svd", "SelfAdjointEigV2", "Eig"),
)

TRIANGULAR = ("MatrixTriangularSolve", "BandedTriangularSolve")

# Input 0 is transformed; lengths, if they are inputs, are the same for all.
by_leading_axes("FFT", "IFFT", "RFFT", "IRFFT", linear_in=[0])
by_leading_axes("FFT2D", "IFFT2D", "RFFT2D", "IRFFT2D", but=2, linear_in=[0])
by_leading_axes("FFT3D", "IFFT3D", "RFFT3D", "IRFFT3D", but=3, linear_in=[0])
# It is linear in the gradient only.
by_leading_axes("CholeskyGrad", operands=[0, 1], but=2, linear_in=[1])
by_leading_axes("MatrixBandPart", "MatrixDiagPart", but=2, linear_in=[0])
# The indices of diagonals, and the padding value, are the same for all.
by_leading_axes("MatrixDiagPartV2", "MatrixDiagPartV3", but=2)
by_leading_axes("MatrixDiag", linear_in=[0])
# Matrices and their diagonals.
by_leading_axes("MatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3", operands=[0, 1], but=2)


@rule(*DECOMPOSITIONS)
def decompose(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Splits leading axes; vectors that are not computed are outputs without a useful shape."""
    kept = cut_leading(op, layouts, [0], op.rank(0), 2)
    if kept is None or op.attr("compute_uv", op.attr("compute_v", True)):
        return kept
    return Strategy(kept.inputs, (kept.outputs[0], *[PER_TOWER] * (len(op.outputs) - 1)))


@rule("MatrixSolve", "MatrixSolveLs", *TRIANGULAR, "TridiagonalSolve")
def solve(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Splits leading axes, or columns of the right side: each column is solved by itself."""
    return _columns(op, layouts, [0], 1)


@rule("TridiagonalMatMul")
def multiply(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Splits leading axes, or columns."""
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


@rule("MatrixDiagV2", "MatrixDiagV3")
def diagonals(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Splits leading axes; a single diagonal has one axis less than several."""
    return cut_leading(op, layouts, [0], op.out_rank(), 2)
