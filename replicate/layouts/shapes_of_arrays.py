"""Shapes of tensors that are reshaped, rearranged, repeated, or made from a shape."""

from __future__ import annotations

from replicate.layouts import dims as dims_lib
from replicate.layouts import values
from replicate.layouts.dims import Dim
from replicate.layouts.rule import Op
from replicate.layouts.shapes_table import Shape, like, of_shape, rank_of, shapes, sizes

like(
    "ReverseV2", "ReverseSequence", "Roll", "Print", "RandomShuffle", "MatrixBandPart",
    "MatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3", "DataFormatDimMap",
)  # fmt: skip
like("IdentityN", source=None)
of_shape(
    "Fill", "Empty", "RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt",
    "ParameterizedTruncatedNormal", "StatelessRandomUniform", "StatelessRandomUniformV2",
    "StatelessRandomNormal", "StatelessRandomNormalV2", "StatelessTruncatedNormal",
    "StatelessTruncatedNormalV2", "StatelessRandomUniformInt", "StatelessRandomUniformIntV2",
    "StatelessRandomUniformFullInt", "StatelessRandomUniformFullIntV2", by=0,
)  # fmt: skip
of_shape("BroadcastTo", "SparseToDense", by=1)


def resolved(shape: Shape, given: Shape) -> list[Dim | None]:
    """Returns the shape of a tensor of shape `given` after a `Reshape`; -1 is resolved.

    This does not hold if a size that is cancelled is 0: then `Reshape` cannot resolve -1, and
    chooses a number.
    """
    if -1 not in shape:
        return list(shape)
    others = [size for size in shape if size is not None and size != -1]
    known = [size for size in given if size is not None]
    complete = len(others) == len(shape) - 1 and len(known) == len(given)
    rest = dims_lib.over(dims_lib.product(known), dims_lib.product(others)) if complete else None
    return [rest if size == -1 else size for size in shape]


@shapes("Reshape")
def _reshape(op: Op, index: int) -> Shape | None:
    given, shape = op.dims(0), values.entries(op, 1)
    if shape is None:
        return None
    if given is None:
        return [None if size == -1 else size for size in shape]
    return resolved(list(shape), given)


@shapes("Transpose", "ConjugateTranspose")
def _transpose(op: Op, index: int) -> Shape | None:
    given, order = op.dims(0), values.entries(op, 1)
    if given is None or order is None:
        return None
    return [given[axis] if isinstance(axis, int) else None for axis in order]


@shapes("ExpandDims")
def _expand_dims(op: Op, index: int) -> Shape | None:
    given, axis = op.dims(0), op.ints(1)
    if given is None or axis is None:
        return None
    place = axis[0] % (len(given) + 1)
    return [*given[:place], 1, *given[place:]]


@shapes("Squeeze")
def _squeeze(op: Op, index: int) -> Shape | None:
    given, axes = op.dims(0), op.attr("squeeze_dims")
    if given is None or not axes:
        return None
    left_out = {axis % len(given) for axis in axes}
    return [size for axis, size in enumerate(given) if axis not in left_out]


@shapes("Bitcast")
def _bitcast(op: Op, index: int) -> Shape | None:
    given = op.dims(0)
    size, made = op.inputs[0].dtype.size, op.outputs[0].dtype.size
    if given is None or size == made:
        return given
    return given[:-1] if size < made else [*given, size // made]


@shapes("Tile")
def _tile(op: Op, index: int) -> Shape | None:
    given, times = op.dims(0), sizes(op, 1)
    if given is None or times is None:
        return None
    return [
        None if many is None else dims_lib.times(size, many) for size, many in zip(given, times)
    ]


@shapes("RandomGamma", "RandomPoissonV2")
def _drawn(op: Op, index: int) -> Shape | None:
    shape, parameters = sizes(op, 0), op.dims(1)
    return None if shape is None or parameters is None else [*shape, *parameters]


@shapes(
    "AllCandidateSampler", "FixedUnigramCandidateSampler", "LearnedUnigramCandidateSampler",
    "LogUniformCandidateSampler", "ThreadUnsafeUnigramCandidateSampler", "UniformCandidateSampler",
)  # fmt: skip
def _sampler(op: Op, index: int) -> Shape | None:
    """Returns [n, k] for the expected counts of true classes, else the number of samples."""
    return op.dims(0) if index == 1 else [op.attr("num_sampled")]


@shapes("Multinomial")
def _classes(op: Op, index: int) -> Shape | None:
    logits, count = op.dims(0), sizes(op, 1)
    return None if logits is None or count is None else [logits[0], count[0]]


@shapes("Range")
def _range(op: Op, index: int) -> Shape | None:
    """Returns how many steps reach the limit of a range from 0, if it is a size, at least 0."""
    limit, step = op.value(1), op.value(2)
    if op.ints(0) != (0,) or limit is None or step is None:
        return None
    size = dims_lib.over(limit.item(), step.item())
    return [size if size is not None and dims_lib.is_at_most(1, size) else None]


@shapes("Diag")
def _diagonal(op: Op, index: int) -> Shape | None:
    given = op.dims(0)
    return None if given is None else [*given, *given]


@shapes("DiagPart")
def _diagonal_part(op: Op, index: int) -> Shape | None:
    given = op.dims(0)
    if given is None:
        return None
    half = len(given) // 2
    return [a if isinstance(a, int) else b for a, b in zip(given[:half], given[half:])]


@shapes("MatrixDiag", "MatrixDiagV2", "MatrixDiagV3")
def _diagonal_matrix(op: Op, index: int) -> Shape | None:
    """Adds an axis to main diagonals; of other diagonals, only leading axes are known."""
    given, rank = op.dims(0), rank_of(op)
    if given is None or rank is None:
        return None
    if op.type == "MatrixDiag":
        return [*given, given[-1]]
    main = op.ints(1) == (0,) and op.ints(2) == (-1,) and op.ints(3) == (-1,)
    return [*given, given[-1]] if main else [*given[: rank - 2], None, None]


@shapes("MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3")
def _matrix_diagonal(op: Op, index: int) -> Shape | None:
    given, rank = op.dims(0), rank_of(op)
    if given is None or rank is None:
        return None
    main = op.type == "MatrixDiagPart" or op.ints(1) == (0,)
    if main and given[-1] == given[-2]:
        return given[:-1]
    return [*given[:-2], *[None] * (rank - len(given) + 2)]


@shapes("Where")
def _where(op: Op, index: int) -> Shape | None:
    given = op.dims(0)
    return None if given is None else [None, len(given)]
