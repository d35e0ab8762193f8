"""Draws random programs."""

from __future__ import annotations

import contextlib
import re
from typing import Sequence

import numpy as np

from partition import (
    fuzz_forms_blocks,
    fuzz_forms_flow,
    fuzz_forms_math,
    fuzz_forms_products,
    fuzz_forms_rows,
    fuzz_forms_shapes,
    fuzz_forms_sparse,
    fuzz_forms_types,
)
from partition.fuzz_draft import Draft, Made, UnfitError, forms, has_rows
from partition.fuzz_program import ROWS, Feature, Program, Setting, Statement, Train, Value, fixed

_TABLES = (
    fuzz_forms_blocks,
    fuzz_forms_flow,
    fuzz_forms_math,
    fuzz_forms_products,
    fuzz_forms_rows,
    fuzz_forms_shapes,
    fuzz_forms_sparse,
    fuzz_forms_types,
)

# Kernels take NaN in a maximum, or in an order, by the place of an entry in memory, and turn it into
# any integer; so one device's results depend on the number of rows, too.
_BY_PLACE = re.compile(
    "max|min|relu|elu|clip|top_k|sort|arg|unique|pool|percentile|histogram|bincount|scan|crop"
    r"|tf\.u?int|to_int|segment|hinge|huber|softplus|swish|sigmoid_cross|weighted_cross|map_fn"
)


def generate(seed: int, towers: int | None = None) -> Program:
    """Returns a random program.

    Args:
        seed: What decides all of it.
        towers: How many towers it has, None for any number.
    """
    draw = np.random.RandomState(seed)
    features = _features(draw)
    setting = _setting(draw, features, towers, seed)
    types = _types(draw.rand())
    refused = _BY_PLACE if setting.has_nan else None
    d = Draft(
        draw, setting.sizes[0], setting.is_static, setting.exact_random, types, features, refused
    )
    _body(d, 5 + int(36 * draw.rand() ** 1.7))
    terms = _terms(d)
    train = _train(d) if d.chance(0.85) else None
    names = [statement.value.name for statement in d.statements if statement.value.name[0] == "t"]
    shown = [names[i] for i in draw.choice(len(names), min(3, len(names)), replace=False)]
    named = [names[i] for i in draw.choice(len(names), min(2, len(names)), replace=False)]
    metrics = [m for m in (_metric(d) for _ in range(int(d.one_of(0, 0, 1, 2)))) if m]
    return Program(
        setting,
        tuple(features),
        tuple(d.statements),
        terms,
        train,
        tuple(shown),
        tuple(named),
        tuple(metrics),
    )


def _types(drawn: float) -> tuple[str, ...]:
    """Returns the types other than float64 that occur, from a number below 1."""
    if drawn < 0.03:
        return ("float32", "float16")
    if drawn < 0.06:
        return ("float32", "bfloat16")
    return ("float32",) if drawn < 0.14 else ()


def _features(draw: np.random.RandomState) -> list[Feature]:
    """Draws the batch: floats of ranks 1 to 4, ids, and sometimes what is no part of it."""
    made = []
    for index in range(int(draw.randint(1, 4))):
        rank = int(draw.choice([1, 2, 2, 2, 3, 3, 4]))
        sizes = [fixed(int(draw.choice([1, 2, 3, 4, 4, 5]))) for _ in range(rank - 1)]
        axis = int(draw.randint(rank)) if draw.rand() < 0.2 and index else 0
        per_row = int(draw.choice([2, 3])) if draw.rand() < 0.07 and index else 1
        sizes.insert(axis, tuple(n * per_row for n in ROWS))
        value = Value(f"{'abc'[index]}0", tuple(sizes))
        made.append(Feature(value, axis, per_row, is_hidden=bool(draw.rand() < 0.2)))
    high = int(draw.choice([2, 3, 5]))
    made.append(Feature(Value("k0", (ROWS,), "int", high)))
    if draw.rand() < 0.3:
        length = fixed(int(draw.randint(1, 5)))
        made.append(Feature(Value("l0", (ROWS, length), "int", int(draw.choice([2, 4])))))
    if draw.rand() < 0.15:
        made.append(Feature(Value("q0", (ROWS,), "bool")))
    if draw.rand() < 0.2:
        sizes = [fixed(int(draw.randint(1, 6))) for _ in range(int(draw.randint(0, 3)))]
        made.append(Feature(Value("w0", tuple(sizes)), None))
    return made


def _setting(
    draw: np.random.RandomState, features: Sequence[Feature], towers: int | None, seed: int
) -> Setting:
    is_static = bool(draw.rand() < 0.5)
    n = int(draw.choice([1, 2, 3, 4, 5, 6, 7, 8]))
    steps = int(draw.choice([2, 2, 3]))
    sizes = [n] * steps
    if not is_static:
        sizes[-1] = int(draw.randint(1, n + 1))
    count = towers or int(draw.choice([1, 2, 2, 3, 3, 4, 5]))
    counts = [n // count + (index < n % count) for index in range(count)]
    if is_static and draw.rand() < 0.4:  # Any, but that the first has a row.
        others = draw.multinomial(n - 1, np.ones(count) / count)
        counts = [int(rows) + (not index) for index, rows in enumerate(others)]
        by_sharding = False
    else:
        by_sharding = bool(draw.rand() < 0.5) and all(f.per_row == 1 for f in features)
    at_first = all(f.axis == 0 and f.per_row == 1 for f in features)
    sources = ["feed", "default", "dataset"] if at_first else ["feed", "default"]
    flag = draw.rand(9)
    replicates = bool(flag[6] < 0.15)
    return Setting(
        sizes=tuple(sizes),
        is_static=is_static,
        source=str(draw.choice(sources)),
        counts=tuple(int(count) for count in counts),
        by_sharding=by_sharding,
        packs=bool(flag[0] < 0.8),
        where="round_robin" if flag[7] < 0.15 else "consolidation",
        replicates=replicates,
        apart=bool(flag[1] < 0.4) and not replicates,
        optimize=bool(flag[2] < 0.1),
        resources=bool(flag[3] < 0.8),
        new_flow=bool(flag[4] < 0.3),
        exact_random=bool(flag[5] < 0.1),
        others=int(draw.choice([0, 0, 3, 10])),
        has_nan=bool(flag[8] < 0.08),
        seed=seed,
    )


def _body(d: Draft, count: int) -> None:
    table = forms()
    weights = np.array([weight for _, weight in table])
    chances = weights / weights.sum()
    tries = 0
    while count > 0 and tries < 2000:
        tries += 1
        form = table[d.draw.choice(len(table), p=chances)][0]
        before = len(d.statements)
        try:
            d.add(form(d))
            count -= 1
        except UnfitError:
            del d.statements[before:]


def _scalar(d: Draft, value: Value) -> str:
    """Returns an expression of one number that is made of a value."""
    x = value.name
    options = [
        f"tf.reduce_mean({x})",
        f"tf.reduce_mean(tf.square({x}))",
        f"tf.reduce_sum(tf.tanh({x}))",
        f"tf.reduce_sum(tf.square({x})) / tf.cast(tf.size({x}), tf.float64)",
        f"tf.reduce_max({x})",
        f"tf.reduce_mean({x}) * tf.reduce_mean(tf.tanh({x}))",
        f"tf.sqrt(tf.reduce_mean(tf.square({x})) + .1)",
        f"tf.log(tf.reduce_mean(tf.exp(tf.tanh({x}))))",
        f"tf.reduce_logsumexp({x})",
        f"tf.nn.l2_loss({x})",
    ]
    if value.rank:
        own = "n" if has_rows(value) else f"tf.shape({x})[0]"
        options += [
            f"tf.reduce_sum({x}) / tf.cast({own}, tf.float64)",
            f"tf.reduce_mean(tf.reduce_sum({x}, -1))",
            f"tf.reduce_sum(tf.reduce_mean({x}, 0))",
            f"tf.reduce_sum({x}) / tf.cast(2 * tf.shape({x})[0], tf.float64)",
            f"tf.reduce_sum({x} * tf.sigmoid({x})) / tf.reduce_sum(tf.sigmoid({x}))",
            f"tf.reduce_mean({x}[-1])",
        ]
    return str(d.one_of(*options))


def _term(d: Draft, value: Value) -> str:
    """Adds a scalar that is made of a value; returns its name."""
    while True:
        with contextlib.suppress(UnfitError):  # Its text is refused.
            return d.add(Made(_scalar(d, value), ())).name


def _terms(d: Draft) -> tuple[str, ...]:
    """Adds one to three scalars, and perhaps a penalty of the weights."""
    made = []
    for _ in range(int(d.draw.randint(1, 4))):
        value = d.pick(where=lambda v: v.name[0] == "t") if d.chance(0.9) else d.pick()
        made.append(_term(d, value))
    variables = [s.value.name for s in d.statements if s.is_variable]
    if variables and d.chance(0.2):
        made.append(d.add(Made(f".01 * tf.nn.l2_loss({variables[0]})", ())).name)
    return tuple(made)


_OPTIMIZERS = (
    "tf.train.GradientDescentOptimizer(.1)",
    "tf.train.GradientDescentOptimizer(.1)",
    "tf.train.MomentumOptimizer(.1, .9)",
    "tf.train.MomentumOptimizer(.1, .9, use_nesterov=True)",
    "tf.train.AdamOptimizer(.01, epsilon=.1)",
    "tf.train.RMSPropOptimizer(.01, epsilon=.1)",
    "tf.train.AdagradOptimizer(.1)",
)

_GRADIENTS = (
    *("",) * 6,
    ", grad_ys=tf.constant(2., tf.float64)",
    ", grad_ys=1. / tf.cast(n, tf.float64)",
    ", colocate_gradients_with_ops=True",
    ", gate_gradients=True",
    ", aggregation_method=tf.AggregationMethod.EXPERIMENTAL_TREE",
)


def _train(d: Draft) -> Train:
    count = int(d.one_of(1, 1, 1, 2))
    return Train(
        optimizers=tuple(d.one_of(*_OPTIMIZERS) for _ in range(count)),
        gradients=d.one_of(*_GRADIENTS),
        gate=d.one_of("clip", "control", "tuple"),
        by_hand=d.chance(0.15),
        average=d.chance(0.15),
        second=d.chance(0.15) and not d.has_loops,
        updates=tuple(d.updates),
        loss_scale=float(d.one_of(8.0, 2.0**12)) if d.chance(0.4 if d.types else 0.05) else None,
    )


def _metric(d: Draft) -> str | None:
    try:
        x = d.pick(least=1)
        other = d.pick(where=lambda v: v.shape == x.shape)
        k = d.pick("int", where=lambda v: 0 < v.high < 20)
        labels = d.pick("int", where=lambda v: v.shape == k.shape and v.high <= k.high)
    except UnfitError:
        return None
    return str(
        d.one_of(
            f"tf.metrics.mean({x.name})",
            f"tf.metrics.mean({x.name}, weights=tf.cast({x.name} > 0., tf.float32))",
            f"tf.metrics.mean(tf.reduce_mean({x.name}))",
            f"tf.metrics.mean_squared_error({other.name}, {x.name})",
            f"tf.metrics.root_mean_squared_error({other.name}, {x.name})",
            f"tf.metrics.accuracy({labels.name}, {k.name})",
            f"tf.metrics.mean_iou({labels.name}, {k.name}, {k.high})",
            f"tf.metrics.auc({other.name} > 0., tf.sigmoid({x.name}), num_thresholds=5)",
            f"tf.metrics.precision({other.name} > 0., {x.name} > 0.)",
            f"tf.metrics.recall({other.name} > 0., {x.name} > .1)",
            f"tf.metrics.percentage_below(tf.cast({x.name}, tf.float32), .1)",
            f"tf.metrics.mean_per_class_accuracy({labels.name}, {k.name}, {k.high})",
        )
    )


def variables_of(statements: Sequence[Statement]) -> list[str]:
    return [statement.value.name for statement in statements if statement.is_variable]
