"""Random programs: their parts, and their text as Python.

A program is text. `fuzz_run` executes that text, and `fuzz_shrink` drops lines of it.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Tuple

PROBES = tuple(range(1, 13))
"""Numbers of rows for which a program is right."""

Size = Tuple[int, ...]
"""The size of an axis, for each number of rows in `PROBES`."""

ROWS: Size = PROBES

TYPES = ("float64", "float32", "float16", "bfloat16")
"""The types in which a program may compute, from the finest to the coarsest."""


def fixed(size: int) -> Size:
    """Returns a size that does not depend on the number of rows."""
    return (size,) * len(PROBES)


def is_fixed(size: Size) -> bool:
    """Whether a size does not depend on the number of rows."""
    return len(set(size)) == 1


def multiple(size: Size) -> int | None:
    """Returns k of a size of k·n entries, None if it is none."""
    each = size[0]
    return each if size == tuple(each * n for n in PROBES) else None


class Value(NamedTuple):
    """A value that a name of a program stands for.

    Attributes:
        name: The name.
        shape: The sizes of its axes.
        dtype: `'float'`, `'int'` or `'bool'`.
        high: Integers are from 0 to this, exclusively.
    """

    name: str
    shape: tuple[Size, ...]
    dtype: str = "float"
    high: int = 0

    @property
    def rank(self) -> int:
        return len(self.shape)


class Feature(NamedTuple):
    """A tensor of the batch, or one that is fed in addition.

    Attributes:
        value: Its name, shape and type.
        axis: The axis of rows; None if it is no part of the batch.
        per_row: How many entries each row has there.
        is_hidden: Whether the graph knows none of its sizes, where it does not know how many rows
            there are.
    """

    value: Value
    axis: int | None = 0
    per_row: int = 1
    is_hidden: bool = False


class Statement(NamedTuple):
    """Lines of a program, which define a name.

    Attributes:
        value: What is defined; its name occurs in the lines.
        lines: The lines.
        is_variable: Whether it is a variable to train.
        dtype: The type in which it computes, one of `TYPES`.
    """

    value: Value
    lines: tuple[str, ...]
    is_variable: bool = False
    dtype: str = "float64"

    @property
    def uses(self) -> tuple[str, ...]:
        """The names that occur in it, but its own."""
        found = names_in("\n".join(self.lines))
        return tuple(name for name in found if name != self.value.name)


class Train(NamedTuple):
    """How a program trains.

    Attributes:
        optimizers: Expressions of them; they take turns with the variables.
        gradients: Keyword arguments of `tf.gradients`, as text.
        gate: What lets updates wait for all gradients: `'clip'`, `'control'` or `'tuple'`. Without,
            what a step reads of a variable would be a matter of chance on one device, too.
        by_hand: Whether the last variable is updated by `assign_sub`.
        average: Whether there are moving averages.
        second: Whether the norms of the gradients are a part of the loss.
        updates: Names of operations to run in each step.
        loss_scale: Factor of the loss. Gradients are divided by it, and no variable changes in a
            step whose gradients are not all finite. None: there is no such factor.
    """

    optimizers: tuple[str, ...]
    gradients: str = ""
    gate: str = "control"
    by_hand: bool = False
    average: bool = False
    second: bool = False
    updates: tuple[str, ...] = ()
    loss_scale: float | None = None


class Setting(NamedTuple):
    """How a program is run.

    Attributes:
        sizes: The number of rows of each step.
        is_static: Whether the graph knows the number of rows.
        source: How the batch comes: `'feed'`, `'default'` (placeholders with a default) or
            `'dataset'`.
        counts: The rows of each tower, if the graph knows them; of unknown numbers, only how many
            towers there are.
        by_sharding: Whether the library splits the batch.
        packs: Whether small tensors cross devices in packs.
        where: Where gradients are summed; see `Reduction`.
        replicates: Whether towers have replicas of variables.
        apart: Whether what runs once has a device of its own.
        optimize: Whether TensorFlow optimizes the graph.
        resources: Whether variables are resources.
        new_flow: Whether control flow is that of TensorFlow 2.
        exact_random: Whether random numbers are drawn once.
        others: How many of a hundred tensors of the graph are fetched by their names.
        has_nan: Whether an entry of the batch is NaN in the first step. Infinity is left out:
            towers have NaN where one device multiplies a sum over rows by infinity.
        seed: Of the numbers of the batch.
    """

    sizes: tuple[int, ...]
    is_static: bool
    source: str
    counts: tuple[int, ...]
    by_sharding: bool = False
    packs: bool = True
    where: str = "consolidation"
    replicates: bool = False
    apart: bool = False
    optimize: bool = False
    resources: bool = True
    new_flow: bool = False
    exact_random: bool = False
    others: int = 0
    has_nan: bool = False
    seed: int = 0


class Program(NamedTuple):
    """A random program.

    Attributes:
        setting: How it is run.
        features: What it is fed.
        body: Its statements.
        terms: Names of scalars whose sum is the loss.
        train: How it trains, None if it does not.
        fetches: Names whose values it returns.
        named: Names whose tensors are fetched by their names.
        metrics: Expressions of metrics.
    """

    setting: Setting
    features: tuple[Feature, ...]
    body: tuple[Statement, ...]
    terms: tuple[str, ...]
    train: Train | None
    fetches: tuple[str, ...]
    named: tuple[str, ...]
    metrics: tuple[str, ...] = ()

    @property
    def dtype(self) -> str:
        """The coarsest type in which something is computed."""
        return max((statement.dtype for statement in self.body), key=TYPES.index, default=TYPES[0])

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables to train."""
        return tuple(s.value.name for s in self.body if s.is_variable)


_NAME = re.compile(r"\b[a-z]\d+\b")


def names_in(text: str) -> tuple[str, ...]:
    """Returns the names of values in a text, each once."""
    return tuple(dict.fromkeys(_NAME.findall(text)))


def renamed(text: str, old: str, new: str) -> str:
    """Returns a text with another name in place of one."""
    return re.sub(rf"\b{old}\b", new, text)


def model(program: Program) -> str:
    """Returns the program as lines of Python, which define what is fetched of it.

    They expect `tf`, `np`, the features by their names, and `resources`. They define `n`, `loss`,
    `fetches` and `named` (lists of tensors), `updates` (of metrics) and `train` (a list of
    operations).
    """
    first = next(f for f in program.features if f.axis is not None and f.per_row == 1)
    rows = f"{first.value.name}.shape[{first.axis}]"
    lines = [f"n = int({rows})"]
    if not program.setting.is_static:
        lines = [f"n = tf.shape({first.value.name})[{first.axis}]"]
    for statement in program.body:
        lines += statement.lines
    lines.append(f"loss = {' + '.join(program.terms) or 'tf.constant(0., tf.float64)'}")
    lines.append("train, checked, gradients = [], [], []")
    if program.train is not None and program.variables:
        lines += _training(program.train, program.variables)
    lines.append(
        f"updates = [{', '.join(f'tf.convert_to_tensor({metric}[1])' for metric in program.metrics)}]"
    )
    lines.append(f"fetches = [loss, {', '.join(program.fetches)}] + checked")
    lines.append(f"named = [{', '.join(program.named)}]")
    return "\n".join(lines)


def _training(train: Train, variables: tuple[str, ...]) -> list:
    lines = [f"variables = [{', '.join(variables)}]"]
    if train.second:
        lines += [
            "inner = [g for g in tf.gradients(loss, variables) if g is not None]",
            "loss += .1 * sum(tf.reduce_sum(tf.tanh(tf.convert_to_tensor(g))) for g in inner)",
        ]
    scale = train.loss_scale
    lines += [
        f"gradients = tf.gradients({scale or 1.0} * loss, variables{train.gradients})",
        "pairs = [(g, v) for g, v in zip(gradients, variables) if g is not None]",
        "gradients, variables = [g for g, _ in pairs], [v for _, v in pairs]",
    ]
    if scale is not None:
        lines += [
            "gradients = [tf.convert_to_tensor(g) for g in gradients]",
            "finite = tf.reduce_all([tf.reduce_all(tf.is_finite(g)) for g in gradients] or [True])",
            f"gradients = [tf.where_v2(finite, g / {scale}, 0. * tf.ones_like(g)) for g in gradients]",
        ]
    if train.gate == "clip":
        lines += [
            "gradients, norm = tf.clip_by_global_norm(gradients, .5)",
            "checked = [norm]",
        ]
    elif train.gate == "tuple":
        lines.append("gradients = tf.tuple(gradients) if gradients else []")
    lines.append("checked += [tf.convert_to_tensor(g) for g in gradients]")
    waits = "" if train.gate == "clip" else "gradients + "
    updates = ", ".join(train.updates)
    lines.append(f"with tf.control_dependencies({waits}[loss, {updates}]):")
    inside = []
    if train.by_hand:
        inside += [
            "for v, g in list(zip(variables, gradients))[-1:]:",
            "    train.append(v.assign_sub(.1 * tf.convert_to_tensor(g)).op)",
            "gradients, variables = gradients[:-1], variables[:-1]",
        ]
    for index, optimizer in enumerate(train.optimizers):
        every = f"[{index}::{len(train.optimizers)}]"
        inside.append(f"mine = list(zip(gradients, variables)){every}")
        inside.append(f"if mine: train.append({optimizer}.apply_gradients(mine))")
    lines += [f"    {line}" for line in inside]
    if train.average:
        lines += [
            "with tf.control_dependencies(train):",
            "    average = tf.train.ExponentialMovingAverage(.9)",
            "    if variables: train.append(average.apply(variables))",
        ]
    return lines


def describe(program: Program) -> str:
    """Returns the program as text to read: features, lines and setting."""
    lines = []
    for feature in program.features:
        sizes = ", ".join(_text(size) for size in feature.value.shape)
        bound = f" < {feature.value.high}" if feature.value.dtype == "int" else ""
        axis = "not of the batch" if feature.axis is None else f"rows on axis {feature.axis}"
        each = f", {feature.per_row} entries each" if feature.per_row != 1 else ""
        hidden = " of unknown sizes" if feature.is_hidden else ""
        name = f"{feature.value.name}: {feature.value.dtype}{bound} [{sizes}]{hidden}"
        lines.append(f"# {name}, {axis}{each}")
    lines.append(f"# {program.setting}")
    return "\n".join([*lines, model(program)])


def _text(size: Size) -> str:
    if is_fixed(size):
        return str(size[0])
    each = multiple(size)
    return "?" if each is None else "n" if each == 1 else f"{each}n"
