"""Conditions of TensorFlow 1 run in towers, which all take the branch that one device takes."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from partition import condition_models, harness, tables
from partition.harness import ModeKeys
from partition.model_inputs import STATIC, UNKNOWN, UNKNOWN_FIRST, get_variable

pytestmark = pytest.mark.filterwarnings("ignore:`tf.nn.rnn_cell:UserWarning")
MODELS = tables.of_losses_in_old_control_flow(condition_models.LOSSES)


@pytest.mark.parametrize("num_towers, batches", UNKNOWN_FIRST)
@pytest.mark.parametrize("name", condition_models.LOSSES)
def test_conditions_are_trained(name, num_towers, batches):
    MODELS.check_training(name, batches, num_towers)


@pytest.mark.thorough
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


@pytest.mark.parametrize("batches", [STATIC, UNKNOWN], ids=["static", "unknown"])
@pytest.mark.parametrize("name", ["recurrences", "normalisers", "loops_in_loops"])
def test_loops_in_branches_run_in_towers(name, batches):
    model_fn = MODELS.models[name]
    with harness.mechanism() as made, harness.building(model_fn, batches, 3, ModeKeys.TRAIN):
        plan = made[0].plan
    ends = [one for one in plan.operations if one.type == "LoopCond"]
    in_towers = [one for one in ends if one in plan.copied]
    # A loop over rows, whose array is made in the branch, runs once, and so does its gradient.
    assert len(in_towers) == len(ends) - 2 * (name == "loops_in_loops") > 1


def _in_a_branch(features, labels, mode, params):
    """Runs a loop with as many rounds as a size, which waits for the round in TensorFlow 1."""
    x = features["x"]

    def around():
        return tf.while_loop(lambda i, _: i < tf.size(x), lambda i, a: (i + 9, a * 0.9), (0, x))[1]

    made = tf.identity(tf.cond(tf.size(x) > 5, around, lambda: -x), "made")
    loss = tf.reduce_mean(tf.tanh(made)) * tf.reduce_sum(get_variable("w", [1, 1]))
    return tables.spec_of(mode, {}, loss, params)


def test_a_loop_in_a_branch_is_fetched_by_name():
    fetched = []
    for num_towers in (1, 3):
        model_fn = tables.of_old_control_flow(_in_a_branch)
        graph = harness.building(model_fn, UNKNOWN, num_towers, ModeKeys.TRAIN)
        with graph, tf.Session(config=harness.session_config(num_towers)) as session:
            fetched.append(session.run("made:0"))
    np.testing.assert_array_equal(*fetched)
