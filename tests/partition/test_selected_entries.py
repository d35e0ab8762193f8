"""Networks behind entries that a batch selects run in towers, as they do on one device."""

import pytest

from partition import harness, selected_losses, tables
from partition.harness import ModeKeys
from partition.model_inputs import CASES, STATIC, UNKNOWN
from replicate.layouts import MULTIPLIES

# TensorFlow 1.15 says this of `tf.gather`, on one device, too.
pytestmark = pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices:UserWarning")
MODELS = tables.Table({name: tables.of_loss(loss) for name, loss in selected_losses.LOSSES.items()})


@pytest.mark.parametrize("num_towers, batches", CASES)
@pytest.mark.parametrize("name", selected_losses.LOSSES)
def test_networks_behind_them_are_trained(name, num_towers, batches):
    MODELS.check_training(name, batches, num_towers)


@pytest.mark.parametrize("batches", [STATIC, UNKNOWN], ids=["static", "unknown"])
@pytest.mark.parametrize("name", selected_losses.LOSSES)
def test_their_products_run_in_towers(name, batches):
    once = _products_that_run_once(name, batches, 3)
    # A tower may have none of an unknown number, and kernels of convolutions need one.
    assert not batches.static or not once
    assert not [one for one in once if not one.startswith("Conv2D")]


def test_fewer_entries_than_towers_stay_together():
    assert _products_that_run_once("worst", STATIC, 4) == set()
    assert _products_that_run_once("worst", STATIC, 5) == {"MatMul"}


def _products_that_run_once(name, batches, num_towers):
    model_fn = MODELS.models[name]
    built = harness.building(model_fn, batches, num_towers, ModeKeys.TRAIN)
    with harness.mechanism() as made, built:
        plan = made[0].plan
    strategies = plan.layouts.strategies
    once = [one for one in plan.operations if one not in strategies]
    return {one.type for one in once if one.type in MULTIPLIES}
