"""A random program while it is drawn: the values that there are, and what forms ask of it."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Pattern, Sequence, Tuple

import numpy as np

from partition.fuzz_program import (
    PROBES,
    ROWS,
    Feature,
    Size,
    Statement,
    Value,
    fixed,
    is_fixed,
    multiple,
)

LARGEST = 3000  # The most entries of a value.

Shape = Tuple[Size, ...]


class UnfitError(Exception):
    """Says that a form finds nothing that it can be made of."""


class Made(NamedTuple):
    """The text that a form makes, and what is known of its value.

    Attributes:
        text: An expression; or lines, and the last one is an expression.
        shape: Its shape.
        dtype: Its type.
        high: Integers are less.
        is_wild: Whether its entries may be large, so that it is to be squashed.
        computed: The type in which it is computed, one of `TYPES`.
    """

    text: str
    shape: Sequence[Size]
    dtype: str = "float"
    high: int = 0
    is_wild: bool = False
    computed: str = "float64"


Form = Callable[["Draft"], Made]

_forms: list[tuple[Form, float]] = []


def form(weight: float = 1.0) -> Callable[[Form], Form]:
    """Enters a function that draws an operation into the table of forms."""

    def enter(function: Form) -> Form:
        _forms.append((function, weight))
        return function

    return enter


def forms() -> list[tuple[Form, float]]:
    """Returns the forms, and how often they are drawn."""
    return list(_forms)


class Draft:
    """A program while it is drawn.

    Args:
        draw: Where randomness comes from.
        n: The number of rows of the first step.
        is_static: Whether the graph knows it.
        exact_random: Whether random numbers may be drawn.
        types: Types other than float64 that may occur.
        features: Those of the program.
        refused: Pattern of texts that may not occur, None for none.
    """

    def __init__(
        self,
        draw: np.random.RandomState,
        n: int,
        is_static: bool,
        exact_random: bool,
        types: Sequence[str],
        features: Sequence[Feature],
        refused: Pattern[str] | None = None,
    ) -> None:
        self.draw = draw
        self.n = n
        self.is_static = is_static
        self.exact_random = exact_random
        self.types = types
        self.statements: list[Statement] = []
        self.values: list[Value] = [feature.value for feature in features]
        self.updates: list[str] = []
        self._uses: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._refused = refused

    # Randomness

    def chance(self, probability: float) -> bool:
        return bool(self.draw.rand() < probability)

    def one_of(self, *options: Any) -> Any:
        return options[self.draw.randint(len(options))]

    def number(self, low: float = -1.5, high: float = 1.5) -> str:
        return f"{self.draw.uniform(low, high):.2f}"

    def seed(self) -> int:
        return int(self.draw.randint(1, 1000))

    # Values

    def pick(
        self,
        dtype: str = "float",
        rank: int | None = None,
        least: int = 0,
        where: Callable[[Value], Any] | None = None,
    ) -> Value:
        """Returns a value, rather one that is new, or that nothing takes.

        Raises:
            UnfitError: If none is as it is asked for.
        """
        found = [
            value
            for value in self.values
            if value.dtype == dtype
            and (rank is None or value.rank == rank)
            and value.rank >= least
            and (where is None or where(value))
        ]
        if not found:
            raise UnfitError
        weights = np.array([self._weight(value) for value in found])
        value = found[self.draw.choice(len(found), p=weights / weights.sum())]
        self._uses[value.name] = self._uses.get(value.name, 0) + 1
        return value

    def _weight(self, value: Value) -> float:
        age = len(self.values) - self.values.index(value)
        return (
            (2.0 if has_rows(value) else 0.7)
            * (1 + 8 / (age + 2))
            / (1 + self._uses.get(value.name, 0))
        )

    def axis(self, value: Value, where: Callable[[Size], Any] | None = None) -> int:
        """Returns an axis of a value, as often as not negative in `self.sign`."""
        axes = [axis for axis, size in enumerate(value.shape) if where is None or where(size)]
        if not axes:
            raise UnfitError
        return int(self.draw.choice(axes))

    def signed(self, axis: int, rank: int) -> int:
        """Returns an axis, or the same counted from the last one."""
        return axis - rank if self.chance(0.4) else axis

    def name(self, letter: str) -> str:
        """Returns a new name."""
        self._counts[letter] = self._counts.get(letter, -1) + 1
        return f"{letter}{self._counts[letter]}"

    def variable(self, *sizes: int) -> Value:
        """Returns a variable of a shape, an old one sometimes."""
        shape = tuple(fixed(size) for size in sizes)
        old = [s.value for s in self.statements if s.is_variable and s.value.shape == shape]
        if old and self.chance(0.4):
            return old[self.draw.randint(len(old))]
        name = self.name("v")
        numbers = ", ".join(str(size) for size in sizes)
        initial = f"np.random.RandomState({self.seed()}).randn({numbers}) * .6"
        if not sizes:
            initial = f"np.float64({self.number()})"
        line = f'{name} = tf.get_variable("{name}", initializer={initial}, use_resource=resources)'
        lines = (line,)
        if self.chance(0.1):
            lines = ('with tf.device("/cpu:1"):', f"    {line}")
        value = Value(name, shape)
        self.statements.append(Statement(value, lines, is_variable=True))
        return value

    def state(self, shape: str) -> str:
        """Adds a variable that is not trained; returns its name."""
        name = self.name("s")
        line = (
            f'{name} = tf.get_variable("{name}", initializer=np.zeros({shape}), trainable=False, '
            "use_resource=resources)"
        )
        self.statements.append(Statement(Value(name, (), "state"), (line,)))
        return name

    def add(self, made: Made) -> Value:
        """Adds what a form made as a statement."""
        shape = tuple(made.shape)
        if self._refused is not None and self._refused.search(made.text):
            raise UnfitError
        if max(np.prod(shape, axis=0)) > LARGEST if shape else False:
            raise UnfitError
        at = PROBES.index(self.n)
        if any(size[at] < 1 for size in shape) and not self.chance(0.1):
            raise UnfitError
        value = Value(self.name("t"), shape, made.dtype, made.high)
        *before, last = made.text.split("\n")
        if made.dtype == "float" and (made.is_wild or self.chance(0.07)):
            last = self.one_of("tf.tanh({})", ".7 * tf.sin({})", "tf.sigmoid({}) - .5").format(last)
        lines = (*before, f"{value.name} = {last}")
        self.statements.append(Statement(value, lines, dtype=made.computed))
        self.values.append(value)
        return value

    @property
    def has_loops(self) -> bool:
        """Whether there are loops, whose gradients have no gradients."""
        loops = "while_loop(", "map_fn(", "scan("
        return any(loop in line for s in self.statements for line in s.lines for loop in loops)

    # Sizes

    def size(self, value: Value, axis: int) -> str:
        """Returns a size as text: a number, n, or what the graph says it is."""
        size = value.shape[axis]
        asked = f"tf.shape({value.name})[{axis}]"
        if is_fixed(size):
            return str(size[0])
        each = multiple(size)
        if each is None or self.chance(0.5):
            return asked
        if self.is_static and self.chance(0.3):
            return f"int({value.name}.shape[{axis}])"
        return "n" if each == 1 else f"{each} * n"

    def same(self, a: Size, b: Size) -> bool:
        """Whether sizes are the same, or, sometimes, happen to be."""
        if a == b:
            return True
        at = PROBES.index(self.n)
        return self.is_static and a[at] == b[at] and self.chance(0.25)

    def partner(self, value: Value) -> tuple[str, Shape]:
        """Returns an operand with which a value can be broadcast, and the shape of both."""
        way = self.draw.rand()
        if way < 0.55:
            other = self.pick(
                where=lambda v: v.name != value.name and self.broadcast(value.shape, v.shape)
            )
            shape = self.broadcast(value.shape, other.shape)
            if shape is None:  # Sizes are equal by chance only.
                raise UnfitError
            return other.name, shape
        if way < 0.7 and value.rank:
            return self._reduced(value), value.shape
        if way < 0.75 and self.is_static and value.rank:
            return self._array(value)
        if way < 0.8:
            return self.number(), value.shape
        count = self.draw.randint(min(value.rank, 2) + 1)
        sizes = value.shape[value.rank - count :]
        if not all(is_fixed(size) for size in sizes):
            raise UnfitError
        return self.variable(*(s[0] if self.chance(0.8) else 1 for s in sizes)).name, value.shape

    def _reduced(self, value: Value) -> str:
        axes = [axis for axis in range(value.rank) if self.chance(0.5)] or [0]
        if self.chance(0.3):
            axis = axes[0]
            part = ", ".join([":"] * axis + [self.one_of(":1", "-1:")])
            return f"{value.name}[{part}]"
        kind = self.one_of("mean", "sum", "max", "min")
        return f"tf.reduce_{kind}({value.name}, {axes}, keepdims=True)"

    def _array(self, value: Value) -> tuple[str, Shape]:
        """Returns numbers of the program that have as many rows as a static batch."""
        entries = []
        for size in value.shape:
            each = multiple(size)
            if is_fixed(size):
                entries.append(str(size[0]))
            elif each is not None:
                entries.append(f"{each} * n")
            else:
                raise UnfitError
        text = f"np.random.RandomState({self.seed()}).randn({', '.join(entries)})"
        if self.chance(0.3):
            name = self.name("v")
            line = f'{name} = tf.get_variable("{name}", initializer={text}, use_resource=resources)'
            self.statements.append(Statement(Value(name, value.shape), (line,), is_variable=True))
            return name, value.shape
        return text, value.shape

    def broadcast(self, a: Shape, b: Shape) -> Shape | None:
        """Returns the shape to which two are broadcast, None if they do not fit."""
        rank = max(len(a), len(b))
        made = []
        for x, y in zip(_padded(a, rank), _padded(b, rank)):
            if self.same(x, y):
                made.append(x)
            elif x == fixed(1) or y == fixed(1):
                made.append(y if x == fixed(1) else x)
            else:
                return None
        return tuple(made)


def _padded(shape: Shape, rank: int) -> Shape:
    return (fixed(1),) * (rank - len(shape)) + tuple(shape)


def has_rows(value: Value) -> bool:
    """Whether the size of an axis depends on the number of rows."""
    return any(not is_fixed(size) for size in value.shape)


def is_rows(size: Size) -> bool:
    return size == ROWS


def plus(size: Size, more: int) -> Size:
    return tuple(entry + more for entry in size)


def times(*sizes: Size) -> Size:
    """Returns the product of sizes."""
    return tuple(int(entry) for entry in np.prod(sizes, axis=0)) if sizes else fixed(1)


def without(shape: Sequence[Size], *axes: int) -> Shape:
    """Returns a shape without some of its axes."""
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def replaced(shape: Sequence[Size], axis: int, *sizes: Size) -> Shape:
    """Returns a shape with other sizes in place of one."""
    return (*shape[:axis], *sizes, *shape[axis + 1 :])
