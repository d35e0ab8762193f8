"""Random programs in towers are what they are on one device."""

from __future__ import annotations

import random

import pytest
import tensorflow.compat.v1 as tf

import selection
from partition import fuzz, fuzz_generate, fuzz_run, fuzz_shrink
from partition.fuzz_program import TYPES, describe, model

pytestmark = pytest.mark.conformance

GRAPHS, CHUNK = 200, 10
# Each TensorFlow tries others of these in `make test-all`, and all of them in `make test-thorough`.
_RUNNING = ".".join(tf.__version__.split(".")[:2])
_QUICK = {"1.15": (3,), "2.15": (0, 1, 2)}.get(_RUNNING, (4,))
NIGHTLY, NIGHTLY_CHUNK = 3_000, 100
_OTHERS = random.SystemRandom().randrange(10**6, 10**9)  # A failure names its seed.


def check(seeds: range) -> None:
    found = fuzz.search(seeds)
    if found.failures:
        pytest.fail(fuzz.report(found.failures[0], seconds=60), pytrace=False)
    # Older TensorFlows refuse some programs on one device, too.
    assert found.kinds[fuzz_run.OK] >= len(seeds) / 2


@pytest.mark.parametrize(
    "first",
    [
        selection.cell(index * CHUNK, is_quick=index % 5 in _QUICK)
        for index in range(GRAPHS // CHUNK)
    ],
)
def test_programs_are_those_of_one_device(first: int) -> None:
    """The same ones every time."""
    check(range(first, first + CHUNK))


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(0, NIGHTLY, NIGHTLY_CHUNK))
def test_other_programs_are_those_of_one_device(first: int) -> None:
    """Others every time."""
    check(range(_OTHERS + first, _OTHERS + first + NIGHTLY_CHUNK))


def test_a_seed_decides_a_program() -> None:
    """So a failure can be reproduced."""
    texts = {describe(fuzz_generate.generate(seed)) for seed in range(20)}
    assert texts == {describe(fuzz_generate.generate(seed)) for seed in range(20)}
    assert len(texts) == 20


def test_programs_are_of_all_types_and_some_have_nan() -> None:
    programs = [fuzz_generate.generate(seed) for seed in range(300)]
    assert {program.dtype for program in programs} == set(TYPES)
    assert sum(program.setting.has_nan for program in programs) > 10
    assert sum(bool(p.train and p.train.loss_scale) for p in programs) > 10


def test_a_failure_is_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that fails for one operation becomes few lines."""
    outcome = fuzz_run.Outcome(fuzz_run.FAILED, "step 0")
    fine = fuzz_run.Outcome(fuzz_run.OK)
    monkeypatch.setattr(
        fuzz_run, "check", lambda program: outcome if "tf.transpose(" in model(program) else fine
    )
    seed = next(
        seed for seed in range(100) if "tf.transpose(" in model(fuzz_generate.generate(seed))
    )
    small = fuzz_shrink.shrink(fuzz_generate.generate(seed), "step 0")
    assert len(small.body) <= 3
