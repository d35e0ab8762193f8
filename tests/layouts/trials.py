"""One random operation and number of rows: what its rule says, and whether it is true."""

from __future__ import annotations

import collections
import itertools
from typing import Any, Counter, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

import versions
from layouts import parts, worlds
from layouts.operations import Operation, message
from layouts.parts import Parts, Rows, UncuttableError
from layouts.worlds import World
from replicate.layouts import ROWS, ragged
from replicate.layouts import dims as dims_lib
from replicate.layouts.layout import (
    ALL,
    ANY,
    MEAN,
    SUM,
    WHOLE,
    Demand,
    Layout,
    Own,
    Partial,
    PerTowerLayout,
    Shard,
    Share,
    Strategy,
    Whole,
)
from replicate.layouts.rule import Op, rule_of

# Kernels that divide by sizes that may be 0, which ends the process: only rows on the first axis of
# these are looked at.
_FRAGILE = ("Conv", "Dilation", "Pool", "ReverseV2")
# Kernels that end the process, or do not end, of inputs that are NaN or do not belong together.
_NOT_SEARCHED = frozenset(
    [
        "ResourceGather",
        "AvgPoolGrad",
        "AvgPool3DGrad",
        "MaxPoolGrad",
        "MaxPoolGradV2",
        "MaxPool3DGrad",
        "MaxPool3DGradGrad",
        "MaxPoolGradWithArgmax",
        "FractionalMaxPoolGrad",
        "MaxPoolGradGrad",
        "MaxPoolGradGradV2",
        "CropAndResize",
        "CropAndResizeGradBoxes",
        "CropAndResizeGradImage",
        "MatrixLogarithm",
        "Conv2DBackpropFilter",
        "LSTMBlockCellGrad",  # Writes beyond its outputs.
    ]
)
if versions.IS_1:  # Newer kernels refuse such inputs.
    _NOT_SEARCHED |= {
        "CholeskyGrad",
        "Conv3DBackpropFilterV2",
        "Dilation2D",
        "GatherV2",
        "LogMatrixDeterminant",
        "MatrixDeterminant",
        "MatrixInverse",
        "MatrixSolve",
        "MatrixSolveLs",
        "MatrixSquareRoot",
        "MatrixTriangularSolve",
        "SelfAdjointEigV2",
        "TridiagonalMatMul",
        "TridiagonalSolve",
    }

# Kernels of TensorFlow 1.15 that leave all outputs but the first as memory was, on one device, too.
_FIRST_ALONE = (
    frozenset(["FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"])
    if versions.IS_1
    else frozenset()
)

Combination = Tuple[Layout, ...]
VALUES = "values"  # A ragged unit; see `Shard.unit`.

# So many rows at most, combinations of layouts of an operation, and ways to demand what it has.
_LARGEST = 100
COMBINATIONS, DEMANDS = 60, 16
# Parts that gradients, losses and masks are; others are results, and few at that.
_COMMON = frozenset([SUM, MEAN, ALL, ANY])


def totals(operation: Operation, draw: np.random.RandomState) -> list[int]:
    """Draws two numbers of rows, such as the inputs may have on some axis.

    One is a size that several inputs have, first of all on the first axis; the other may be any
    divisor of a size, or 1.
    """
    found: Counter[int] = collections.Counter()
    others: set[int] = set()
    for operand in operation.operands:
        if operand.value is None or (operand.fixed and operand.value.dtype.kind not in "iu"):
            continue
        entries = operand.value.ravel() if operand.fixed else operand.value.shape
        sizes = [int(size) for size in entries if 0 < size <= _LARGEST]
        for place, size in enumerate(sizes):
            found[size] += (1 if operand.fixed else 10) * (5 if place == 0 else 1)
        others |= {n for size in sizes for n in range(2, size + 1) if size % n == 0}
    if not found:
        return []
    first = max(sorted(found), key=lambda size: (size > 1, found[size], draw.rand()))
    others -= {first}
    if draw.rand() < 0.05 or not others:
        return sorted({first, 1}, reverse=True)
    return [first, int(draw.choice(sorted(others)))]


class Trial:
    """An operation with a number of rows.

    Args:
        operation: The operation.
        total: The number of rows.
        draw: Source of random numbers.
    """

    def __init__(self, operation: Operation, total: int, draw: np.random.RandomState) -> None:
        self.operation = operation
        self.total = total
        self._draw = draw
        towers = draw.permutation([2, 3])
        self._rows: list[Rows] = [
            parts.uneven(draw, total, int(towers[0])),
            parts.uneven(draw, total, int(towers[1])),
        ]
        self._judged: dict[Strategy, str | None] = {}
        self._claims: dict[tuple[Demand, ...], tuple[Layout, ...] | None] = {}

    def combinations(self) -> list[Combination]:
        """Returns the combinations of layouts of inputs, a random choice if there are very many.

        An operation whose inputs are all constants may have rows by their integers alone.
        """
        choices = [self._layouts(index) for index in range(len(self.operation.operands))]
        singles = [
            tuple(layout if place == index else WHOLE for place in range(len(choices)))
            for index, own in enumerate(choices)
            for layout in own[1:]
        ]
        if all(operand.fixed for operand in self.operation.operands):
            return [(WHOLE,) * len(choices)]
        count = int(np.prod([len(own) for own in choices], dtype=float))
        if count <= COMBINATIONS:
            return [one for one in itertools.product(*choices) if any(x != WHOLE for x in one)]
        made = dict.fromkeys(singles)
        for _ in range(COMBINATIONS - min(len(made), COMBINATIONS // 2)):
            # Half of them have no partial values, with which little is done.
            shards = self._draw.rand() < 0.5
            one = tuple(
                own[self._draw.randint(len(own))]
                for own in (
                    [x for x in own if not shards or not isinstance(x, Partial)] for own in choices
                )
            )
            if any(layout != WHOLE for layout in one):
                made[one] = None
        return list(made)

    def _layouts(self, index: int) -> list[Layout]:
        operand = self.operation.operands[index]
        if operand.value is None or operand.fixed:
            return [WHOLE]
        return [WHOLE, *self._shards(operand.value), *parts.kinds(operand.value.dtype)]

    def _shards(self, value: np.ndarray) -> list[Shard]:
        return [Shard(axis) for axis, size in enumerate(value.shape) if self._fits(size)]

    def _fits(self, size: int) -> bool:
        return size > 0 and size % self.total == 0

    def ask(self, world: World, combination: Combination, how: str) -> Strategy | None:
        """Returns what the rule says, None if it says nothing, or what cannot be.

        Raises:
            ValueError: If it says what means nothing.
        """
        function = rule_of(self.operation.name)
        if function is None:
            return None
        op = world.facts(combination, how, self._draw).op_of(world.operation)
        return _possible(op, combination, function(op, combination))

    def ask_of_values(self, world: World, combination: Combination) -> Strategy | None:
        """Returns what the rule says where no rows are split, but what each has any number of."""
        facts = world.facts(combination, "sizes", self._draw)
        given = [
            one._replace(unit=VALUES) if isinstance(one, Shard) else one for one in combination
        ]
        found = ragged.strategy(facts, world.operation, given, rule_of(self.operation.name))
        # A mean of rows is none of values.
        if found is None or any(
            isinstance(demand, Partial) and demand.unit == VALUES for demand in found.inputs
        ):
            return None
        demands, outputs = (tuple(map(_of_rows, own)) for own in (found.inputs, found.outputs))
        strategy = Strategy(demands, outputs)
        return _possible(facts.op_of(world.operation), combination, strategy)

    def compare_facts(self, world: World, combination: Combination, how: str) -> str | None:
        """Returns how known shapes and integers of outputs differ from real ones, None if not."""
        facts = world.facts(combination, how, self._draw)
        names = world.names(combination)
        for tensor, whole in zip(world.operation.outputs, self.operation.draws[0].outputs):
            if not tensor.shape.is_compatible_with(whole.shape):
                continue  # TensorFlow's own mistake, as with reserved outputs of batch norm.
            shape, integers = facts.dims(tensor), facts.value(tensor)
            if shape is not None and not _agree(shape, whole.shape, names):
                return f"facts: shape {shape} of what is {whole.shape}, {names}"
            if integers is not None and not (
                integers.shape == whole.shape and _agree(integers.ravel(), whole.ravel(), names)
            ):
                return f"facts: integers {integers.tolist()} of what is {whole.tolist()}, {names}"
        return None

    def judge(self, strategy: Strategy) -> str | None:
        """Returns what is wrong with a strategy, None if nothing is."""
        if strategy not in self._judged:
            self._judged[strategy] = self._find_fault(strategy)
        return self._judged[strategy]

    def _find_fault(self, strategy: Strategy) -> str | None:
        return self.judge_on(strategy, self._rows)

    def judge_on(self, strategy: Strategy, several: Sequence[Rows]) -> str | None:
        """Returns the fault of a strategy for one of several numbers of rows, None if right."""
        draws = self.operation.draws
        for index, rows in enumerate(several):
            values, wholes = draws[min(index, 1, len(draws) - 1)]
            fault = self._fault_on(strategy, rows, values, wholes)
            if fault is not None:
                return fault
        return None

    def _fault_on(
        self,
        strategy: Strategy,
        rows: Rows,
        values: Sequence[np.ndarray | None],
        wholes: Sequence[np.ndarray],
    ) -> str | None:
        try:
            made = self._run(values, strategy.inputs, rows)
        except (UncuttableError, tf.errors.OpError) as error:
            return f"rows {rows}: {message(error)}"
        for index, (layout, whole) in enumerate(zip(strategy.outputs, wholes)):
            if isinstance(layout, PerTowerLayout) or (
                index and self.operation.name in _FIRST_ALONE
            ):
                continue
            own = [tower[index] for tower in made]
            if isinstance(layout, Whole):  # The same in all towers, as of what has no rows.
                if not all(self._agree(value, whole) for value in own):
                    return f"rows {rows}, output {index} is not the same in all towers"
                continue
            try:
                joined = parts.join(layout, own, rows)
            except UncuttableError as error:
                return f"rows {rows}, output {index}: {error}"
            if not self._agree(joined, whole):
                return f"rows {rows}, output {index}: {_difference(joined, whole)}"
        return None

    def _agree(self, joined: np.ndarray, whole: np.ndarray) -> bool:
        if self.operation.is_random:
            return joined.shape == whole.shape and joined.dtype == whole.dtype
        return parts.same(joined, whole, self.operation.within)

    def _run(
        self, values: Sequence[np.ndarray | None], demands: Sequence[Demand], rows: Rows
    ) -> list[list[np.ndarray]]:
        """Returns the outputs of each tower."""
        has = [self._has(value, demand, rows) for value, demand in zip(values, demands)]
        return [self.operation.run([own[tower] for own in has]) for tower in range(len(rows))]

    def _has(self, value: Any, demand: Demand, rows: Rows) -> Parts:
        if isinstance(demand, Whole):
            return [value] * len(rows)
        if isinstance(demand, Shard):
            return parts.cut(value, demand.axis, rows)
        if isinstance(demand, Share):
            return parts.share(value, demand.axis, rows)
        if isinstance(demand, Own):
            return parts.own(value, demand, rows)
        if isinstance(demand, Partial):
            return parts.partial(self._draw, value, demand, rows)
        raise UncuttableError(f"nothing that is given is {demand}")

    def could(self, combination: Combination) -> Strategy | None:
        """Returns a strategy that is right for all draws, of simple ones, None if none is.

        It demands what is given, and of whole inputs maybe cuts or shares. If all that is given
        has rows, one input may lose them.
        """
        for demands in self._demands(combination):
            if demands not in self._claims:
                self._claims[demands] = self._true_of(demands)
            outputs = self._claims[demands]
            if outputs is not None:
                return Strategy(demands, outputs)
        return None

    def is_worth(self, combination: Combination) -> bool:
        """Whether to look for strategies: not where many are true by chance, or nobody has such."""
        if self.total == 1 or self.operation.is_random or self.operation.name in _NOT_SEARCHED:
            return False
        values, outputs = self.operation.draws[0]
        if any(own is not None and not own.size for own in (*values, *outputs)):
            return False  # Without entries, any layout is right.
        if self._is_fragile() and any(isinstance(x, Shard) and x.axis for x in combination):
            return False
        given = [
            (layout, operand.value)
            for layout, operand in zip(combination, self.operation.operands)
            if layout != WHOLE
        ]
        if len({layout if isinstance(layout, Partial) else Shard for layout, _ in given}) > 1:
            return False
        return all(
            isinstance(layout, Shard)
            or (layout in _COMMON and value is not None and value.dtype.kind in "fcb")
            for layout, value in given
        )

    def _is_fragile(self) -> bool:
        return any(part in self.operation.name for part in _FRAGILE)

    def _demands(self, combination: Combination) -> list[tuple[Demand, ...]]:
        """Returns demands that may do, with few changes first."""
        choices = [self._changed(index, given) for index, given in enumerate(combination)]
        made = []
        for places in itertools.islice(itertools.product(*(range(len(x)) for x in choices)), 2000):
            demands = tuple(own[place] for own, place in zip(choices, places))
            kept = [x == y for x, y in zip(demands, combination) if y != WHOLE]
            if len(kept) - sum(kept) <= (1 if any(kept) else 0):
                made.append((sum(place > 0 for place in places), places, demands))
        return [demands for _, _, demands in sorted(made, key=lambda x: x[:2])[:DEMANDS]]

    def _changed(self, index: int, given: Layout) -> list[Demand]:
        """Returns what may be demanded of an input: what is given first."""
        if given != WHOLE:
            return [given, WHOLE] if isinstance(given, Shard) else [given]
        operand = self.operation.operands[index]
        if operand.value is None:
            return [WHOLE]
        if not operand.fixed:
            cuts = self._shards(operand.value)
            return [WHOLE, *(cuts[:1] if self._is_fragile() else cuts)]
        if operand.value.ndim != 1 or operand.value.dtype.kind not in "iu":
            return [WHOLE]
        shares = [Share(place) for place, entry in enumerate(operand.value) if self._fits(entry)]
        return [WHOLE, *shares]

    def _true_of(self, demands: tuple[Demand, ...]) -> tuple[Layout, ...] | None:
        """Returns layouts that the outputs have for all draws, None if one has none."""
        given = {layout for layout in demands if isinstance(layout, Partial)}
        left = [_claims(whole, given) for whole in self.operation.draws[0].outputs]
        for values, wholes in self.operation.draws:
            for rows in self._rows:
                try:
                    made = self._run(values, demands, rows)
                except (UncuttableError, tf.errors.OpError):
                    return None
                for index, whole in enumerate(wholes):
                    own = [tower[index] for tower in made]
                    left[index] = [x for x in left[index] if self._is_true(x, own, rows, whole)]
                if not all(left):
                    return None
        outputs = tuple(own[0] for own in left)
        return None if all(layout == WHOLE for layout in outputs) else outputs

    def _is_true(self, layout: Layout, own: Parts, rows: Rows, whole: np.ndarray) -> bool:
        if layout == WHOLE:
            return all(self._agree(part, whole) for part in own)
        try:
            return self._agree(parts.join(layout, own, rows), whole)
        except UncuttableError:
            return False


def _agree(known: Sequence[Any], sizes: Sequence[int], names: dict[str, int]) -> bool:
    return len(known) == len(sizes) and all(
        worlds.agrees(dim, size, names) for dim, size in zip(known, sizes)
    )


def _claims(whole: np.ndarray, given: set[Partial]) -> list[Layout]:
    """Returns what an output may be: first, the same in all towers, then like an input."""
    reductions = [kind for kind in parts.kinds(whole.dtype) if kind in _COMMON]
    if len({repr(entry) for entry in whole.ravel()}) < 3:  # Of zeros alone, much is true.
        reductions = []
    reductions.sort(key=lambda kind: kind not in given)
    if given:  # An output with rows would not depend on the partials.
        return [WHOLE, *reductions]
    return [WHOLE, *(Shard(axis) for axis in range(whole.ndim)), *reductions]


def _of_rows(layout: Any) -> Any:
    return layout._replace(unit=ROWS) if isinstance(layout, (Shard, Share, Partial)) else layout


def _possible(op: Op, combination: Combination, strategy: Strategy | None) -> Strategy | None:
    """Returns a strategy, None if towers cannot have inputs as it demands them."""
    if strategy is None:
        return None
    _check(op, strategy)
    can_be = all(
        _can_be(op, index, layout, demand)
        for index, (layout, demand) in enumerate(zip(combination, strategy.inputs))
    )
    return strategy if can_be and any(x != WHOLE for x in strategy.inputs) else None


def _check(op: Op, strategy: Strategy) -> None:
    """Raises a `ValueError` if a strategy means nothing."""
    inputs, outputs, _ = strategy
    if len(inputs) != len(op.inputs) or len(outputs) != len(op.outputs):
        raise ValueError(
            f"{len(inputs)} demands of {len(op.inputs)} inputs, {len(outputs)} outputs"
        )
    for what, tensors, layouts in (("demand", op.inputs, inputs), ("output", op.outputs, outputs)):
        for tensor, layout in zip(tensors, layouts):
            if what == "output" and not isinstance(layout, (Shard, Partial, PerTowerLayout, Whole)):
                raise ValueError(f"an output that is {layout}")
            if not isinstance(layout, (Own, Shard, Partial, PerTowerLayout, Whole, Share)):
                raise ValueError(f"a demand that is {layout}")
            if isinstance(layout, Shard):
                rank = tensor.shape.rank
                if not isinstance(layout.axis, int) or layout.axis < 0:
                    raise ValueError(f"{what} {layout!r}: axes are counted from 0")
                if rank is not None and layout.axis >= rank:
                    raise ValueError(f"{what} {layout!r} of a tensor of rank {rank}")


def _can_be(op: Op, index: int, given: Layout, demand: Demand) -> bool:
    """Whether towers can have an input as it is demanded; as the inference decides it."""
    if isinstance(demand, Share):
        return given == WHOLE and _has_share(op, index, demand.axis)
    if isinstance(demand, Own):
        return _can_be(op, index, given, Shard(0))
    if isinstance(demand, Shard) and given != demand:
        shape = op.dims(index)
        if shape is None:
            return False
        size = shape[demand.axis]
        return not isinstance(size, int) or dims_lib.over(size, op.rows) is not None
    return isinstance(demand, Whole) or given == demand


def _has_share(op: Op, index: int, axis: int | None) -> bool:
    integers = op.value(index)
    if axis is None:  # A number of rows.
        return integers is not None and dims_lib.over(integers.item(), op.rows) is not None
    if integers is None or integers.ndim != 1 or not 0 <= axis < len(integers):
        return False
    others = [entry for place, entry in enumerate(integers) if place != axis]
    if not isinstance(op.rows, int) and any(dims_lib.holds(x, dims_lib.ROWS) for x in others):
        return False
    own = integers[axis]
    return own == -1 or dims_lib.over(own, op.rows) is not None


def _difference(joined: np.ndarray, whole: np.ndarray) -> str:
    if joined.shape != whole.shape:
        return f"shape {joined.shape} instead of {whole.shape}"
    if joined.dtype.kind in "fciu":
        with np.errstate(all="ignore"):
            largest = np.max(np.abs(np.subtract(joined, whole, dtype=np.complex128)), initial=0)
        return f"off by {largest:.3g}"
    return f"{joined.ravel()[:5]} instead of {whole.ravel()[:5]}"
