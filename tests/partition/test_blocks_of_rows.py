"""Axes that have all rows several times are in towers as they are on one device."""

import pytest

from partition import block_losses, harness, tables
from partition.harness import ModeKeys
from partition.model_inputs import CASES, STATIC, UNKNOWN

MODELS = tables.Table({name: tables.of_loss(loss) for name, loss in block_losses.LOSSES.items()})


@pytest.mark.parametrize("num_towers, batches", CASES)
@pytest.mark.parametrize("name", block_losses.LOSSES)
def test_blocks_are_trained(name, num_towers, batches):
    MODELS.check_training(name, batches, num_towers)


@pytest.mark.parametrize("batches", [STATIC, UNKNOWN], ids=["static", "unknown"])
@pytest.mark.parametrize("name", block_losses.LOSSES)
def test_their_products_run_in_towers(name, batches):
    model_fn = MODELS.models[name]
    with harness.mechanism() as made, harness.building(model_fn, batches, 3, ModeKeys.TRAIN):
        plan = made[0].plan
    products = {one for one in plan.operations if one.type in ("MatMul", "Tanh")}
    assert products - set(plan.copied) == set()
