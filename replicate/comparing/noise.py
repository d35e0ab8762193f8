"""Finds variables that rounding alone moves, such as a bias before batch norm.

The gradient of such a variable is 0 except for rounding. So one device deviates from itself as far
as towers do from it, if the rows of each batch come in another order. The gradient of a loss does
not depend on that order if the loss does not; other state may, such as the last row. So only
trained variables count, their slots and their averages.
"""

from __future__ import annotations

from typing import Any, Mapping

import tensorflow.compat.v1 as tf

from replicate.comparing import runs
from replicate.comparing.batches import Batches
from replicate.comparing.comparison import Comparison
from replicate.comparing.deviations import Deviation, Tally, deviation
from replicate.comparing.task import Task

_SAME = 10.0  # Rounding varies; towers may deviate by so many times what one device does.


def of_one_device(
    asked: Task,
    run: runs.Run,
    values: runs.Store,
    batches: Batches,
    directory: Any,
    coarsest: float,
) -> dict[str, float]:
    """Returns by name how far one device's trained variables deviate with the rows reversed.

    Args:
        asked: The `Task`.
        run: The `Run` of one device, which is finished.
        values: The values of its variables.
        batches: The `Batches`.
        directory: A `pathlib.Path` that does not exist yet.
        coarsest: As in `deviation`.

    Returns:
        The deviations. There are none if the rows cannot be reversed, or if that changes a loss by
        more than rounding: then the order of rows matters to the model.
    """
    turned = batches.in_reverse()
    if turned is None:
        return {}
    tally, model = Tally(asked.tolerance, coarsest, values.largest), runs.one_device_model(asked)
    other = runs.Run(model, asked, directory, run.start)
    trained: set[str] = set()

    def on_values(step: int, got: dict[str, Any]) -> None:
        if not step:
            with tf.convert_to_tensor(model.spec.loss).graph.as_default():
                trained.update(variable.op.name for variable in tf.trainable_variables())
        tally.add(step, got, values.read(step) or {})

    other.train(turned, on_values)
    losses = [
        deviation("the loss", got, want, asked.tolerance, coarsest)
        for got, want in zip(other.losses, run.losses)
    ]
    if len(other.losses) != len(run.losses) or not all(one.passes for one in losses):
        return {}
    # The name of a slot begins with that of its variable.
    return {
        one.what: one.value
        for one in tally.deviations()
        if any(f"{one.what}/".startswith(f"{name}/") for name in trained)
    }


def allowed(made: Comparison, noise: Mapping[str, float]) -> Comparison:
    """Returns a comparison in which variables may deviate as far as one device does from itself.

    Args:
        made: The `Comparison`.
        noise: By name of a variable, how far one device deviates from itself.
    """

    def is_noise(one: Deviation) -> bool:
        here = noise.get(one.what, 0.0)
        return not one.passes and one.tolerance < here and one.value <= _SAME * here

    def with_noise(one: Deviation) -> Deviation:
        if not is_noise(one):
            return one
        return one._replace(tolerance=_SAME * noise[one.what], step=None)

    variables = tuple(map(with_noise, made.variables))
    beyond = [one for one in variables if not one.passes]
    parted = made.parted
    if parted is not None and is_noise(parted):
        parted = min(beyond, key=lambda one: one.step or 0, default=None)
    return made._replace(
        variables=variables,
        checkpoint=tuple(map(with_noise, made.checkpoint)),
        parted=parted,
        noise=tuple(one.what for one in made.variables if is_noise(one)),
    )
