"""Forms of random programs: reductions, orders, indices, segments, and what counts rows."""

from __future__ import annotations

from partition.fuzz_draft import Draft, Made, UnfitError, form, replaced, without
from partition.fuzz_program import ROWS, fixed, is_fixed


@form(5)
def reduce(d: Draft) -> Made:
    """Reduces any axes, also that of rows."""
    x = d.pick(least=1)
    kind = d.one_of(
        *("mean", "sum") * 4, *("max", "min") * 2, "prod", "logsumexp", "euclidean_norm", "variance"
    )
    kept = d.chance(0.3)
    if d.chance(0.25) and not kept:
        axes, axis = list(range(x.rank)), ""
    else:
        axes = [axis for axis in range(x.rank) if d.chance(0.5)] or [d.axis(x)]
        axis = f", {d.signed(axes[0], x.rank)}" if len(axes) == 1 and d.chance(0.5) else f", {axes}"
    shape = [fixed(1) if i in axes else s for i, s in enumerate(x.shape) if kept or i not in axes]
    where = "math.reduce" if kind in ("euclidean_norm", "variance") else "reduce"
    argument = f"{x.name} + .1" if kind == "euclidean_norm" else x.name
    if kind == "prod":
        argument = f"1. + .1 * tf.tanh({x.name})"
    more = ", keepdims=True" if kept else ""
    return Made(
        f"tf.{where}_{kind}({argument}{axis}{more})",
        tuple(shape),
        is_wild=kind == "sum" and d.chance(0.5),
    )


@form(1)
def reduce_others(d: Draft) -> Made:
    x = d.pick(least=1)
    axis = d.axis(x)
    less = without(x.shape, axis)
    text, shape = d.one_of(
        ("tf.norm({x} + .1, axis={a})", less),
        ("tf.nn.moments({x}, [{a}])[1]", less),
        ("tf.nn.moments({x}, [{a}])[0]", less),
        ("tf.cast(tf.math.count_nonzero(tf.nn.relu({x}), axis={a}), tf.float64)", less),
        ("tf.nn.l2_loss({x})", ()),
        ("tf.cast(tf.size({x}), tf.float64) * .01", ()),
        ("tf.global_norm([{x}, {x} + 1.])", ()),
        ("tf.nn.zero_fraction(tf.nn.relu({x}))", ()),
        ("tf.math.reduce_variance({x}, {a})", less),
        ("tf.cast(tf.shape({x})[{a}], tf.float64) * .1", ()),
    )
    text = text.format(x=x.name, a=axis)
    return Made(f"tf.cast({text}, tf.float64)" if "zero_fraction" in text else text, shape)


@form(0.7)
def reduce_bool(d: Draft) -> Made:
    x = d.pick("bool", least=1)
    axes = [axis for axis in range(x.rank) if d.chance(0.5)] or [d.axis(x)]
    return Made(
        f"tf.reduce_{d.one_of('any', 'all')}({x.name}, {axes})", without(x.shape, *axes), "bool"
    )


@form(0.7)
def arg(d: Draft) -> Made:
    x = d.pick(least=1)
    axis = d.axis(x)
    high = max(x.shape[axis]) if is_fixed(x.shape[axis]) else 0
    made = f"tf.{d.one_of('argmax', 'argmin')}({x.name}, {d.signed(axis, x.rank)})"
    if not high:
        return Made(f"tf.cast({made}, tf.float64)", without(x.shape, axis))
    return Made(made, without(x.shape, axis), "int", high)


@form(1.2)
def cumulative(d: Draft) -> Made:
    x = d.pick(least=1)
    axis = d.signed(d.axis(x), x.rank)
    kind = d.one_of("cumsum", "cumsum", "cumprod")
    argument = x.name if kind == "cumsum" else f"1. + .1 * tf.tanh({x.name})"
    flags = (", exclusive=True" if d.chance(0.3) else "") + (
        ", reverse=True" if d.chance(0.3) else ""
    )
    return Made(f"tf.{kind}({argument}, {axis}{flags})", x.shape)


@form(1)
def ordered(d: Draft) -> Made:
    x = d.pick(least=1)
    axis = d.axis(x)
    way = d.draw.randint(4)
    if way == 0:
        more = d.one_of("", ", direction='DESCENDING'")
        return Made(f"tf.sort({x.name}, axis={axis}{more})", x.shape)
    if way == 1:
        return Made(f"tf.cast(tf.argsort({x.name}, axis={axis}), tf.float64) * .1", x.shape)
    k = int(d.draw.randint(1, min(x.shape[-1]) + 1))
    if way == 2:
        return Made(f"tf.nn.top_k({x.name}, {k})[0]", replaced(x.shape, x.rank - 1, fixed(k)))
    text = f"tf.gather({x.name}, tf.nn.top_k({x.name}, {k})[1], axis=-1, batch_dims={x.rank - 1})"
    return Made(text, replaced(x.shape, x.rank - 1, fixed(k)))


@form(0.7)
def hardest(d: Draft) -> Made:
    """Takes the largest of all rows."""
    x = d.pick(rank=1)
    k = d.one_of(f"tf.shape({x.name})[0]", "1", f"(tf.shape({x.name})[0] + 1) // 2")
    shape = {"1": fixed(1)}.get(k, x.shape[0])
    if "//" in k:
        shape = tuple((entry + 1) // 2 for entry in shape)
    return Made(f"tf.nn.top_k({x.name}, {k})[0]", (shape,))


# Indices


@form(1.5)
def embedding(d: Draft) -> Made:
    k = d.pick("int", where=lambda v: 0 < v.high < 20)
    width = int(d.draw.randint(1, 5))
    v = d.variable(k.high, width)
    kind = d.one_of("tf.nn.embedding_lookup", "tf.gather")
    return Made(f"{kind}({v.name}, {k.name})", (*k.shape, fixed(width)))


@form(0.4)
def embedding_at(d: Draft) -> Made:
    k = d.pick("int", where=lambda v: 0 < v.high < 20)
    v = d.variable(k.high)
    return Made(f"tf.gather_nd({v.name}, tf.expand_dims({k.name}, -1))", k.shape)


@form(1.2)
def one_hot(d: Draft) -> Made:
    k = d.pick("int", where=lambda v: v.rank < 4 and 0 < v.high < 20)
    axis = int(d.draw.randint(k.rank + 1))
    depth = k.high
    shape = (*k.shape[:axis], fixed(depth), *k.shape[axis:])
    values = d.one_of("", ", on_value=.9, off_value=.1")
    signed = -1 if axis == k.rank else axis
    return Made(f"tf.one_hot({k.name}, {depth}, axis={signed}, dtype=tf.float64{values})", shape)


@form(1.2)
def gather(d: Draft) -> Made:
    x = d.pick(least=1)
    axis = d.axis(x)
    size = x.shape[axis]
    if d.chance(0.4):
        k = d.pick("int", where=lambda v: 0 < v.high <= min(size) and v.rank < 3)
        shape = replaced(x.shape, axis, *k.shape)
        if len(shape) > 5:
            raise UnfitError
        return Made(f"tf.gather({x.name}, {k.name}, axis={axis})", shape)
    if is_fixed(size):
        indices = [int(i) for i in d.draw.randint(size[0], size=d.draw.randint(1, 4))]
        shape = replaced(x.shape, axis, fixed(len(indices)))
        return Made(f"tf.gather({x.name}, {indices}, axis={axis})", shape)
    rows = f"tf.shape({x.name})[{axis}]"
    text = d.one_of(
        f"tf.range({rows})[::-1]", f"(tf.range({rows}) + 1) % {rows}", f"tf.range({rows})"
    )
    return Made(f"tf.gather({x.name}, {text}, axis={axis})", x.shape)


@form(0.8)
def gather_by_row(d: Draft) -> Made:
    x = d.pick(least=2, where=lambda v: is_fixed(v.shape[1]))
    k = d.pick("int", rank=1, where=lambda v: v.shape[0] == x.shape[0] and v.high <= x.shape[1][0])
    shape = (x.shape[0], *x.shape[2:])
    if d.chance(0.5):
        return Made(f"tf.gather({x.name}, {k.name}, axis=1, batch_dims=1)", shape)
    ids = f"tf.cast(tf.range({d.size(x, 0)}), tf.int64)"
    if d.chance(0.3) and x.rank == 2:  # By places in the flat tensor.
        size, most = f"tf.shape({x.name})[1]", f"tf.argmax({x.name}, 1, output_type={k.name}.dtype)"
        place = d.one_of(most, f"{k.name} % tf.cast({size}, {k.name}.dtype)")
        flat = f"{ids} * tf.cast({size}, {k.name}.dtype) + {place}"
        return Made(f"tf.gather(tf.reshape({x.name}, [-1]), {flat})", shape)
    return Made(f"tf.gather_nd({x.name}, tf.stack([{ids}, {k.name}], axis=1))", shape)


@form(0.5)
def sequence_mask(d: Draft) -> Made:
    k = d.pick("int", where=lambda v: v.rank < 4)
    longest = int(d.draw.randint(1, 5))
    return Made(f"tf.sequence_mask({k.name}, {longest}, tf.float64)", (*k.shape, fixed(longest)))


@form(1.5)
def segments(d: Draft) -> Made:
    x = d.pick(least=1)
    k = d.pick("int", rank=1, where=lambda v: v.shape[0] == x.shape[0] and 0 < v.high < 20)
    kind = d.one_of("sum", "sum", "mean", "max", "min", "prod", "sqrt_n")
    argument = f"1. + .1 * tf.tanh({x.name})" if kind == "prod" else x.name
    made = f"tf.math.unsorted_segment_{kind}({argument}, {k.name}, {k.high})"
    if kind in ("max", "min"):
        made = f"tf.clip_by_value({made}, -9., 9.)"
    shape = (fixed(k.high), *x.shape[1:])
    if d.chance(0.3):
        return Made(f"tf.gather({made}, {k.name})", x.shape)
    return Made(made, shape)


@form(0.5)
def sorted_segments(d: Draft) -> Made:
    x = d.pick(least=1)
    k = d.pick("int", rank=1, where=lambda v: v.shape[0] == x.shape[0] and 0 < v.high < 20)
    kind = d.one_of("sum", "mean", "max")
    made = f"tf.math.segment_{kind}({x.name}, tf.sort({k.name}))"
    return Made(f"tf.reduce_sum({made}, 0)", x.shape[1:])


@form(0.8)
def scatter(d: Draft) -> Made:
    x = d.pick(least=1, where=lambda v: v.shape[0] == ROWS)
    k = d.pick("int", rank=1, where=lambda v: v.shape[0] == x.shape[0] and 0 < v.high < 20)
    sizes = ", ".join([str(k.high), *(d.size(x, axis) for axis in range(1, x.rank))])
    shape = (fixed(k.high), *x.shape[1:])
    if d.chance(0.4):
        into = f"tf.zeros([{sizes}], tf.float64)"
        return Made(f"tf.tensor_scatter_nd_add({into}, {k.name}[:, None], {x.name})", shape)
    return Made(f"tf.scatter_nd({k.name}[:, None], {x.name}, tf.cast([{sizes}], tf.int64))", shape)


@form(0.8)
def masked(d: Draft) -> Made:
    """Takes the rows of a mask; it is not known how many there are."""
    x = d.pick(least=1)
    c = d.pick("bool", rank=1, where=lambda v: v.shape[0] == x.shape[0])
    made = f"tf.boolean_mask({x.name}, {c.name})"
    if d.chance(0.3):
        made = f"tf.gather({x.name}, tf.where({c.name})[:, 0])"
    text = d.one_of(
        "tf.reduce_sum({m}, 0)",
        "tf.reduce_sum(tf.tanh({m}), 0) / (1. + tf.cast(tf.shape({m})[0], tf.float64))",
        "tf.reduce_sum(tf.cumsum({m}) * .1, 0)",
    )
    return Made(text.format(m=made), x.shape[1:])


@form(0.3)
def parted(d: Draft) -> Made:
    x = d.pick(least=1, where=lambda v: v.shape[0] == ROWS)
    k = d.pick("int", rank=1, where=lambda v: v.shape == x.shape[:1])
    made = f"tf.dynamic_partition({x.name}, tf.cast({k.name} % 2, tf.int32), 2)"
    if d.chance(0.5):
        return Made(f"tf.reduce_sum({made}[1], 0)", x.shape[1:])
    ids = f"tf.dynamic_partition(tf.range({d.size(x, 0)}), tf.cast({k.name} % 2, tf.int32), 2)"
    return Made(f"tf.dynamic_stitch({ids}, [{made}[0], {made}[1] * 2.])", x.shape)


@form(0.4)
def counted(d: Draft) -> Made:
    k = d.pick("int", rank=1, where=lambda v: 0 < v.high < 20)
    h = k.high
    if d.chance(0.5):
        text = f"tf.math.confusion_matrix({k.name}, ({k.name} + 1) % {h}, {h}, dtype=tf.float64)"
        return Made(text, (fixed(h), fixed(h)))
    text = f"tf.cast(tf.math.bincount(tf.cast({k.name}, tf.int32), minlength={h}, maxlength={h}), tf.float64)"
    return Made(text, (fixed(h),))


# Made of the number of rows


def _of_rows(d: Draft) -> str:
    x = d.pick(least=1, where=lambda v: v.shape[0] == ROWS)
    return d.size(x, 0)


@form(1)
def per_row(d: Draft) -> Made:
    x = d.pick()
    text = d.one_of(
        "{x} / tf.cast({n}, tf.float64)",
        "{x} * tf.cast({n}, tf.float64) * .2",
        "{x} / tf.sqrt(tf.cast({n}, tf.float64))",
        "{x} / tf.cast({n} * {n}, tf.float64)",
        "{x} / tf.cast({n} + 1, tf.float64)",
        "{x} * tf.cast({n} // 2, tf.float64)",
        "{x} / tf.cast(tf.maximum({n}, 3), tf.float64)",
        "{x} - tf.cast({n} - 1, tf.float64) * .1",
    )
    return Made(text.format(x=x.name, n=_of_rows(d)), x.shape)


@form(1)
def by_rows(d: Draft) -> Made:
    """Makes a tensor of as many rows as the batch has."""
    n, width = _of_rows(d), int(d.draw.randint(1, 4))
    text, shape = d.one_of(
        ("tf.cast(tf.range({n}), tf.float64) * .1", (ROWS,)),
        ("tf.cos(tf.cast(tf.range({n})[:, None] * [[1, 2]], tf.float64))", (ROWS, fixed(2))),
        ("tf.zeros([{n}, {w}], tf.float64) + .1", (ROWS, fixed(width))),
        ("tf.ones(tf.stack([{n}, {w}]), tf.float64)", (ROWS, fixed(width))),
        ("tf.fill([{n}], tf.constant(.5, tf.float64))", (ROWS,)),
        ("tf.eye({n}, dtype=tf.float64)", (ROWS, ROWS)),
        ("tf.zeros([{w}, {n}], tf.float64)", (fixed(width), ROWS)),
        ("tf.linspace(tf.constant(0., tf.float64), 1., tf.cast({n}, tf.int32))", (ROWS,)),
        ("tf.linalg.band_part(tf.ones([{n}, {n}], tf.float64), -1, 0)", (ROWS, ROWS)),
    )
    return Made(text.format(n=n, w=width), shape)


@form(1)
def tiled_variable(d: Draft) -> Made:
    """Repeats a variable for each row, as first states of recurrent cells."""
    n, width = _of_rows(d), int(d.draw.randint(1, 4))
    v = d.variable(width)
    text = d.one_of(
        "tf.tile({v}[None], [{n}, 1])",
        "tf.broadcast_to({v}, [{n}, {w}])",
        "tf.zeros([{n}, 1], tf.float64) + {v}",
    )
    return Made(text.format(v=v.name, n=n, w=width), (ROWS, fixed(width)))


@form(1.5)
def pairs(d: Draft) -> Made:
    x = d.pick(least=1, where=lambda v: v.shape[0] == ROWS and v.rank < 4)
    text = d.one_of(
        "{x}[:, None] - {x}[None]", "{x}[None] * {x}[:, None]", "tf.abs({x}[:, None] - {x})"
    )
    if text.endswith("- {x})") and x.rank > 1:
        text = "tf.expand_dims({x}, 1) - tf.expand_dims({x}, 0)"
    return Made(text.format(x=x.name), (ROWS, *x.shape), is_wild=d.chance(0.3))


@form(0.5)
def pairs_of_labels(d: Draft) -> Made:
    k = d.pick("int", rank=1)
    shape = (k.shape[0], k.shape[0])
    return Made(f"tf.equal({k.name}[:, None], {k.name}[None])", shape, "bool")


@form(0.3)
def searched(d: Draft) -> Made:
    x = d.pick(rank=2)
    text = f"tf.cast(tf.searchsorted(tf.sort({x.name}, axis=1), {x.name} + 1e-7), tf.float64)"
    return Made(text, x.shape)


@form(0.3)
def unique(d: Draft) -> Made:
    k = d.pick("int", rank=1)
    text = d.one_of(
        "tf.cast(tf.unique({k})[1], tf.float64)",
        "tf.cast(tf.gather(tf.unique_with_counts({k})[2], tf.unique({k})[1]), tf.float64)",
    )
    return Made(text.format(k=k.name), k.shape)


@form(0.3)
def rows_less_one(d: Draft) -> Made:
    """Takes what all rows share from each."""
    x = d.pick(least=2, where=lambda v: v.shape[0] == ROWS)
    y = d.pick(rank=x.rank - 1, where=lambda v: v.shape == x.shape[1:])
    if y.name == x.name:
        raise UnfitError
    return Made(f"{x.name} - {y.name}", x.shape)
