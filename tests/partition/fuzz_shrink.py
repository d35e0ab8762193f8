"""Makes a program that fails smaller, while it still fails in the same way."""

from __future__ import annotations

import time
from typing import Callable, Iterator

from partition import fuzz_run
from partition.fuzz_program import (
    Feature,
    Program,
    Setting,
    Statement,
    Value,
    is_fixed,
    model,
    multiple,
    names_in,
    renamed,
)

Fails = Callable[[Program], bool]


def shrink(program: Program, message: str, seconds: float = 120.0) -> Program:
    """Returns a smaller program that fails as one does, the smallest that is found in a time.

    Args:
        program: The program.
        message: How it fails.
        seconds: The time.
    """
    kind, end = kind_of(message), time.monotonic() + seconds

    def fails(other: Program) -> bool:
        outcome = fuzz_run.check(other)
        return outcome.kind == fuzz_run.FAILED and kind_of(outcome.message) == kind

    tidied = cleaned(program)
    is_tidy = fails(tidied)  # It may fail because of unused lines.
    program = tidied if is_tidy else program
    changed = True
    while changed:
        changed = False
        for moves in (_settings, _endings, _statements):
            found = True
            while found:
                found = False
                for other in moves(program):
                    other = cleaned(other) if is_tidy else other
                    if time.monotonic() > end:
                        return program
                    if _weight(other) < _weight(program) and fails(other):
                        program, found, changed = other, True, True
                        break
    return program


def kind_of(message: str) -> str:
    """Returns the kind of failure that a message reports."""
    last = message.strip().splitlines()[-1] if message.startswith("Traceback") else message
    if "NaN" in message or "nan" in message:
        return "nan"
    return last.split(":")[0].split(" ")[0]


def _weight(program: Program) -> tuple[float, ...]:
    setting = program.setting
    plain = (
        setting.by_sharding,
        setting.optimize,
        not setting.packs,
        setting.where != "consolidation",
        setting.replicates,
        setting.new_flow,
        not setting.resources,
        setting.source != "feed",
        setting.exact_random,
        setting.apart,
        setting.has_nan,
        setting.others / 10,
        not setting.is_static,
        any(feature.is_hidden for feature in program.features),
    )
    more = 0 if program.train is None else len(repr(program.train)) / 50
    lines = model(program).count("\n") * 2 + len(program.features) + more
    sizes = sum(setting.sizes) / 10 + len(setting.counts) + len(setting.sizes)
    ends = len(program.fetches) + len(program.named) + len(program.metrics) + len(program.terms)
    return (lines + sizes + sum(plain) + ends * 1.5 + len(model(program)) / 1000,)


# Dropping what is not needed


def cleaned(program: Program) -> Program:
    """Returns a program without the statements and features that nothing takes."""
    texts = [*program.terms, *program.fetches, *program.named, *program.metrics]
    if program.train is not None:
        texts += program.train.updates
    needed: set[str] = set(names_in(" ".join(texts)))
    kept: list[Statement] = []
    for statement in reversed(program.body):
        if statement.value.name in needed or _defines(statement) & needed:
            needed.update(names_in("\n".join(statement.lines)))
            kept.append(statement)
    rows = [f for f in program.features if f.axis is not None and f.per_row == 1]
    features = [f for f in program.features if f.value.name in needed]
    if not any(f.axis is not None and f.per_row == 1 for f in features):
        features.insert(0, rows[0])
    return program._replace(body=tuple(reversed(kept)), features=tuple(features))


def _defines(statement: Statement) -> set[str]:
    """Returns all names that a statement's lines define."""
    return {
        line.split(" = ")[0].strip()
        for line in statement.lines
        if " = " in line and line.split(" = ")[0].strip().isalnum()
    }


def _without(program: Program, name: str) -> Program | None:
    """Returns a program without a statement, and without all that takes what it defines."""
    gone: set[str] = set()
    body = []
    for statement in program.body:
        used = set(names_in("\n".join(statement.lines)))
        if statement.value.name == name or used & gone:
            gone |= _defines(statement) | {statement.value.name}
        else:
            body.append(statement)
    train = program.train
    if train is not None:
        train = train._replace(updates=tuple(u for u in train.updates if u not in gone))

    def kept(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(text for text in texts if not set(names_in(text)) & gone)

    return program._replace(
        body=tuple(body),
        terms=kept(program.terms),
        fetches=kept(program.fetches),
        named=kept(program.named),
        metrics=kept(program.metrics),
        train=train,
    )


# Moves


def _settings(program: Program) -> Iterator[Program]:
    setting = program.setting
    plain = {
        "by_sharding": False,
        "optimize": False,
        "packs": True,
        "where": "consolidation",
        "replicates": False,
        "new_flow": False,
        "resources": True,
        "source": "feed",
        "exact_random": False,
        "apart": False,
        "has_nan": False,
    }
    yield program._replace(setting=setting._replace(**plain))
    for name, value in plain.items():
        if getattr(setting, name) != value:
            yield program._replace(setting=setting._replace(**{name: value}))
    if any(feature.is_hidden for feature in program.features):
        yield program._replace(
            features=tuple(f._replace(is_hidden=False) for f in program.features)
        )
    for other in _fewer(setting):
        yield program._replace(setting=other)


def _fewer(setting: Setting) -> Iterator[Setting]:
    """Yields settings of fewer steps, towers and rows."""
    if len(setting.sizes) > 1:
        yield setting._replace(sizes=setting.sizes[:1])
        yield setting._replace(sizes=setting.sizes[-1:])
        yield setting._replace(sizes=setting.sizes[:-1])
    if not setting.is_static and len(set(setting.sizes)) == 1:
        counts = _counts(setting.sizes[0], len(setting.counts))
        yield setting._replace(is_static=True, counts=counts)
    towers = len(setting.counts)
    for count in range(1, towers):
        yield setting._replace(counts=_counts(setting.sizes[0], count))
    for n in range(1, max(setting.sizes)):
        sizes = tuple(min(n, size) for size in setting.sizes)
        yield setting._replace(sizes=sizes, counts=_counts(sizes[0], towers))


def _counts(n: int, towers: int) -> tuple[int, ...]:
    return tuple(n // towers + (index < n % towers) for index in range(towers))


def _endings(program: Program) -> Iterator[Program]:
    """Yields programs that do not train, or less, or return less."""
    train = program.train
    if train is not None:
        yield program._replace(train=None)
        plain = train._replace(
            optimizers=("tf.train.GradientDescentOptimizer(.1)",), gradients="", gate="control"
        )
        yield program._replace(
            train=plain._replace(
                by_hand=False, average=False, second=False, updates=(), loss_scale=None
            )
        )
        if train.loss_scale is not None:
            yield program._replace(train=train._replace(loss_scale=None))
        for name in ("by_hand", "average", "second"):
            if getattr(train, name):
                yield program._replace(train=train._replace(**{name: False}))
        if train != plain:
            yield program._replace(train=plain)
        for update in train.updates:
            rest = tuple(other for other in train.updates if other != update)
            yield program._replace(train=train._replace(updates=rest))
    for name in ("fetches", "named", "metrics", "terms"):
        entries = getattr(program, name)
        if entries:
            yield program._replace(**{name: ()})
        for entry in entries if len(entries) > 1 else ():
            yield program._replace(**{name: tuple(e for e in entries if e != entry)})


def _statements(program: Program) -> Iterator[Program]:
    for statement in reversed(program.body):
        found = _without(program, statement.value.name)
        if found is not None:
            yield found
    for statement in reversed(program.body):
        for other in _stand_ins(program, statement):
            yield _replaced(program, statement, other.name)
    for statement in program.body:
        found = _as_feature(program, statement)
        if found is not None:
            yield found


def _stand_ins(program: Program, statement: Statement) -> Iterator[Value]:
    """Yields values of the same shape that are there before, first what the statement takes."""
    value = statement.value
    before = [feature.value for feature in program.features]
    for other in program.body:
        if other.value.name == value.name:
            break
        before.append(other.value)
    fits = [
        v
        for v in before
        if v.shape == value.shape and v.dtype == value.dtype and v.high <= max(value.high, 0)
    ]
    taken = [v for v in fits if v.name in statement.uses]
    others = [v for v in fits if v not in taken]
    yield from taken
    yield from others[:3]


def _replaced(program: Program, statement: Statement, name: str) -> Program:
    """Returns a program that takes another value in place of what a statement defines."""
    old = statement.value.name
    body = tuple(
        other._replace(lines=tuple(renamed(line, old, name) for line in other.lines))
        for other in program.body
        if other is not statement
    )

    def changed(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(renamed(text, old, name) for text in texts)

    return program._replace(
        body=body,
        terms=changed(program.terms),
        fetches=changed(program.fetches),
        named=changed(program.named),
        metrics=changed(program.metrics),
    )


def _as_feature(program: Program, statement: Statement) -> Program | None:
    """Returns a program where a value is fed, or a constant, instead of computed."""
    value = statement.value
    if value.dtype != "float" or statement.is_variable or statement.lines[0].endswith("# constant"):
        return None
    axes = [axis for axis, size in enumerate(value.shape) if not is_fixed(size)]
    if not axes:
        numbers = ", ".join(str(size[0]) for size in value.shape)
        line = f"{value.name} = tf.constant(np.float64(np.random.RandomState(1).randn({numbers})))  # constant"
        other = statement._replace(lines=(line,), dtype="float64")
        body = tuple(other if each is statement else each for each in program.body)
        return program._replace(body=body)
    each = multiple(value.shape[axes[0]])
    if len(axes) > 1 or each is None or len(program.features) > 12:
        return None
    taken = {feature.value.name for feature in program.features}
    name = next(
        f"{letter}{i}" for i in range(9) for letter in "abcdefgh" if f"{letter}{i}" not in taken
    )
    feature = Feature(value._replace(name=name), axes[0], each)
    made = _replaced(program, statement, name)
    return made._replace(features=(*made.features, feature))
