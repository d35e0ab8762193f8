"""Forms of random programs: axes that have all rows several times."""

from __future__ import annotations

from partition.fuzz_draft import Draft, Made, UnfitError, form
from partition.fuzz_program import ROWS, fixed, is_fixed


@form(0.8)
def beside_each_other(d: Draft) -> Made:
    """Two or three of the same shape, concatenated, changed and taken apart."""
    x = d.pick(least=1, where=lambda v: v.shape[0] == ROWS)
    y = d.pick(where=lambda v: v.shape == x.shape)
    name, n, many = d.name("m"), d.size(x, 0), int(d.one_of(2, 2, 3))
    parts = [x.name, d.one_of(f"tf.sin({y.name})", y.name), f".5 * {x.name}"][:many]
    lines = [f"{name} = tf.concat([{', '.join(parts)}], 0)"]
    lines.append(
        d.one_of(
            f"{name} = tf.tanh({name}) - .1",
            f"{name} = {name} - tf.reduce_mean({name}, 0)",
            f"{name} = {name} * tf.reduce_max({name})",
            f"{name} = tf.where({name} > 0., {name}, tf.sin({name}))",
        )
    )
    place = int(d.draw.randint(many))
    text = d.one_of(
        f"{name}[:{n}] * {name}[-1]",
        f"{name}[{n}:2 * {n}] + {name}[0]",
        f"{name}[{many - 1} * {n}:]",
        f"tf.split({name}, {many})[{place}]",
        f"tf.reduce_max(tf.reshape({name}, tf.concat([[{many}], tf.shape({x.name})], 0)), 0)",
        f"tf.reduce_sum(tf.reshape({name}, tf.concat([[{many}, -1], tf.shape({x.name})[1:]], 0)), 0)",
    )
    return Made("\n".join([*lines, text]), x.shape, is_wild=True)


@form(0.6)
def repeated(d: Draft) -> Made:
    """All rows twice, through a layer, and the mean of both."""
    x = d.pick(rank=2, where=lambda v: v.shape[0] == ROWS and is_fixed(v.shape[1]))
    name, w = d.name("m"), d.variable(x.shape[1][0], 2)
    lines = [
        f"{name} = tf.tile({x.name}, [2, 1])",
        f"{name} = tf.tanh(tf.matmul({name}, {w.name}))",
        f"tf.reduce_mean(tf.reshape({name}, [2, {d.size(x, 0)}, 2]), 0)",
    ]
    return Made("\n".join(lines), (ROWS, fixed(2)))


@form(0.8)
def time_first(d: Draft) -> Made:
    """A layer of `[time * n, d]`."""
    x = d.pick(rank=3, where=lambda v: v.shape[0] == ROWS and is_fixed(v.shape[2]))
    if not is_fixed(x.shape[1]):
        raise UnfitError
    name, w = d.name("m"), d.variable(x.shape[2][0], 2)
    lines = [
        f"{name} = tf.transpose({x.name}, [1, 0, 2])",
        f"{name}_flat = tf.matmul(tf.reshape({name}, [-1, {x.shape[2][0]}]), {w.name})",
        f"{name}_flat = {d.one_of('tf.tanh({0})', '{0} - tf.reduce_mean({0}, 0)').format(name + '_flat')}",
        f"{name} = tf.reshape({name}_flat, [tf.shape({name})[0], tf.shape({name})[1], 2])",
        f"tf.transpose({name}, [1, 0, 2])",
    ]
    return Made("\n".join(lines), (ROWS, x.shape[1], fixed(2)))


@form(0.6)
def before_several(d: Draft) -> Made:
    """Rows before several others for each of them, changed and taken apart."""
    x = d.pick(rank=2, where=lambda v: v.shape[0] == ROWS and is_fixed(v.shape[1]))
    name, n, many, width = d.name("m"), d.size(x, 0), int(d.one_of(2, 3)), x.shape[1][0]
    others = ", ".join([f"{x.name} * .5", f"tf.sin({x.name})", x.name][:many])
    lines = [
        f"{name} = tf.reshape(tf.stack([{others}], 1), [-1, {width}])",
        f"{name} = tf.concat([{x.name}, {name}], 0)",
        d.one_of(
            f"{name} = tf.tanh({name}) - .1",
            f"{name} = {name} - tf.reduce_mean({name}, 0)",
            f"{name} = {name} * tf.reduce_max({name})",
            f"{name} = tf.concat([{name}, tf.cos({x.name})], 0)[:{many + 1} * {n}]",
        ),
    ]
    text = d.one_of(
        f"{name}[:{n}] * {name}[-1]",
        f"tf.split({name}, [{n}, {many} * {n}])[0]",
        f"tf.reduce_max(tf.reshape({name}[{n}:], [{n}, {many}, {width}]), 1)",
        f"tf.reduce_sum(tf.reshape(tf.split({name}, [{n}, -1], num=2)[1], [-1, {many}, {width}]), 1)",
    )
    return Made("\n".join([*lines, text]), x.shape, is_wild=True)
