"""Networks behind entries that a batch selects run in towers, as they do on one device."""

import pytest
import tensorflow.compat.v1 as tf

from partition import harness, selected_losses, tables
from partition.harness import ModeKeys
from partition.model_inputs import CASES, STATIC, UNKNOWN
from replicate.graphs import ancestors
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


@pytest.mark.parametrize("batches", [STATIC, UNKNOWN], ids=["static", "unknown"])
def test_initial_values_take_no_batch(batches):
    model_fn = MODELS.models["begun_with_a_product"]
    with harness.building(model_fn, batches, 3, ModeKeys.TRAIN):
        run = ancestors([tf.global_variables_initializer()])
    assert {"MatMul", "RandomStandardNormal"} < {one.type for one in run}
    assert "IteratorGetNext" not in {one.type for one in run}


def _products_that_run_once(name, batches, num_towers):
    built = harness.building(MODELS.models[name], batches, num_towers, ModeKeys.TRAIN)
    with harness.mechanism() as made, built:
        step = made[0].coverage.operations
    once = {one.operation.type for one in step if one.kind != "towers"}
    return once.intersection(MULTIPLIES)
