"""Shapes of reductions, products, losses and linear algebra."""

from __future__ import annotations

from replicate.layouts.dims import Dim
from replicate.layouts.rule import Op
from replicate.layouts.shapes_table import Shape, like, rank_of, shapes, sizes
from replicate.layouts.values import broadcast_shapes

like(
    "Softmax", "LogSoftmax", "BiasAdd", "BiasAddV1", "Cumsum", "Cumprod", "CumulativeLogsumexp",
    "Cross", "Cholesky", "CholeskyGrad", "MatrixInverse", "MatrixLogarithm", "MatrixSquareRoot",
    "FFT", "FFT2D", "FFT3D", "IFFT", "IFFT2D", "IFFT3D", "QuantizeAndDequantizeV2",
    "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4",
)  # fmt: skip
like("InTopK", "InTopKV2", "LowerBound", "UpperBound", "TridiagonalSolve", source=1)
like("TridiagonalMatMul", source=3)


@shapes("Sum", "Mean", "Max", "Min", "Prod", "All", "Any", "EuclideanNorm", "ReduceJoin")
@shapes("ArgMax", "ArgMin")
def _reduction(op: Op, index: int) -> Shape | None:
    given, axes = op.dims(0), op.ints(1)
    if given is None or axes is None:
        return None
    reduced = {axis % len(given) for axis in axes} if given else set()
    kept = op.attr("keep_dims")
    return [
        1 if axis in reduced else size
        for axis, size in enumerate(given)
        if kept or axis not in reduced
    ]


@shapes("TopKV2")
def _top(op: Op, index: int) -> Shape | None:
    given, count = op.dims(0), sizes(op, 1)
    return None if given is None else [*given[:-1], None if count is None else count[0]]


@shapes("NthElement")
def _nth(op: Op, index: int) -> Shape | None:
    given = op.dims(0)
    return None if given is None else given[:-1]


@shapes("MatMul", "SparseMatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _matmul(op: Op, index: int) -> Shape | None:
    a, b = op.dims(0), op.dims(1)
    if a is None or b is None:
        return None
    batched = op.type.startswith("BatchMatMul")
    of_a, of_b = ("adj_x", "adj_y") if batched else ("transpose_a", "transpose_b")
    left = a[-1] if op.attr(of_a) else a[-2]
    right = b[-2] if op.attr(of_b) else b[-1]
    return [*broadcast_shapes([a[:-2], b[:-2]]), left, right]


@shapes("SparseTensorDenseMatMul")
def _sparse_matmul(op: Op, index: int) -> Shape | None:
    sparse, dense = sizes(op, 2), op.dims(3)
    left = None if sparse is None else sparse[1 if op.attr("adjoint_a") else 0]
    right = None if dense is None else dense[0 if op.attr("adjoint_b") else 1]
    return [left, right]


@shapes("Einsum")
def _einsum(op: Op, index: int) -> Shape | None:
    """Takes the size of each label from the operands; `...` is broadcast."""
    given, _, made = op.attr("equation").decode().partition("->")
    sizes: dict[str, Dim] = {}
    batches: list[Shape] = [[]]
    for place, term in enumerate(given.split(",")):
        shape = op.dims(place)
        if shape is None:
            return None
        before, dots, after = term.partition("...")
        end = len(shape) - len(after)
        if dots:
            batches.append(shape[len(before) : end])
        for label, size in zip(before + after, [*shape[: len(before)], *shape[end:]]):
            sizes[label] = broadcast_label(sizes.get(label), size)
    before, dots, after = made.partition("...")
    batch = broadcast_shapes(batches) if dots else []
    return [*(sizes[label] for label in before), *batch, *(sizes[label] for label in after)]


def broadcast_label(known: Dim | None, size: Dim) -> Dim:
    """Returns one of two sizes that are equal, preferably a number."""
    return size if known is None or isinstance(size, int) else known


@shapes("SoftmaxCrossEntropyWithLogits")
def _cross_entropy(op: Op, index: int) -> Shape | None:
    features, labels = op.dims(0), op.dims(1)
    if features is None or labels is None:
        return None
    made = broadcast_shapes([features, labels])
    return made if index else made[:1]


@shapes("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_cross_entropy(op: Op, index: int) -> Shape | None:
    features, labels = op.dims(0), op.dims(1)
    if index:
        return features
    if features is None or labels is None:
        return labels if features is None else features[:1]
    return [broadcast_label(features[0], labels[0])]


@shapes("CTCLoss", "CTCLossV2")
def _ctc(op: Op, index: int) -> Shape | None:
    given = op.dims(0)
    return given if index or given is None else given[1:2]


@shapes("MatrixSolve", "MatrixTriangularSolve", "MatrixSolveLs", "BandedTriangularSolve")
def _solve(op: Op, index: int) -> Shape | None:
    a, b = op.dims(0), op.dims(1)
    if a is None or b is None:
        return None
    return [*broadcast_shapes([a[:-2], b[:-2]]), a[-1], b[-1]]


@shapes("L2Loss")
def _scalar(op: Op, index: int) -> Shape | None:
    return []


@shapes("Bincount", "DenseBincount", "HistogramFixedWidth")
def _counts(op: Op, index: int) -> Shape | None:
    """Counts all entries, `DenseBincount` those of each row of a matrix."""
    given, many = op.dims(0), sizes(op, 2 if op.type.startswith("Histogram") else 1)
    if given is None:
        return None
    rows = given[:1] if op.type == "DenseBincount" and len(given) == 2 else ()
    return [*rows, None if many is None else many[0]]


_OF_RANGE = ("FakeQuantWithMinMaxVarsGradient", "FakeQuantWithMinMaxVarsPerChannelGradient")


@shapes(*_OF_RANGE, "QuantizeAndDequantizeV4Grad")
def _of_quantized(op: Op, index: int) -> Shape | None:
    """The gradients of entries, and of the least and the greatest one."""
    return op.dims(index + 1 if index else 0)


@shapes("UnravelIndex")
def _unravelled(op: Op, index: int) -> Shape | None:
    given, shape = op.dims(0), op.dims(1)
    return None if given is None or shape is None else [shape[0], *given]


@shapes("MatrixDeterminant", "LogMatrixDeterminant", "Qr", "Svd", "SelfAdjointEigV2", "Lu", "Eig")
def _of_matrices(op: Op, index: int) -> Shape | None:
    """Keeps leading axes; sizes of the results for each matrix are left to the graph."""
    given, rank = op.dims(0), rank_of(op, index)
    if given is None or rank is None:
        return None
    return [*given[:-2], *[None] * (rank - len(given) + 2)]


_TRANSFORMED = {"RFFT": 1, "RFFT2D": 2, "RFFT3D": 3, "IRFFT": 1, "IRFFT2D": 2, "IRFFT3D": 3}


@shapes(*_TRANSFORMED)
def _real_transform(op: Op, index: int) -> Shape | None:
    given, axes = op.dims(0), _TRANSFORMED[op.type]
    return None if given is None else [*given[:-axes], *[None] * axes]
