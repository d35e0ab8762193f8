"""Loops of TensorFlow 1 run in towers, each of which goes round for itself, where they can."""

import pytest

from partition import harness, loop_models, tables
from partition.harness import ModeKeys
from partition.model_inputs import STATIC, UNKNOWN, UNKNOWN_FIRST

pytestmark = pytest.mark.filterwarnings(
    "ignore:`tf.nn.rnn_cell:UserWarning", "ignore:Converting sparse IndexedSlices:UserWarning"
)
MODELS = tables.of_losses_in_old_control_flow(loop_models.LOSSES)


@pytest.mark.parametrize("num_towers, batches", UNKNOWN_FIRST)
@pytest.mark.parametrize("name", loop_models.LOSSES)
def test_loops_are_trained(name, num_towers, batches):
    MODELS.check_training(name, batches, num_towers)


@pytest.mark.parametrize("batches", [STATIC, UNKNOWN], ids=["static", "unknown"])
@pytest.mark.parametrize("name", loop_models.LOSSES)
def test_loops_run_in_towers(name, batches):
    model_fn = MODELS.models[name]
    with harness.mechanism() as made, harness.building(model_fn, batches, 3, ModeKeys.TRAIN):
        plan = made[0].plan
    loops = {one for one in plan.operations if one.type == "LoopCond"}
    in_towers = loops.intersection(plan.copied)
    is_whole = name in loop_models.WHOLE
    is_whole |= name in loop_models.WHOLE_IF_UNKNOWN and not batches.static
    assert loops and in_towers == (set() if is_whole else loops)


@pytest.mark.thorough
@pytest.mark.parametrize("name", loop_models.LOSSES)
def test_loops_are_evaluated(name):
    MODELS.check_applied(name, UNKNOWN, 3)


@pytest.mark.parametrize("placement", ["consolidation", "round_robin", "replicated"])
def test_loops_take_weights_wherever_they_are(placement):
    model_fn = MODELS.models["gru_of_lengths"]
    trained = [harness.trained_where(model_fn, where) for where in (placement, None)]
    for mine, other in zip(*trained):
        for got, want in zip(mine, other):
            harness.assert_close(got, want, 1e-9, "weight")
