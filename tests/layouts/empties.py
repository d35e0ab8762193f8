"""Plain rules asked of what rows have any number of: of some towers none, see `layouts.ragged`."""

from __future__ import annotations

import ctypes
import zlib
from typing import Iterator, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from layouts import worlds
from layouts.cases import Generator
from layouts.operations import Operation
from layouts.trials import Trial, totals
from replicate.layouts.layout import Shard

_PERTURB = -6  # M_PERTURB of <malloc.h>


def fill_new_memory(byte: int) -> bool:
    """Lets memory be filled with bytes when kernels get it, 0: as it was; returns whether it is.

    Of kernels that return what happens to be there, that is mostly what they should have written.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_PERTURB, byte))


def _splits(total: int) -> Iterator[tuple[int, ...]]:
    """Yields how many entries towers have where one of them has none."""
    yield (total, 0)
    yield (0, total)
    if total > 1:
        yield (1, 0, total - 1)


class Proof:
    """The proof that the rule of a type is true of towers that have nothing.

    Args:
        name: The type.
        generators: Its cases.
        seed: Of the random examples.
    """

    def __init__(self, name: str, generators: Sequence[Generator], seed: int = 0) -> None:
        self.name = name
        self.judged = 0
        self.wrong: dict[str, str] = {}
        self._generators = generators
        self._seed = seed

    def run(self, examples: int, first: int = 0) -> Proof:
        """Tries examples; returns itself."""
        for index in range(first, first + examples):
            draw = np.random.RandomState(zlib.crc32(f"{self.name} {self._seed} {index}".encode()))
            arguments = self._generators[index % len(self._generators)](draw)
            with tf.Graph().as_default():
                operation = Operation(self.name, arguments, draw)
                for total in totals(operation, draw):
                    self._try(operation, total, draw, index)
                operation.close()
        return self

    def _try(
        self, operation: Operation, total: int, draw: np.random.RandomState, index: int
    ) -> None:
        trial = Trial(operation, total, draw)
        some = list(_splits(total))
        for world in worlds.unknown(operation, total, draw):
            for combination in trial.combinations():
                strategy = None
                # Partials have entries in every tower.
                if any(isinstance(one, Shard) for one in combination):
                    strategy = trial.ask_of_values(world, combination)
                if strategy is None:
                    continue
                self.judged += 1
                fault = trial.judge_on(strategy, some)
                if fault is not None:
                    inputs = ", ".join(str(operand) for operand in operation.operands)
                    text = f"{self.name}({inputs}) {operation.attributes()}, example {index}"
                    self.wrong.setdefault(fault[:40], f"{text}, {strategy}\n  {fault}")
