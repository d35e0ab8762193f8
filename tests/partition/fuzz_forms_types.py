"""Forms of random programs: values that are computed in float32, float16 or bfloat16."""

from __future__ import annotations

from partition.fuzz_draft import Draft, Made, UnfitError, form, without
from partition.fuzz_forms_math import UNARY
from partition.fuzz_program import is_fixed


def _narrow(d: Draft) -> str:
    """Returns one of the types that may occur, the coarsest one rather than others."""
    if not d.types:
        raise UnfitError
    return d.types[-1] if d.chance(0.8) else d.one_of(*d.types)


def _made(text: str, shape: tuple, dtype: str) -> Made:
    """Returns what a text makes, whose operands are in `dtype`."""
    return Made(f"tf.cast({text}, tf.float64)", shape, computed=dtype)


@form(2)
def narrow_unary(d: Draft) -> Made:
    dtype, x = _narrow(d), d.pick()
    text = d.one_of(*(text for text in UNARY if "crelu" not in text and "double" not in text))
    text = text.replace("tf.float64", f"tf.{dtype}")
    return _made(text.format(x=f"tf.cast({x.name}, tf.{dtype})"), x.shape, dtype)


@form(2)
def narrow_dense(d: Draft) -> Made:
    """A layer of mixed precision: its weights are in float64."""
    dtype, x = _narrow(d), d.pick(rank=2, where=lambda v: is_fixed(v.shape[1]) and v.shape[1][0])
    width = int(d.one_of(1, 2, 3))
    kernel = d.variable(x.shape[1][0], width)
    text = f"tf.matmul(tf.cast({x.name}, tf.{dtype}), tf.cast({kernel.name}, tf.{dtype}))"
    return _made(text, (x.shape[0], kernel.shape[1]), dtype)


@form(1.5)
def narrow_reduce(d: Draft) -> Made:
    dtype, x = _narrow(d), d.pick(least=1)
    axis = d.axis(x)
    kind = d.one_of("mean", "sum", "max", "logsumexp")
    text = f"tf.reduce_{kind}(tf.cast({x.name}, tf.{dtype}), {d.signed(axis, x.rank)})"
    return _made(text, without(x.shape, axis), dtype)


@form(1)
def narrow_softmax(d: Draft) -> Made:
    dtype, x = _narrow(d), d.pick(least=2)
    kind = d.one_of("softmax", "log_softmax")
    return _made(f"tf.nn.{kind}(tf.cast({x.name}, tf.{dtype}))", x.shape, dtype)


@form(1)
def narrow_rows_of_a_table(d: Draft) -> Made:
    dtype, k = _narrow(d), d.pick("int", where=lambda v: 0 < v.high < 20)
    table = d.variable(k.high, 2)
    text = f"tf.gather(tf.cast({table.name}, tf.{dtype}), {k.name})"
    return _made(text, (*k.shape, table.shape[1]), dtype)
