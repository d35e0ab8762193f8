"""Conditions of TensorFlow 1 run in towers, which all take the branch that one device takes."""

import pytest

from partition import condition_models, harness, tables
from partition.harness import ModeKeys
from partition.model_inputs import STATIC, UNKNOWN, UNKNOWN_FIRST

MODELS = tables.of_losses_in_old_control_flow(condition_models.LOSSES)


@pytest.mark.parametrize("num_towers, batches", UNKNOWN_FIRST)
@pytest.mark.parametrize("name", condition_models.LOSSES)
def test_conditions_are_trained(name, num_towers, batches):
    MODELS.check_training(name, batches, num_towers)


@pytest.mark.parametrize("name", condition_models.LOSSES)
def test_conditions_are_evaluated(name):
    MODELS.check_applied(name, UNKNOWN, 3)


@pytest.mark.parametrize("batches", [STATIC, UNKNOWN], ids=["static", "unknown"])
@pytest.mark.parametrize("name", ["by_rows", "by_steps", "nested", "losses"])
def test_branches_run_in_towers(name, batches):
    model_fn = MODELS.models[name]
    with harness.mechanism() as made, harness.building(model_fn, batches, 3, ModeKeys.TRAIN):
        plan = made[0].plan
    with_rows = {one for one in plan.operations if one.type in ("MatMul", "Tanh", "Relu", "Abs")}
    assert with_rows.issubset(plan.copied)
    merged = plan.operations[0].graph.get_operation_by_name("cond/Merge")
    assert (merged in plan.copied) == (name != "losses")
    assert any(one.type == "Switch" for one in plan.copied)
