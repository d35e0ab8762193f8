"""Losses of every kind, of rows and of what a batch has in common, are as on one device."""

import pytest

from partition import batch_losses, row_losses, tables
from partition.harness import CASES, UNKNOWN

ROWS = tables.of_losses(row_losses.LOSSES)
BATCHES = tables.of_losses(batch_losses.LOSSES)


@pytest.mark.parametrize("num_towers, batches", CASES)
@pytest.mark.parametrize("name", row_losses.LOSSES)
def test_losses_of_rows_are_trained(name, num_towers, batches):
    ROWS.check_training(name, batches, num_towers)


@pytest.mark.parametrize("num_towers, batches", CASES)
@pytest.mark.parametrize("name", batch_losses.LOSSES)
def test_losses_of_a_batch_are_trained(name, num_towers, batches):
    BATCHES.check_training(name, batches, num_towers)


@pytest.mark.parametrize("name", batch_losses.LOSSES)
def test_losses_of_a_batch_are_evaluated(name):
    BATCHES.check_applied(name, UNKNOWN, 3)
