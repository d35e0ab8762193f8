"""NaN and infinity in one row of the batch reach the values that they reach on one device."""

import functools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
import selection
from contract import models

SPOILED = 1  # The batch that has the row; the one before is finite.


def spoiled(batches, value):
    """Returns the dataset of `batches`, with `value` in a row that the last tower has."""
    features, labels = contract.rows_of(batches.total)
    last = (SPOILED + 1) * batches.size - 1
    features["x"][last, 1] = value
    return tf.data.Dataset.from_tensor_slices((features, labels)).batch(batches.size)


def assert_same(got, want, name):
    """Compares values; those that are not finite must be equal."""
    want = np.asarray(want)
    if np.issubdtype(want.dtype, np.inexact):
        scale = np.abs(want[np.isfinite(want)]).max(initial=0.0)
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9 * scale, err_msg=name)
    else:
        np.testing.assert_array_equal(got, want, err_msg=name)


# Those in float32 round more, and `check_finite` ends with an error that has a test of its own.
MODELS = [name for name, row in models.rows("way").items() if row.rtol <= 1e-9]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("model", "value"),
    [
        selection.cell(model, value, is_quick=selection.on_diagonal(row, column, 2))
        for row, model in enumerate(MODELS)
        for column, value in enumerate([np.nan, np.inf])
    ],
)
def test_what_is_not_finite_reaches_the_same_values(model, value):
    row = models.TABLE[model]
    input_fn = functools.partial(spoiled, contract.UNEVEN, value)
    want = contract.record(row.fn, input_fn, contract.make_params())
    params = contract.make_params(wrap=replicate.TowerOptimizer)
    got = contract.record(contract.replicated(row.fn, 3), input_fn, params, 3)
    assert len(want.losses) == len(got.losses) == contract.UNEVEN.steps
    for step, (expected, loss) in enumerate(zip(want.losses, got.losses)):
        assert_same(loss, expected, f"loss of step {step}")
        for name, value in want.variables[step].items():
            assert_same(got.variables[step][name], value, f"{name} after step {step}")
    spoilt = [value for value in want.variables[-1].values() if not np.all(np.isfinite(value))]
    assert spoilt, "no variable depends on the row"
