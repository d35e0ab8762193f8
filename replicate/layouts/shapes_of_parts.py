"""Shapes of tensors that are concatenated, split, sliced, padded or indexed."""

from __future__ import annotations

from typing import Any, Sequence

from replicate.layouts import dims as dims_lib
from replicate.layouts import strides, values
from replicate.layouts.dims import Dim
from replicate.layouts.rule import Op
from replicate.layouts.shapes_table import Shape, like, of_shape, rank_of, shapes, sizes, summands

like("TensorStridedSliceUpdate", "TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub")
like("TensorScatterMax", "TensorScatterMin", "ScatterNdNonAliasingAdd")
of_shape("StridedSliceGrad", by=0)
of_shape("ScatterNd", by=2)


@shapes("ConcatV2", "Concat")
def _concat(op: Op, index: int) -> Shape | None:
    """Adds up sizes on the axis of the concatenation; on others, all parts have one size."""
    last = len(op.inputs) - 1
    along, parts = (last, range(last)) if op.type == "ConcatV2" else (0, range(1, last + 1))
    known = [op.dims(part) for part in parts]
    axis, rank = op.ints(along), rank_of(op)
    if axis is None or rank is None:
        return None
    made = alike(known, rank)
    place = axis[0] % rank
    made[place] = dims_lib.total(None if shape is None else shape[place] for shape in known)
    if made[place] is None:
        made[place] = _filled_up(op, [op.inputs[part] for part in parts], known, place)
    return made


def _filled_up(
    op: Op, parts: Sequence[Any], known: Sequence[tuple[Dim, ...] | None], place: int
) -> Dim | None:
    """Returns the size of a concatenation with padding, `[x; tf.zeros([size - tf.size(x)])]`."""
    for index, part in enumerate(parts):
        others = [None if s is None else s[place] for i, s in enumerate(known) if i != index]
        size = part.op.inputs[0] if part.op.type == "Fill" else None
        while size is not None and size.op.type in ("Cast", "Identity"):
            size = size.op.inputs[0]
        if size is not None and size.op.type == "Pack":
            size = size.op.inputs[place]
        if size is None or size.op.type != "Sub" or (size.shape.rank != 0 and place):
            continue
        ends = [op.value_of(tensor) for tensor in size.op.inputs]
        if any(end is None or end.size != 1 for end in ends):
            continue
        whole, gone = (end.flat[0] for end in ends if end is not None)
        if gone == dims_lib.total(others):
            return whole
    return None


@summands("ConcatV2")
def _joined(op: Op, index: int, axis: int) -> list[Dim] | None:
    """Returns the sizes of all parts on the axis of the concatenation."""
    place, known = op.ints(len(op.inputs) - 1), [op.dims(i) for i in range(len(op.inputs) - 1)]
    shapes_of_parts = [shape for shape in known if shape is not None]
    rank = rank_of(op)
    if place is None or rank is None or len(shapes_of_parts) < len(known):
        return None
    return [shape[axis] for shape in shapes_of_parts] if place[0] % rank == axis else None


def alike(known: Sequence[tuple[Dim, ...] | None], rank: int) -> list[Dim | None]:
    """Returns the common shape of several tensors, preferring numbers, and then sizes with rows.

    Tensors of another rank, such as scalars, are ignored.
    """
    made: list[Dim | None] = [None] * rank
    for shape in known:
        if shape is None or len(shape) != rank:
            continue
        made = [b if a is None or _says_more(b, a) else a for a, b in zip(made, shape)]
    return made


def _says_more(one: Dim, other: Dim) -> bool:
    """Whether a size is more informative than another one of the same value."""
    if isinstance(one, int) or isinstance(other, int):
        return isinstance(one, int)
    return dims_lib.holds_rows(one) and not dims_lib.holds_rows(other)


@shapes("Pack")
def _pack(op: Op, index: int) -> Shape | None:
    rank = rank_of(op)
    if rank is None:
        return None
    made = alike([op.dims(part) for part in range(len(op.inputs))], rank - 1)
    place = op.attr("axis") % rank
    return [*made[:place], len(op.inputs), *made[place:]]


@shapes("Unpack")
def _unpack(op: Op, index: int) -> Shape | None:
    given = op.dims(0)
    if given is None:
        return None
    place = op.attr("axis") % len(given)
    return [*given[:place], *given[place + 1 :]]


@shapes("Split")
def _split(op: Op, index: int) -> Shape | None:
    given, axis = op.dims(1), op.ints(0)
    if given is None or axis is None:
        return None
    made: list[Dim | None] = list(given)
    place = axis[0] % len(given)
    made[place] = dims_lib.over(given[place], op.attr("num_split"))
    return made


@shapes("SplitV")
def _split_unevenly(op: Op, index: int) -> Shape | None:
    given, many, axis = op.dims(0), sizes(op, 1), op.ints(2)
    if given is None or axis is None:
        return None
    made: list[Dim | None] = list(given)
    place = axis[0] % len(given)
    one = op.attr("num_split") == 1
    made[place] = given[place] if one else None if many is None else many[index]
    return made


@shapes("StridedSlice")
def _strided_slice(op: Op, index: int) -> Shape | None:
    given = op.dims(0)
    taken = None if given is None else strides.steps(op, len(given))
    if given is None or taken is None:
        return None
    return [
        1 if step.axis is None else strides.size_taken(op, step, given[step.axis])
        for step in taken
        if step.made is not None
    ]


@shapes("Slice")
def _slice(op: Op, index: int) -> Shape | None:
    given, begin, size = op.dims(0), values.entries(op, 1), values.entries(op, 2)
    if given is None or size is None:
        return None
    made: list[Dim | None] = list(size)
    for axis, entry in enumerate(size):
        if entry == -1:
            low = None if begin is None else begin[axis]
            made[axis] = None if low is None else op.rest(given[axis], low)
    return made


@shapes("Pad", "PadV2", "MirrorPad", "MirrorPadGrad")
def _pad(op: Op, index: int) -> Shape | None:
    given, paddings = op.dims(0), values.entries(op, 1)
    if given is None or paddings is None:
        return None
    sign = -1 if op.type == "MirrorPadGrad" else 1
    return [
        dims_lib.total(
            [size, *(None if pad is None else dims_lib.times(sign, pad) for pad in pads)]
        )
        for size, pads in zip(given, paddings)
    ]


@shapes("Gather", "GatherV2")
def _gather(op: Op, index: int) -> Shape | None:
    given, indices = op.dims(0), op.dims(1)
    axis = op.ints(2) if op.type == "GatherV2" else (0,)
    if given is None or indices is None or axis is None:
        return None
    place, batch = axis[0] % len(given), op.attr("batch_dims", 0)
    batch += len(indices) if batch < 0 else 0
    return [*given[:place], *indices[batch:], *given[place + 1 :]]


@shapes("ResourceGather", "LookupTableFindV2")
def _looked_up(op: Op, index: int) -> Shape | None:
    indices, rank = op.dims(1), rank_of(op)
    if indices is None or rank is None:
        return None
    return [*indices, *[None] * (rank - len(indices))]


@shapes("GatherNd", "ResourceGatherNd")
def _gather_nd(op: Op, index: int) -> Shape | None:
    given, indices, rank = op.dims(0), op.dims(1), rank_of(op)
    if indices is None or rank is None:
        return None
    rest = rank - len(indices) + 1
    if given is None or op.type == "ResourceGatherNd":
        return [*indices[:-1], *[None] * rest]
    return [*indices[:-1], *given[len(given) - rest :]]


@shapes("UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin")
@shapes("DynamicPartition", "DynamicStitch", "ParallelDynamicStitch")
def _sorted(op: Op, index: int) -> Shape | None:
    """Replaces the axes of the indices by one axis of results."""
    data, places = (len(op.inputs) // 2, 0) if op.type.endswith("DynamicStitch") else (0, 1)
    given, by = op.dims(data), op.dims(places)
    if given is None or by is None:
        return None
    count = sizes(op, 2) if op.type.startswith("Unsorted") else None
    return [None if count is None else count[0], *given[len(by) :]]


@shapes(
    "SegmentSum", "SegmentMean", "SegmentProd", "SegmentMax", "SegmentMin", "SparseSegmentSum",
    "SparseSegmentMean", "SparseSegmentSqrtN", "SparseSegmentSumWithNumSegments",
    "SparseSegmentMeanWithNumSegments", "SparseSegmentSqrtNWithNumSegments",
    "SparseSegmentSumGrad", "SparseSegmentMeanGrad", "SparseSegmentSqrtNGrad",
)  # fmt: skip
def _segments(op: Op, index: int) -> Shape | None:
    data = op.dims(0)
    if data is None:
        return None
    count = sizes(op, 3) if len(op.inputs) > 3 else None
    return [None if count is None else count[0], *data[1:]]


@shapes("OneHot")
def _one_hot(op: Op, index: int) -> Shape | None:
    given, depth = op.dims(0), sizes(op, 1)
    if given is None:
        return None
    place = op.attr("axis") % (len(given) + 1)
    return [*given[:place], None if depth is None else depth[0], *given[place:]]
