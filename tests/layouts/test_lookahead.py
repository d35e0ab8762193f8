"""Values that no row leads to are in towers only if they may be combined with rows."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

import pytest
import tensorflow.compat.v1 as tf

from replicate.layouts import Source, infer
from replicate.layouts.one_pass import Pass

N = 8


def ones() -> Any:
    """Returns as many ones as the batch has rows."""
    return tf.fill([N, 4], 1.0)


def noisy(batch: Any) -> Any:
    return batch * tf.random.normal([N, 4])


def noisy_later(batch: Any) -> Any:
    return batch + tf.exp(tf.transpose(tf.transpose(ones())) * 2.0)


def reshaped(batch: Any) -> Any:
    return tf.reshape(batch, [N * 4]) + tf.reshape(ones(), [N * 4])


def counted(batch: Any) -> Any:
    """Divides by the number of values, which are counted as `tf.losses` does."""
    return tf.reduce_sum(batch) / tf.reduce_sum(ones() * 2.0)


def initialised(batch: Any) -> Any:
    """Takes a variable whose initial values are as many as the rows."""
    return tf.matmul(batch, tf.get_variable("weights", initializer=tf.transpose(ones())))


CASES = [(noisy, 1), (noisy_later, 1), (reshaped, 1), (counted, 0), (initialised, 0)]


class Run(NamedTuple):
    """An inference: its operations in towers, its steps, and how many operations there are."""

    in_towers: list[Any]
    steps: int
    operations: int


def run(model: Callable[[Any], Any], patch: pytest.MonkeyPatch) -> Run:
    steps: list[Any] = []
    one_step = Pass.run
    patch.setattr(Pass, "run", lambda self, step: steps.append(step) or one_step(self, step))
    with tf.Graph().as_default() as graph:
        batch = tf.placeholder(tf.float32, [N, 4])
        model(batch)
        operations = graph.get_operations()
        found = infer(operations, [Source(batch, 0)], N)
    return Run(list(found.strategies), len(steps), len(operations))


@pytest.mark.parametrize(("model", "begun"), CASES)
def test_values_are_in_towers_if_they_may_be_combined_with_rows(model, begun, monkeypatch):
    kinds = [one.type for one in run(model, monkeypatch).in_towers]
    assert kinds.count("Fill") + kinds.count("RandomStandardNormal") == begun


@pytest.mark.parametrize("model", [model for model, _ in CASES])
def test_inference_never_steps_back(model, monkeypatch):
    found = run(model, monkeypatch)
    assert found.steps == found.operations
