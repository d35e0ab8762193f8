"""Matrices and Fourier transforms."""

from __future__ import annotations

from typing import Any, Callable, Dict

import numpy as np
import tensorflow.compat.v1 as tf

from layouts.cases import Fixed, Made, cases, sizes

Arguments = Dict[str, Any]


def leading(draw: np.random.RandomState) -> list[int]:
    return sizes(draw, draw.randint(4))


def matrices(draw: np.random.RandomState) -> np.ndarray:
    """Draws symmetric matrices that are positive, and far from singular."""
    side = draw.randint(1, 5)
    made = draw.randn(*leading(draw), side, side)
    return made @ np.swapaxes(made, -1, -2) + np.diag(1.0 + np.arange(side))


def transforms(axes: int, real: str = "") -> Callable[[np.random.RandomState], Arguments]:
    """Returns what draws the arguments of a Fourier transform."""

    def make(draw: np.random.RandomState) -> Arguments:
        shape = [*sizes(draw, draw.randint(3)), *draw.randint(2, 6, axes)]
        given = draw.randn(*shape) + 1j * draw.randn(*shape)
        if not real:
            return {"input": given}
        longest = np.array(shape[-axes:])
        if real == "IRFFT":
            longest[-1] = 2 * (longest[-1] - 1)
        length = np.minimum(draw.randint(1, 7, axes), longest).astype(np.int32)
        given = given.real.astype(np.float32) if real == "RFFT" else given.astype(np.complex64)
        return {"input": given, "fft_length": Fixed(length)}

    return make


for _axes, _name in ((1, ""), (2, "2D"), (3, "3D")):
    cases(f"FFT{_name}", f"IFFT{_name}")(transforms(_axes))
    for _real in ("RFFT", "IRFFT"):
        cases(f"{_real}{_name}")(transforms(_axes, _real))


@cases("Cholesky", "MatrixDeterminant", "LogMatrixDeterminant", "Lu", "MatrixSquareRoot")
def matrix(draw: np.random.RandomState) -> Arguments:
    return {"input": matrices(draw)}


@cases("MatrixLogarithm")
def complex_matrix(draw: np.random.RandomState) -> Arguments:
    return {"input": matrices(draw).astype(np.complex128)}


@cases("MatrixInverse")
def inverse(draw: np.random.RandomState) -> Arguments:
    return {"input": matrices(draw), "adjoint": bool(draw.randint(2))}


@cases("CholeskyGrad")
def cholesky_gradient(draw: np.random.RandomState) -> Arguments:
    factor = np.linalg.cholesky(matrices(draw))
    return {"l": factor, "grad": draw.randn(*factor.shape)}


@cases("Qr")
def orthogonal(draw: np.random.RandomState) -> Arguments:
    made = draw.randn(*leading(draw), *draw.randint(1, 5, 2))
    return {"input": made, "full_matrices": bool(draw.randint(2))}


@cases("Svd")
def singular(draw: np.random.RandomState) -> Arguments:
    made = draw.randn(*leading(draw), *draw.randint(1, 5, 2))
    return {"input": made, "compute_uv": True, "full_matrices": bool(draw.randint(2))}


@cases("SelfAdjointEigV2")
def symmetric(draw: np.random.RandomState) -> Arguments:
    return {"input": matrices(draw), "compute_v": True}


@cases("Eig")
def general(draw: np.random.RandomState) -> Arguments:
    return {"input": matrices(draw), "Tout": tf.complex128, "compute_v": True}


def right_side(draw: np.random.RandomState, matrix: np.ndarray) -> np.ndarray:
    return draw.randn(*matrix.shape[:-1], sizes(draw, 1)[0])


@cases("MatrixSolve")
def solve(draw: np.random.RandomState) -> Arguments:
    matrix = matrices(draw)
    return {"matrix": matrix, "rhs": right_side(draw, matrix), "adjoint": bool(draw.randint(2))}


@cases("MatrixTriangularSolve")
def solve_triangular(draw: np.random.RandomState) -> Arguments:
    return {**solve(draw), "lower": bool(draw.randint(2))}


@cases("MatrixTriangularSolve")
def solve_triangular_of_broadcast(draw: np.random.RandomState) -> Arguments:
    arguments = solve_triangular(draw)
    if tf.__version__.startswith("1."):
        return arguments
    name = str(draw.choice(["matrix", "rhs"]))
    given = arguments[name]
    for axis in range(given.ndim - 2):
        if draw.rand() < 0.4:
            given = np.take(given, [0], axis)
    return {**arguments, name: given if draw.rand() < 0.5 or given.ndim < 3 else given[0]}


@cases("MatrixSolveLs")
def least_squares(draw: np.random.RandomState) -> Arguments:
    made = draw.randn(*leading(draw), *np.sort(draw.randint(1, 5, 2))[::-1])
    return {
        "matrix": made,
        "rhs": right_side(draw, made),
        "l2_regularizer": np.float64(0.1) * np.ones(()),
        "fast": bool(draw.randint(2)),
    }


@cases("TridiagonalSolve")
def solve_tridiagonal(draw: np.random.RandomState) -> Arguments:
    side = draw.randint(2, 6)
    made = draw.randn(*leading(draw), 3, side)
    made[..., 1, :] += 5
    return {
        "diagonals": made,
        "rhs": draw.randn(*made.shape[:-2], side, sizes(draw, 1)[0]),
        "partial_pivoting": bool(draw.randint(2)),
    }


@cases("BandedTriangularSolve")
def solve_banded(draw: np.random.RandomState) -> Arguments:
    batch, side = leading(draw), draw.randint(2, 6)
    bands = draw.randint(2, side + 1)  # A single one would be a diagonal.
    lower = bool(draw.randint(2))
    matrix = draw.randn(*batch, bands, side)
    matrix[..., 0 if lower else -1, :] += 3.0 + np.arange(side)  # The diagonal, far from 0.
    # Leading axes of one of both may be broadcast.
    right = [1 if draw.rand() < 0.2 else size for size in batch]
    return {
        "matrix": matrix,
        "rhs": draw.randn(*right, side, sizes(draw, 1)[0]),
        "lower": lower,
        "adjoint": bool(draw.randint(2)),
    }


@cases("TridiagonalMatMul")
def multiply_tridiagonal(draw: np.random.RandomState) -> Arguments:
    batch, side = leading(draw), draw.randint(2, 6)
    names = ("superdiag", "maindiag", "subdiag")
    return {
        **{name: draw.randn(*batch, 1, side) for name in names},
        "rhs": draw.randn(*batch, side, sizes(draw, 1)[0]),
    }


def rectangles(draw: np.random.RandomState) -> np.ndarray:
    return draw.randn(*leading(draw), *draw.randint(2, 6, 2))


@cases("MatrixBandPart")
def band(draw: np.random.RandomState) -> Arguments:
    lower, upper = (Fixed(np.int64(count)) for count in draw.randint(-1, 2, 2))
    return {"input": rectangles(draw), "num_lower": lower, "num_upper": upper}


@cases("MatrixDiag")
def of_diagonal(draw: np.random.RandomState) -> Arguments:
    return {"diagonal": draw.randn(*leading(draw), draw.randint(1, 5))}


@cases("MatrixDiagPart")
def diagonal_of(draw: np.random.RandomState) -> Arguments:
    return {"input": rectangles(draw)}


@cases("MatrixSetDiag")
def with_diagonal(draw: np.random.RandomState) -> Arguments:
    made = rectangles(draw)
    return {"input": made, "diagonal": draw.randn(*made.shape[:-2], min(made.shape[-2:]))}


def some_diagonals(draw: np.random.RandomState) -> Any:
    """Draws one diagonal, by one number or two, or several."""
    low, high = sorted(int(which) for which in draw.randint(-1, 2, 2))
    if tf.__version__.startswith("1."):  # Which has negative sizes where it knows none.
        low, high = min(low, 0), max(high, 0)
    return [low, high] if draw.rand() < 0.7 or low < 0 else low


def one_diagonal(draw: np.random.RandomState) -> Any:
    """Draws one diagonal; of several, TensorFlow finds no shape where sizes are not known."""
    which = int(draw.randint(-1, 2))
    return [which, which] if draw.rand() < 0.5 else which


def known(value: Any) -> Made:
    """Returns integers without which TensorFlow finds no shape."""
    return Made(lambda: tf.constant(value, tf.int32))


def filled(draw: np.random.RandomState) -> Arguments:
    return {"padding_value": np.asarray(draw.rand())}


@cases("MatrixDiagPartV2", "MatrixDiagPartV3")
def diagonals_of(draw: np.random.RandomState) -> Arguments:
    return {"input": rectangles(draw), "k": known(some_diagonals(draw)), **filled(draw)}


@cases("MatrixDiagV2", "MatrixDiagV3")
def of_given_diagonal(draw: np.random.RandomState) -> Arguments:
    square = {"num_rows": known(-1), "num_cols": known(-1)}
    return {**of_diagonal(draw), "k": known(one_diagonal(draw)), **square, **filled(draw)}


@cases("MatrixSetDiagV2", "MatrixSetDiagV3")
def with_given_diagonal(draw: np.random.RandomState) -> Arguments:
    made, k = rectangles(draw), one_diagonal(draw)
    which = k[0] if isinstance(k, list) else k
    length = min(made.shape[-2] + min(which, 0), made.shape[-1] - max(which, 0))
    return {"input": made, "diagonal": draw.randn(*made.shape[:-2], length), "k": known(k)}
