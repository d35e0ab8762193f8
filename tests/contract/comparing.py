"""Comparisons with one device, elementwise and step by step."""

import numpy as np

from contract.harness import MEAN, record_one_device, record_towers


def assert_close(got, want, rtol, name=""):
    """Compares elementwise, relative to each element, or to the largest where values cancel."""
    want = np.asarray(want)
    if not np.issubdtype(want.dtype, np.inexact):
        np.testing.assert_array_equal(got, want, err_msg=name)
        return
    scale = np.max(np.abs(want), initial=0.0)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * scale, err_msg=name)


def assert_same_values(got, want, rtol, ignore=(), step=None):
    """Compares two dictionaries of arrays: the same names, close values."""
    assert sorted(got) == sorted(want)
    for name in set(want) - set(ignore):
        assert_close(got[name], want[name], rtol, f"{name} after step {step}")


def assert_same_run(got, want, rtol=1e-9, ignore=()):
    """Compares two `Run`s, step by step."""
    assert len(got.losses) == len(want.losses) > 0
    for step, (loss, expected) in enumerate(zip(got.losses, want.losses)):
        assert_close(loss, expected, rtol, f"loss of step {step}")
        assert_same_values(got.variables[step], want.variables[step], rtol, ignore, step)


def check(row, num_towers, batches=None, optimizer="sgd", reduction=MEAN, **kwargs):
    """Asserts that a row of the table trains on towers as on one device, step by step.

    Args:
        row: The `contract.models.Model`.
        num_towers: N.
        batches: What to train on. None: what the row says.
        optimizer: A key of `OPTIMIZERS`.
        reduction: How the loss is made from the rows' losses.
        **kwargs: More of what `record_towers` takes.
    """
    batches = batches or row.batches
    want = record_one_device(row.fn, batches, optimizer, reduction)
    got = record_towers(row.fn, batches, num_towers, optimizer, reduction, **kwargs)
    assert len(want.losses) == batches.steps
    assert_same_run(got, want, row.rtol)
