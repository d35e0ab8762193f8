"""Gradients and updates that are written by hand are as on one device."""

import pytest

from partition import changed_gradients, gradient_models, state_models, tables, updating_models
from partition.model_inputs import UNKNOWN_FIRST


def _table(*functions):
    """Returns the `Table` of functions of a step."""
    updates = {name: update for group in functions for name, update in group.items()}
    return tables.Table({name: gradient_models.model_of(f) for name, f in updates.items()})


GRADIENTS = _table(gradient_models.UPDATES, changed_gradients.UPDATES)
UPDATES = _table(updating_models.UPDATES, state_models.UPDATES)


@pytest.mark.parametrize("num_towers, batches", UNKNOWN_FIRST)
@pytest.mark.parametrize("name", GRADIENTS.models)
def test_gradients_by_hand(name, num_towers, batches):
    GRADIENTS.check_training(name, batches, num_towers)


@pytest.mark.parametrize("num_towers, batches", UNKNOWN_FIRST)
@pytest.mark.parametrize("name", UPDATES.models)
def test_updates_by_hand(name, num_towers, batches):
    UPDATES.check_training(name, batches, num_towers)
