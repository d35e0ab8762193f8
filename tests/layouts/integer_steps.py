"""Random steps of arithmetic with integers, as graphs make shapes and axes with them."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

Step = Callable[[np.random.RandomState, Sequence[Any]], Any]

BINARY = (
    "Mul", "Add", "AddV2", "Sub", "FloorDiv", "TruncateDiv", "Div", "FloorMod", "Mod",
    "TruncateMod", "Maximum", "Minimum",
)  # fmt: skip
REDUCTIONS = ("Prod", "Sum", "Max", "Min")
COMPARISONS = ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual")


def pick(draw: np.random.RandomState, choices: Sequence[Any]) -> Any:
    return choices[draw.randint(len(choices))]


def of_rank(pool: Sequence[Any], *ranks: int) -> list[Any]:
    """Returns tensors of these ranks; there is always one of rank 1."""
    return [tensor for tensor in pool if tensor.shape.rank in ranks]


def vector(draw: np.random.RandomState, pool: Sequence[Any]) -> Any:
    return pick(draw, of_rank(pool, 1))


def number(draw: np.random.RandomState, low: int = -4, high: int = 5) -> Any:
    return tf.constant(draw.randint(low, high), tf.int32)


def axis_of(draw: np.random.RandomState, tensor: Any, more: int = 0) -> int:
    rank = tensor.shape.rank + more
    return int(draw.randint(-rank, rank)) if rank else 0


def length(tensor: Any) -> int:
    return int(tensor.shape.num_elements() or 0)


def binary(draw: np.random.RandomState, pool: Sequence[Any]) -> Any:
    a, b = pick(draw, pool), pick(draw, [*pool, number(draw)])
    if draw.rand() < 0.3:
        b = tf.maximum(b, 1)
    if draw.rand() < 0.5:
        a = a * b
    return getattr(tf.raw_ops, pick(draw, BINARY))(x=a, y=b)


def division(draw: np.random.RandomState, pool: Sequence[Any]) -> Any:
    """Divides integers that may not be multiples, or by a maximum with a size that may be 0."""
    value = pick(draw, pool)
    name = pick(draw, ["FloorDiv", "TruncateDiv", "Div", "FloorMod", "Mod", "TruncateMod"])
    if draw.rand() < 0.5:
        return getattr(tf.raw_ops, name)(x=value + number(draw), y=pick(draw, [-3, -2, 2, 3]))
    factor = pick(draw, [2, value, tf.reverse(vector(draw, pool), [0])[:1]])
    return getattr(tf.raw_ops, name)(x=value * factor, y=tf.maximum(value, 1))


def overflow(draw: np.random.RandomState, pool: Sequence[Any]) -> Any:
    return pick(draw, pool) * (1 << 16) * pick(draw, [3, 1 << 15, 1 << 16])


def unary(draw: np.random.RandomState, pool: Sequence[Any]) -> Any:
    name = pick(
        draw, ["Neg", "Square", "Identity", "ZerosLike", "OnesLike", "StopGradient", "Size"]
    )
    key = {"Size": "input", "Identity": "input", "StopGradient": "input"}.get(name, "x")
    return getattr(tf.raw_ops, name)(**{key: pick(draw, pool)})


def cast(draw: np.random.RandomState, pool: Sequence[Any]) -> Any:
    if draw.rand() < 0.3:
        compared = {"x": pick(draw, pool), "y": pick(draw, [number(draw), pick(draw, pool)])}
        return tf.cast(getattr(tf.raw_ops, pick(draw, COMPARISONS))(**compared), tf.int32)
    narrow = tf.cast(pick(draw, pool), pick(draw, [tf.int64, tf.int8, tf.uint8, tf.int16]))
    if draw.rand() < 0.5 and narrow.dtype in (tf.int8, tf.int16):
        narrow = narrow * pick(draw, [1, 50, -50])
    return tf.cast(narrow, tf.int32)


def add_all(draw: np.random.RandomState, pool: Sequence[Any]) -> Any:
    first = pick(draw, pool)
    return tf.add_n([first, pick(draw, [first, first * 2, tf.ones_like(first)]), first])


def reduction(draw: np.random.RandomState, pool: Sequence[Any]) -> Any:
    value = pick(draw, of_rank(pool, 0, 1, 2))
    axes = draw.permutation(value.shape.rank)[: draw.randint(value.shape.rank + 1)]
    axes = axes - value.shape.rank * (draw.rand(len(axes)) < 0.3)
    return getattr(tf.raw_ops, pick(draw, REDUCTIONS))(
        input=value, axis=tf.constant(axes, tf.int32), keep_dims=bool(draw.randint(2))
    )


def pack(draw: np.random.RandomState, pool: Sequence[Any]) -> Any:
    first = pick(draw, of_rank(pool, 0, 1))
    same = [tensor for tensor in pool if tensor.shape.as_list() == first.shape.as_list()]
    parts = [pick(draw, same) for _ in range(draw.randint(1, 4))]
    return tf.stack(parts, axis_of(draw, first, 1))


def unpack(draw: np.random.RandomState, pool: Sequence[Any]) -> Any:
    value = pick(draw, of_rank(pool, 1, 2))
    return pick(draw, tf.unstack(value, axis=axis_of(draw, value)))


def concat(draw: np.random.RandomState, pool: Sequence[Any]) -> Any:
    parts = [vector(draw, pool) for _ in range(draw.randint(2, 4))]
    return tf.concat(parts, int(draw.randint(-1, 1)))


def split(draw: np.random.RandomState, pool: Sequence[Any]) -> Any:
    value = vector(draw, pool)
    size = length(value)
    if draw.rand() < 0.5:
        divisors = [n for n in range(1, size + 1) if size % n == 0]
        return pick(draw, tf.split(value, pick(draw, divisors or [1]), axis=pick(draw, [0, -1])))
    cut = int(draw.randint(size + 1))
    return pick(draw, tf.split(value, pick(draw, [[cut, -1], [-1, cut], [cut, size - cut]])))


def strided(draw: np.random.RandomState, pool: Sequence[Any]) -> Any:
    value = pick(draw, of_rank(pool, 1, 2))
    masks = {
        f"{name}_mask": int(draw.randint(4)) if draw.rand() < 0.4 else 0
        for name in ("begin", "end", "shrink_axis", "new_axis")
    }
    masks["ellipsis_mask"] = int(draw.randint(3)) if draw.rand() < 0.3 else 0
    count = draw.randint(1, 3)
    begin, end = draw.randint(-3, 4, (2, count))
    strides = pick(draw, [np.ones(count), draw.choice([-2, -1, 1, 2], count)])
    bounds = [tf.constant(bound, tf.int32) for bound in (begin, end, strides)]
    if draw.rand() < 0.3:
        bounds[draw.randint(2)] = tf.stack([pick(draw, of_rank(pool, 0) or [1]) for _ in begin])
    return tf.strided_slice(value, *bounds, **masks)


def slices(draw: np.random.RandomState, pool: Sequence[Any]) -> Any:
    value = pick(draw, of_rank(pool, 1, 2))
    begin = [int(draw.randint(max(size, 1))) for size in value.shape.as_list()]
    size = [
        int(draw.choice([-1, draw.randint(own - low + 1)]))
        for low, own in zip(begin, value.shape.as_list())
    ]
    return tf.slice(value, begin, size)


def gather(draw: np.random.RandomState, pool: Sequence[Any]) -> Any:
    value = pick(draw, of_rank(pool, 1, 2))
    axis = axis_of(draw, value)
    size = value.shape.as_list()[axis]
    indices = draw.randint(0, max(size, 1), pick(draw, [(), (2,), (0,), (1, 2)]))
    return tf.gather(value, tf.constant(indices, tf.int32), axis=axis)


def shape_changes(draw: np.random.RandomState, pool: Sequence[Any]) -> Any:
    value = pick(draw, pool)
    how = draw.randint(4)
    if how == 0:
        return tf.expand_dims(value, axis_of(draw, value, 1))
    if how == 1:
        ones = [axis for axis, size in enumerate(value.shape.as_list()) if size == 1]
        return tf.squeeze(value, pick(draw, [None, ones, [a - value.shape.rank for a in ones]]))
    if how == 2:
        return tf.reshape(value, pick(draw, [[-1], [1, -1], [length(value)], [-1, 1]]))
    return tf.transpose(value, draw.permutation(value.shape.rank).tolist())


def repeats(draw: np.random.RandomState, pool: Sequence[Any]) -> Any:
    value = vector(draw, pool)
    how = draw.randint(5)
    if how == 0:
        return tf.tile(value, [int(draw.randint(4))])
    if how == 1:
        return tf.reverse(value, [int(draw.randint(-1, 1))])
    if how == 2:
        return tf.broadcast_to(pick(draw, of_rank(pool, 0) or [3]), [int(draw.randint(4))])
    if how == 3:
        return tf.fill([int(draw.randint(4))], pick(draw, of_rank(pool, 0) or [3]))
    return tf.reverse(value, tf.constant([], tf.int32))


def ranges(draw: np.random.RandomState, pool: Sequence[Any]) -> Any:
    rank = tf.size(vector(draw, pool))
    how = draw.randint(4)
    if how == 0:
        return tf.range(draw.randint(-2, 3), rank, pick(draw, [1, 2, 3]))
    if how == 1:
        return tf.range(rank, int(draw.randint(-3, 3)), pick(draw, [-1, -2]))
    if how == 2:
        made = tf.raw_ops.ListDiff(x=tf.range(rank), y=[int(draw.randint(4)), 0])
        return pick(draw, [made.out, made.idx])
    return tf.raw_ops.InvertPermutation(x=tf.constant(draw.permutation(4), tf.int32))


def stitch(draw: np.random.RandomState, pool: Sequence[Any]) -> Any:
    value = vector(draw, pool)
    places = draw.choice(max(length(value), 1), pick(draw, [0, 1, 2]))
    if draw.rand() < 0.3:
        rows = [tf.reshape(part, [1, -1]) for part in (value, value * 2)]
        return tf.dynamic_stitch([[1], [0]], rows)
    scalars = of_rank(pool, 0)
    others = [pick(draw, scalars) if scalars else tf.constant(1) for _ in places]
    data = tf.stack(others) if others else tf.constant([], tf.int32)
    return tf.dynamic_stitch(
        [tf.range(tf.size(value)), tf.constant(places, tf.int32)], [value, data]
    )


def offsets(draw: np.random.RandomState, pool: Sequence[Any]) -> Any:
    value = vector(draw, pool)
    if not length(value):
        return None
    shapes = [value, pick(draw, [value, value * 2]), value]
    made = tf.raw_ops.ConcatOffset(concat_dim=axis_of(draw, tf.zeros(value.shape)), shape=shapes)
    return pick(draw, made)


def select(draw: np.random.RandomState, pool: Sequence[Any]) -> Any:
    x = pick(draw, pool)
    compared = getattr(tf.raw_ops, pick(draw, COMPARISONS))(x=x, y=number(draw))
    if draw.rand() < 0.3:
        compared = tf.constant(bool(draw.randint(2)))
    name = pick(draw, ["Select", "SelectV2"])
    x, y = pick(draw, [(x, x + 1), (x, tf.ones_like(x))])
    keys = {"condition": compared, ("t" if name == "SelectV2" else "x"): x}
    return getattr(tf.raw_ops, name)(**keys, **{"e" if name == "SelectV2" else "y": y})


def broadcast_shapes(draw: np.random.RandomState, pool: Sequence[Any]) -> Any:
    return tf.raw_ops.BroadcastArgs(s0=vector(draw, pool), s1=vector(draw, pool))


STEPS: tuple[Step, ...] = (
    binary, binary, binary, division, division, overflow, unary, cast, add_all, reduction,
    reduction, pack, unpack, concat, split, strided, strided, slices, gather, shape_changes,
    repeats, ranges, stitch, offsets, select, broadcast_shapes,
)  # fmt: skip


def extended(draw: np.random.RandomState, pool: list[Any], steps: int) -> list[Any]:
    """Returns tensors, and others that are made of them by random steps."""
    pool = list(pool)
    for _ in range(steps):
        try:
            made = pick(draw, STEPS)(draw, pool)
        except (ValueError, tf.errors.OpError):  # Sizes that do not fit.
            continue
        if made is not None and made.shape.is_fully_defined() and length(made) <= 12:
            pool.append(made)
    return pool
