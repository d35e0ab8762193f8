"""The proof of rules that know indices: small graphs, on one device and in towers.

    python -m layouts.pointing_proof                    all types, from the folder of tests
    python -m layouts.pointing_proof Where Gather --examples 50 --seed 3

A case makes a graph of a random batch, with an operation of a type in it. Layouts are inferred, and
the graph is partitioned, as models are. Then all that it computes, put together, is compared with
what one device gives.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
import zlib
from typing import Any, Iterator, Sequence
from unittest import mock

import numpy as np
import tensorflow.compat.v1 as tf

from layouts import parts
from layouts.operations import message
from layouts.pointing_batch import Batch
from layouts.pointing_cases import Case, cases_of
from replicate.layouts import ragged
from replicate.layouts.layout import Strategy
from replicate.partition.build import partition
from replicate.partition.placement import Placement

WITHIN = 1e-9


def types(names: Sequence[str] = ()) -> dict[str, list[Case]]:
    """Returns the cases of types that the running TensorFlow has."""
    known = cases_of()
    return {name: known[name] for name in sorted(names or known) if hasattr(tf.raw_ops, name)}


class Proof:
    """The proof of the rule of a type.

    Args:
        name: The type.
        cases: Its cases.
        seed: Of the random examples.

    Attributes:
        said: How many strategies the rule gave by which towers ran an operation.
        wrong: What is wrong.
    """

    def __init__(self, name: str, cases: Sequence[Case], seed: int = 0) -> None:
        self.name = name
        self.said = 0
        self.wrong: list[str] = []
        self._cases = cases
        self._seed = seed

    def run(self, examples: int, first: int = 0) -> Proof:
        """Tries examples; returns itself."""
        for index in range(first, first + examples):
            draw = np.random.RandomState(zlib.crc32(f"{self.name} {self._seed} {index}".encode()))
            # In turn all cases, each with an unknown number of rows, then with a known one.
            case = self._cases[index // 2 % len(self._cases)]
            fault = self._example(case, draw, bool(index % 2))
            if fault is not None:
                again = f"--seed {self._seed} --first {index} --examples 1"
                self.wrong.append(
                    f"{self.name} in {case.__name__}: {fault}\n"
                    f"  python -m layouts.pointing_proof {self.name} {again}"
                )
        return self

    def _example(self, case: Case, draw: np.random.RandomState, is_static: bool) -> str | None:
        with tf.Graph().as_default() as graph:
            batch = Batch(draw, draw.randint(2, 4), is_static)
            case(batch, self.name)
            operations = graph.get_operations()
            asked = [
                tensor
                for operation in operations
                if operation.type not in ("Placeholder", "Const")
                for tensor in operation.outputs
            ]
            definition = graph.as_graph_def()
            try:
                with _heard(self.name) as strategies:
                    rows, shards = batch.split()
                    made = partition(
                        batch.sources, shards, rows, _placement(batch), operations, asked
                    )
            except ValueError as error:  # Of shapes that do not fit.
                return f"{_told(batch)}: {error}"
            copied = made.plan.layouts.strategies
            self.said += sum(copied.get(one) == strategy for one, strategy in strategies)
            feeds = batch.feeds()
            towers = _run(graph, [made.whole(tensor).name for tensor in asked], feeds)
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(definition, name="")
            one = _run(graph, [tensor.name for tensor in asked], feeds)
        for step, (got, want) in enumerate(zip(towers, one)):
            if isinstance(want, str):
                continue  # As of a batch without rows, which one device refuses, too.
            where = f"{_told(batch)}, step {step}"
            if isinstance(got, str):
                return f"{where}: {got}"
            for tensor, a, b in zip(asked, got, want):
                if not parts.same(np.asarray(a), np.asarray(b), WITHIN):
                    layout = made.plan.layouts.layout_of(tensor)
                    return f"{where}, {tensor.name}, {layout}: {a} for {b}"
        return None


@contextlib.contextmanager
def _heard(name: str) -> Iterator[list[tuple[Any, Strategy]]]:
    """Collects what the rule of a type says."""
    said: list[tuple[Any, Strategy]] = []
    look_up = ragged.pointing_rule_of

    def listen(asked: str) -> Any:
        rule = look_up(asked)
        if rule is None or asked != name:
            return rule

        def heard(op: Any, layouts: Any) -> Strategy | None:
            found = rule(op, layouts)
            if found is not None:
                said.append((op.operation, found))
            return found

        return heard

    with mock.patch.object(ragged, "pointing_rule_of", listen):
        yield said


def _told(batch: Batch) -> str:
    kind = "known" if batch.is_static else "unknown"
    return f"{kind} rows {[step.counts for step in batch.steps]}"


def _placement(batch: Batch) -> Placement:
    return Placement(tuple(f"/cpu:{index}" for index in range(batch.towers)), "/cpu:0")


def _run(
    graph: Any, fetches: Sequence[str], feeds: Sequence[dict[Any, Any]]
) -> list[list[Any] | str]:
    """Returns what is fetched in each step, or what an error says."""
    config = tf.ConfigProto(
        device_count={"CPU": 3}, inter_op_parallelism_threads=1, intra_op_parallelism_threads=1
    )
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    names = {operation.name for operation in graph.get_operations()}
    made: list[list[Any] | str] = []
    with tf.Session(graph=graph, config=config) as session:
        for feed in feeds:
            fed = {key.name: value for key, value in feed.items() if key.op.name in names}
            try:
                made.append(session.run(fetches, fed))
            except tf.errors.OpError as error:
                made.append(message(error))
    return made


def main(arguments: Sequence[str]) -> int:
    """Runs the command line; returns the status to exit with."""
    parser = argparse.ArgumentParser(description="Proves rules that know indices.")
    parser.add_argument("types", nargs="*", help="types of operations, by default all")
    parser.add_argument("--examples", type=int, default=8, help="of each type")
    parser.add_argument("--first", type=int, default=0, help="number of the first example")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    status = 0
    for name, own in types(options.types).items():
        start = time.monotonic()
        proof = Proof(name, own, options.seed).run(options.examples, options.first)
        print(
            f"{name} {proof.said} said, {len(proof.wrong)} wrong, {time.monotonic() - start:.2f} s"
        )
        for text in proof.wrong:
            print("WRONG", text)
        status = status or bool(proof.wrong)
    return int(status)


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.ERROR)
    sys.exit(main(sys.argv[1:]))
