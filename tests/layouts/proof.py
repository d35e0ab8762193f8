"""The proof of rules: random operations, in all combinations of layouts, on what towers have.

    python -m layouts.proof                     all types, from the folder of tests
    python -m layouts.proof MatMul Reshape      these
    python -m layouts.proof MatMul --examples 200 --seed 3 --missing

For each example, number of rows, and combination of layouts of the inputs, the rule is applied to a
graph that knows all sizes and to ones that know less. Its strategy is then carried out: the
operation runs on each tower's inputs, and the outputs are joined as the rule claims and compared
with the result for whole inputs. If they differ, the rule is wrong. If there is no strategy, simple
ones are tried: one that is right for all draws is missing, unless `missing.txt` allows that.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import time
import traceback
import zlib
from typing import Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from layouts import worlds
from layouts.allowed import unlisted
from layouts.cases import Arguments, Generator, load
from layouts.operations import Operation, message
from layouts.trials import Combination, Trial, totals
from layouts.worlds import World
from replicate.layouts.layout import Demand, Partial, Strategy

# Each type has so many examples, and more until rules were asked often enough. Two of each
# generator, a rich and a plain one, are enough where rules were asked very often by then, and for a
# type with the rule and the generators of others.
EXAMPLES, MOST, ENOUGH, VERY_OFTEN, FEW = 4, 16, 400, 1000, 2


def types(names: Sequence[str] = (), broken: list[str] | None = None) -> dict[str, list[Generator]]:
    """Returns the generators of types that the running TensorFlow has; see `load`."""
    known = load(broken)
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise ValueError(f"There are no cases of {', '.join(unknown)}.")
    return {name: known[name] for name in sorted(names or known) if hasattr(tf.raw_ops, name)}


class Proof:
    """The proof of the rule of a type.

    Args:
        name: The type.
        generators: Its cases.
        seed: Of the random examples.
        missing: Whether to look for what the rule leaves whole though it need not be.
    """

    def __init__(
        self, name: str, generators: Sequence[Generator], seed: int = 0, missing: bool = True
    ) -> None:
        self.name = name
        self.asked = 0
        self.judged = 0
        self.wrong: dict[str, str] = {}
        self.missing: dict[str, str] = {}
        self._generators = generators
        self._seed = seed
        self._looks = missing

    def run(self, examples: int | None = None, first: int = 0) -> Proof:
        """Tries examples, as many as prove something if no number is given; returns itself."""
        few = FEW * len(self._generators)
        for index in range(first, first + (examples or MOST)):
            tried = index - first
            is_enough = tried >= EXAMPLES and self.asked >= ENOUGH
            if examples is None and (is_enough or (tried >= few and self.asked >= VERY_OFTEN)):
                break
            draw = np.random.RandomState(zlib.crc32(f"{self.name} {self._seed} {index}".encode()))
            with tf.Graph().as_default():
                try:
                    self._example(self._drawn(draw, index), draw, index)
                except Exception as error:
                    again = self._again(index)
                    self.wrong.setdefault("case", f"case: {_of_error(error)}\n  {again}")
        return self

    def _drawn(self, draw: np.random.RandomState, index: int) -> Arguments:
        """Draws an example; every other one is the richest of a few: plain ones prove little."""
        generator = self._generators[index % len(self._generators)]
        return max((generator(draw) for _ in range(1 + 4 * (index % 2 == 0))), key=_axes)

    def _example(self, arguments: Arguments, draw: np.random.RandomState, index: int) -> None:
        operation = Operation(self.name, arguments, draw)
        for total in totals(operation, draw):
            self._try(Trial(operation, total, draw), draw, index)
        operation.close()

    def _try(self, trial: Trial, draw: np.random.RandomState, index: int) -> None:
        """Asks the rule in all worlds, and judges what it says."""
        operation, total = trial.operation, trial.total
        static = worlds.static(operation, total)
        loose = list(worlds.unknown(operation, total, draw))
        random = [worlds.anything(operation, total, draw) for _ in range(2)]
        for world in (static, *loose, *random):
            self._compare_facts(trial, world, draw, index)
        for combination in trial.combinations():
            found = self._ask(trial, static, combination, "sizes", index)
            others = [
                self._ask(trial, world, combination, how, index)
                for world in loose
                for how in ("rows", "sizes")
            ]
            self._ask(trial, loose[draw.randint(len(loose))], combination, "any", index)
            self._ask(trial, random[draw.randint(2)], combination, "any", index)
            if self._looks and trial.is_worth(combination):
                self._look(trial, combination, found, others, index)

    def _ask(
        self, trial: Trial, world: World, combination: Combination, how: str, index: int
    ) -> Strategy | None:
        """Returns what the rule says, if that is true; takes note of what is not."""
        self.asked += 1
        strategy = None
        try:
            strategy = trial.ask(world, combination, how)
        except Exception as error:
            fault: str | None = _of_error(error)
        else:
            fault = None if strategy is None else trial.judge(strategy)
        if fault is not None:
            kinds = fault if strategy is None else str(kinds_of(strategy))
            text = self._told(trial, combination, strategy, index, f"{world.name}: {fault}")
            self.wrong.setdefault(kinds, text)
            return None
        return strategy

    def _look(
        self,
        trial: Trial,
        combination: Combination,
        found: Strategy | None,
        others: Sequence[Strategy | None],
        index: int,
    ) -> None:
        """Takes note of a strategy that is true where the rule says none."""
        more = ""
        if found is None:
            found = trial.could(combination)
        elif any(others) or not worlds.are_all(trial.operation, trial.total):
            return
        else:
            more = " of unknown sizes"
        if found is not None:
            kinds = f"{short(combination)} -> {short(found.outputs)}{more}"
            text = self._told(trial, combination, found, index)
            self.missing.setdefault(kinds, text)

    def _compare_facts(
        self, trial: Trial, world: World, draw: np.random.RandomState, index: int
    ) -> None:
        """Compares what is inferred of outputs, their shapes and integers, with what they are."""
        combinations = trial.combinations()
        for how in ("rows", "sizes", "any"):
            combination = combinations[draw.randint(len(combinations))]
            try:
                fault = trial.compare_facts(world, combination, how)
            except Exception as error:
                fault = _of_error(error)
            if fault is not None:
                text = self._told(trial, combination, None, index, f"{world.name}: {fault}")
                self.wrong.setdefault("facts", text)

    def _told(
        self,
        trial: Trial,
        combination: Combination,
        strategy: Strategy | None,
        index: int,
        text: str = "",
    ) -> str:
        """Returns a finding in words, and how to see it again."""
        operation = trial.operation
        inputs = ", ".join(str(operand) for operand in operation.operands)
        lines = [
            f"{self.name}({inputs}) {operation.attributes()}",
            f"  {trial.total} rows; given {short(combination)}",
        ]
        if strategy is not None:
            lines.append(f"  demands {short(strategy.inputs)}, gives {short(strategy.outputs)}")
        if text:
            lines.append(f"  {text}")
        return "\n".join([*lines, f"  {self._again(index)}"])

    def _again(self, index: int) -> str:
        return (
            f"python -m layouts.proof {self.name} --seed {self._seed} --first {index} --examples 1"
        )


def _axes(arguments: Arguments) -> int:
    """Returns how many axes an example's arrays have, without those of one entry."""
    arrays = [value for value in tf.nest.flatten(arguments) if isinstance(value, np.ndarray)]
    return sum(size > 1 for value in arrays for size in value.shape)


def _of_error(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    name = pathlib.Path(place.filename).name
    return f"{type(error).__name__}: {message(error)} ({name}:{place.lineno})"


def kinds_of(strategy: Strategy) -> list[list[str]]:
    """Returns the kinds of a strategy's layouts, by which findings are told apart."""
    return [[layout.kind for layout in own] for own in strategy]


def short(layouts: Sequence[Demand]) -> str:
    """Returns layouts in words that are short."""
    words = []
    for layout in layouts:
        name = layout.op if isinstance(layout, Partial) else layout.kind
        words.append(f"{name}{layout.axis}" if hasattr(layout, "axis") else name)
    return f"({', '.join(words)})"


def main(arguments: Sequence[str]) -> int:
    """Runs the command line; returns the status to exit with."""
    parser = argparse.ArgumentParser(description="Proves rules of layouts by random operations.")
    parser.add_argument("types", nargs="*", help="types of operations, by default all")
    parser.add_argument("--examples", type=int, help="of each type")
    parser.add_argument("--first", type=int, default=0, help="number of the first example")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--missing", action="store_true", help="tell what rules leave whole without a reason"
    )
    options = parser.parse_args(arguments)
    status, begun = 0, time.monotonic()
    asked = 0
    broken: list[str] = []
    chosen = types(options.types, broken)
    for text in broken:
        print("BROKEN", text)
    for name, generators in chosen.items():
        print(name, end=" ", flush=True)
        start = time.monotonic()
        proof = Proof(name, generators, options.seed, options.missing)
        proof.run(options.examples, options.first)
        print(
            f"{proof.asked} asked, {len(proof.wrong)} wrong, {len(proof.missing)} missing,"
            f" {time.monotonic() - start:.2f} s"
        )
        for text in proof.wrong.values():
            print("WRONG", text)
        for kinds in unlisted(name, proof.missing):
            print("MISSING", kinds, proof.missing[kinds])
        status = status or bool(proof.wrong)
        asked += proof.asked
    print(f"{asked} asked, {time.monotonic() - begun:.1f} s")
    return int(status)


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.ERROR)
    sys.exit(main(sys.argv[1:]))
