"""Gradients and updates that are written by hand are as on one device."""

import pytest

from partition import gradient_models, tables, updating_models
from partition.harness import CASES

GRADIENTS = tables.Table(
    {name: gradient_models.model_of(update) for name, update in gradient_models.UPDATES.items()}
)
UPDATES = tables.Table(
    {name: gradient_models.model_of(update) for name, update in updating_models.UPDATES.items()}
)


@pytest.mark.parametrize("num_towers, batches", CASES)
@pytest.mark.parametrize("name", gradient_models.UPDATES)
def test_gradients_by_hand(name, num_towers, batches):
    GRADIENTS.check_training(name, batches, num_towers)


@pytest.mark.parametrize("num_towers, batches", CASES)
@pytest.mark.parametrize("name", updating_models.UPDATES)
def test_updates_by_hand(name, num_towers, batches):
    UPDATES.check_training(name, batches, num_towers)
