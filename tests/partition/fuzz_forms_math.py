"""Forms of random programs: operations that work entry by entry."""

from __future__ import annotations

from partition.fuzz_draft import Draft, Made, UnfitError, form
from partition.fuzz_program import fixed

_UNARY = """
tf.tanh({x})|tf.sigmoid({x})|tf.nn.relu({x})|tf.nn.elu({x})|tf.nn.softplus({x})|tf.cosh(tf.tanh({x}))
tf.abs({x})|tf.sin({x})|tf.cos({x})|tf.exp(-tf.abs({x}))|tf.sqrt(tf.abs({x}) + .1)|tf.erf({x})
tf.rsqrt(tf.square({x}) + 1.)|tf.log1p(tf.abs({x}))|tf.log(tf.abs({x}) + .5)|tf.nn.leaky_relu({x})
tf.nn.selu({x})|tf.nn.relu6({x})|tf.negative({x})|tf.atan({x})|tf.floor({x} * 2.)|tf.sign({x})
tf.identity({x})|tf.stop_gradient({x})|tf.clip_by_value({x}, -1., .8)|tf.check_numerics({x}, "")
tf.zeros_like({x}) + .3|tf.ones_like({x}) * .2|tf.reciprocal(1. + tf.square({x}))|{x} / 3.
1. - {x}|{x} ** 2 / 3.|tf.lgamma(tf.abs({x}) + 1.)|tf.digamma(tf.abs({x}) + 1.)|tf.rint({x} * 3.)
tf.asinh({x})|tf.erfc({x})|tf.log_sigmoid({x})|tf.nn.swish({x})|tf.round({x})|tf.ceil({x} + .1)
tf.debugging.check_numerics({x}, "x")|tf.expm1(-tf.abs({x}))|tf.nn.crelu({x})[..., :1] + {x}
tf.identity_n([{x}, {x} * 2.])[1]|tf.where_v2({x} > 0., {x}, .1)|tf.where({x} > 0., {x}, -{x})
tf.cast({x} > 0., tf.float64)|tf.to_double({x})|tf.pow(tf.abs({x}) + .1, .7)
tf.minimum({x}, .3)|tf.maximum({x}, 0.)|tf.clip_by_norm({x}, 1.)|tf.clip_by_value({x}, {x} - 1., .5)
tf.zeros(tf.shape({x}), tf.float64) + {x}|tf.ones(tf.shape({x}), tf.float64)|tf.scalar_mul(.4, {x})
tf.fill(tf.shape({x}), tf.constant(.2, tf.float64))|tf.broadcast_to({x}, tf.shape({x}))
tf.broadcast_to(tf.reduce_mean({x}), tf.shape({x}))|tf.placeholder_with_default({x}, {x}.shape)
tf.saturate_cast(tf.floor({x}), tf.float64)|tf.math.xdivy({x}, 2.)
"""
UNARY = [text for line in _UNARY.strip().splitlines() for text in line.split("|")]

_WILD = """
tf.square({x})|tf.exp(.5 * {x})|tf.sinh({x})|tf.cosh({x})|{x} ** 3|tf.tan({x})
"""
WILD = [text for line in _WILD.strip().splitlines() for text in line.split("|")]

_BINARY = """
{x} + {y}|{x} - {y}|{y} - {x}|tf.maximum({x}, {y})|tf.minimum({x}, {y})|tf.squared_difference({x}, {y})
{x} * {y}|{x} * {y}|{x} / (1. + tf.square({y}))|{y} / (1. + tf.abs({x}))|tf.atan2({x}, 1. + tf.square({y}))
tf.pow(tf.abs({x}) + .2, tf.tanh({y}))|tf.where_v2({x} > {y}, {x}, {y})|tf.div_no_nan({x}, {y} * {y} + .3)
tf.math.xlogy({x}, tf.abs({y}) + .2)|tf.math.multiply_no_nan({x}, {y})|tf.cast({x} > {y}, tf.float64)
tf.floormod({x}, 1. + tf.square({y}))|tf.add({x}, {y}, name="sum")|tf.divide({x}, tf.exp(-tf.abs({y})))
tf.where_v2({y} > .1, {x} * 2., tf.constant(.5, tf.float64))
tf.hypot({x}, {y})
"""
BINARY = [
    text for line in _BINARY.strip().splitlines() for text in line.split("|") if "hypot" not in text
]


@form(6)
def unary(d: Draft) -> Made:
    x = d.pick()
    text = d.one_of(*UNARY)
    if "crelu" in text and not x.rank:
        raise UnfitError
    return Made(text.format(x=x.name), x.shape)


@form(1)
def wild(d: Draft) -> Made:
    x = d.pick()
    return Made(d.one_of(*WILD).format(x=x.name), x.shape, is_wild=True)


@form(8)
def binary(d: Draft) -> Made:
    x = d.pick(least=1)
    y, shape = d.partner(x)
    text = d.one_of(*BINARY)
    if not y[:1].isalpha() and "({y}" in text:
        y = f"tf.constant({y}, tf.float64)" if "RandomState" not in y else y
    return Made(text.format(x=x.name, y=y), shape, is_wild="*" in text)


@form(1)
def add_n(d: Draft) -> Made:
    x = d.pick()
    y = d.pick(where=lambda v: v.shape == x.shape)
    z = d.pick(where=lambda v: v.shape == x.shape)
    text = d.one_of("tf.add_n([{x}, {y}, {z}])", "tf.accumulate_n([{x}, {y}])", "tf.add_n([{x}])")
    return Made(text.format(x=x.name, y=y.name, z=z.name), x.shape)


@form(1)
def compare(d: Draft) -> Made:
    x = d.pick(least=1)
    y, shape = d.partner(x)
    kind = d.one_of("less", "greater", "less_equal", "greater_equal", "not_equal")
    return Made(f"tf.{kind}({x.name}, {y})", shape, "bool")


@form(0.7)
def logical(d: Draft) -> Made:
    x = d.pick("bool")
    if d.chance(0.3):
        return Made(f"tf.logical_not({x.name})", x.shape, "bool")
    y = d.pick("bool", where=lambda v: d.broadcast(x.shape, v.shape))
    shape = d.broadcast(x.shape, y.shape)
    if shape is None:
        raise UnfitError
    kind = d.one_of("and", "or", "xor")
    return Made(f"tf.logical_{kind}({x.name}, {y.name})", shape, "bool")


@form(1)
def of_bool(d: Draft) -> Made:
    x = d.pick("bool")
    y = d.pick(where=lambda v: d.broadcast(x.shape, v.shape))
    shape = d.broadcast(x.shape, y.shape)
    if shape is None:
        raise UnfitError
    if d.chance(0.4):
        return Made(f"tf.cast({x.name}, tf.float64)", x.shape)
    return Made(f"tf.where_v2({x.name}, {y.name}, .1 * {y.name})", shape)


@form(0.5)
def where_rows(d: Draft) -> Made:
    """Chooses rows by a vector, as `tf.where` of TensorFlow 1 does."""
    x = d.pick(least=1)
    c = d.pick("bool", rank=1, where=lambda v: v.shape[0] == x.shape[0])
    return Made(f"tf.where({c.name}, {x.name}, tf.zeros_like({x.name}))", x.shape)


@form(1)
def integers(d: Draft) -> Made:
    k = d.pick("int")
    text = d.one_of(
        "({k} + 1) % {h}", "tf.maximum({k} - 1, 0)", "{k} // 2", "tf.floormod({k} * 3, {h})"
    )
    return Made(text.format(k=k.name, h=k.high), k.shape, "int", k.high)


@form(1)
def cast_integers(d: Draft) -> Made:
    k = d.pick("int")
    text = d.one_of(
        "tf.cast({k}, tf.float64)",
        "tf.cast(tf.cast({k}, tf.int32), tf.float64) * .3",
        "tf.to_double({k})",
    )
    if "to_double" in text:
        text = "tf.cast({k}, tf.float64) / 2."
    return Made(text.format(k=k.name), k.shape)


@form(0.7)
def integers_to_bool(d: Draft) -> Made:
    k = d.pick("int")
    kind = d.one_of("equal", "not_equal", "less", "greater")
    return Made(f"tf.{kind}({k.name}, {d.draw.randint(max(k.high, 1))})", k.shape, "bool")


@form(0.5)
def to_integers(d: Draft) -> Made:
    x = d.pick()
    high = int(d.draw.randint(2, 6))
    return Made(
        f"tf.cast(tf.floor(tf.sigmoid({x.name}) * {high - 0.01}), tf.int64)", x.shape, "int", high
    )


@form(0.7)
def normalized(d: Draft) -> Made:
    x = d.pick(least=1)
    axis = d.signed(d.axis(x), x.rank)
    text = d.one_of(
        "tf.nn.softmax({x}, axis={a})",
        "tf.nn.log_softmax({x}, axis={a})",
        "tf.nn.l2_normalize({x}, {a}, epsilon=.1)",
        "tf.nn.softmax({x})",
        "tf.nn.l2_normalize({x}, [{a}], epsilon=.1)",
    )
    return Made(text.format(x=x.name, a=axis), x.shape)


@form(0.5)
def bias(d: Draft) -> Made:
    x = d.pick(least=2, where=lambda v: v.shape[-1] == fixed(v.shape[-1][0]))
    v = d.variable(x.shape[-1][0])
    return Made(f"tf.nn.bias_add({x.name}, {v.name})", x.shape)


@form(0.8)
def random(d: Draft) -> Made:
    """Random numbers, where one device's are drawn once for all rows."""
    if not d.exact_random:
        raise UnfitError
    x = d.pick(least=1)
    text = d.one_of(
        "tf.nn.dropout({x}, rate=.4, seed={s})",
        "{x} + tf.random.normal(tf.shape({x}), dtype=tf.float64, seed={s})",
        "{x} * tf.random.uniform(tf.shape({x}), dtype=tf.float64, seed={s})",
        "{x} + tf.truncated_normal(tf.shape({x}), dtype=tf.float64, seed={s})",
        "{x} + tf.cast(tf.random.uniform(tf.shape({x}), 0, 5, tf.int32, seed={s}), tf.float64)",
        "tf.random_shuffle({x}, seed={s})",
    )
    return Made(text.format(x=x.name, s=d.seed()), x.shape)
