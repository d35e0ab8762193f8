"""Calls, conditions and loops of TensorFlow 2 run in towers, once they are in graph form."""

from unittest import mock

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
from partition import (
    condition_models,
    function_models,
    harness,
    loop_models,
    model_inputs,
    tables,
)
from partition.harness import ModeKeys
from partition.model_inputs import STATIC, UNKNOWN, UNKNOWN_FIRST
from replicate.layouts import RANDOM
from replicate.partition import drafts
from replicate.partition import model as partition_model

pytestmark = pytest.mark.filterwarnings(
    "ignore:`tf.nn.rnn_cell:UserWarning", "ignore:Converting sparse IndexedSlices:UserWarning"
)
LOSSES = {
    **{f"function_{name}": loss for name, loss in function_models.LOSSES.items()},
    **{f"condition_{name}": loss for name, loss in condition_models.LOSSES.items()},
    **{f"loop_{name}": loss for name, loss in loop_models.LOSSES.items()},
}
MODELS = tables.of_losses_in_new_control_flow(LOSSES)
FUNCTIONS = frozenset(
    ["Case", "If", "PartitionedCall", "StatefulPartitionedCall", "StatelessCase", "StatelessIf"]
    + ["StatelessWhile", "While"]
)
# Their expensive operations.
HEAVY = frozenset(["MatMul", "Tanh", "TanhGrad"])
WHOLE = {
    "function_values_of_two_ranks": "some of what it computes is a number for all rows",
    "function_updated_in_loop": "each round needs what all rows have in common",
    "function_wider_after_a_round": "sizes that a round changes have no formula",
    "condition_loops_in_loops": "a loop over rows is in a branch, and conditions in loops in one",
    "condition_sizes": "sizes that come out of a branch have no formula",
    **{f"loop_{name}": reason for name, reason in loop_models.WHOLE.items()},
}


@pytest.mark.parametrize("num_towers, batches", UNKNOWN_FIRST)
@pytest.mark.parametrize("name", LOSSES)
def test_functions_are_trained(name, num_towers, batches):
    MODELS.check_training(name, batches, num_towers)


@pytest.mark.parametrize("name", ["condition_by_rows", "loop_raw"])
def test_functions_run_once_that_tensorflow_does_not_make_in_the_graph(name):
    models = tables.of_losses_in_new_control_flow({name: LOSSES[name]})
    with mock.patch.object(drafts.Draft, "make", side_effect=ValueError):
        models.check_training(name, UNKNOWN, 3)
        trained = models.in_towers(name, UNKNOWN, 3)
    assert FUNCTIONS.intersection(trained.once.values())


def test_lists_stay_in_towers_behind_a_condition_that_rows_have_decided_before():
    trained = MODELS.in_towers("condition_lists_after_rows", UNKNOWN, 3)
    assert "TensorListFromTensor" in trained.in_towers.values()
    assert "TensorListFromTensor" not in trained.once.values()


@pytest.mark.thorough
@pytest.mark.parametrize("name", LOSSES)
def test_functions_are_evaluated(name):
    MODELS.check_applied(name, UNKNOWN, 3)


# They write in a function, which runs once: a hook may hold it.
WRITE = (
    "function_updated",
    "function_measured",
    "function_branch_that_updates",
    "function_branches_in_functions",
    "condition_statistics",
    "function_kept_for_later",
)


@pytest.mark.parametrize("num_towers, batches", UNKNOWN_FIRST)
@pytest.mark.parametrize("name", [name for name in LOSSES if name not in (*WHOLE, *WRITE)])
def test_functions_run_in_towers(name, num_towers, batches):
    trained = MODELS.in_towers(name, batches, num_towers)
    assert not FUNCTIONS.intersection([*trained.in_towers.values(), *trained.once.values()])
    if name == "loop_arrays" and not batches.static:  # It reads sizes of what it has written.
        return
    assert HEAVY.intersection(trained.in_towers.values())
    assert not (HEAVY | {"LoopCond"}).intersection(trained.once.values())


@pytest.mark.parametrize("num_towers, batches", UNKNOWN_FIRST)
@pytest.mark.parametrize("name", ["loop_rows_of_a_map", "loop_rows_of_a_loop"])
def test_rows_are_split_again_after_a_function_that_runs_once(name, num_towers, batches):
    trained = MODELS.in_towers(name, batches, num_towers)
    assert FUNCTIONS.intersection(trained.once.values()) or "LoopCond" in trained.once.values()
    assert {"MatMul", "Tanh", "TanhGrad"}.isdisjoint(trained.once.values())


@pytest.mark.parametrize("placement", ["consolidation", "round_robin", "replicated"])
@pytest.mark.parametrize("name", ["loop_gru_of_lengths", "function_branch_by_steps"])
def test_functions_take_weights_wherever_they_are(name, placement):
    trained = [harness.trained_where(MODELS.models[name], where) for where in (placement, None)]
    for mine, other in zip(*trained):
        for got, want in zip(mine, other):
            harness.assert_close(got, want, 1e-9, "weight")


def _call(function, *args):
    """Returns what a function gives that is made with TensorFlow 2's behaviour."""
    return tables.of_new_control_flow(lambda: tf.function(function)(*args))()


def test_functions_that_no_row_enters_stay_as_they_are():
    def model_fn(features, labels, mode, params):
        w = model_inputs.get_variable("w", [4, 3], use_resource=True)
        scaled = _call(lambda a: tf.tanh(a) * 2.0, w)
        loss = tf.reduce_mean((features["x"] @ scaled - labels["y"]) ** 2)
        return tables.spec_of(mode, {}, loss, params)

    with harness.mechanism() as made, harness.building(model_fn, STATIC, 3, ModeKeys.TRAIN):
        plan = made[0].plan
    assert any(one.type in FUNCTIONS for one in plan.operations)
    harness.check_training(model_fn, STATIC, 3)


def _model_that_trains_by_a_function(features, labels, mode, params):
    """The function is what trains, and gives the loss, too."""
    w = model_inputs.get_variable("w", [4, 1], use_resource=True)

    def train(x, y):
        loss = tf.reduce_mean((x @ w - y) ** 2)
        w.assign_sub(0.1 * tf.gradients(loss, [w])[0])
        return loss

    loss = _call(train, features["x"], labels["y"])
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=loss.op)


@pytest.mark.parametrize("batches", [STATIC, UNKNOWN], ids=["static", "unknown"])
def test_functions_that_train_do_so_once(batches):
    want = harness.trained(_model_that_trains_by_a_function, batches)
    got = harness.trained(_model_that_trains_by_a_function, batches, 3)
    harness.assert_same(got, want, is_split=False)


def _model_that_drops(features, labels, mode, params):
    w = model_inputs.get_variable("w", [4, 3], use_resource=True)
    hidden = _call(lambda a: tf.nn.dropout(tf.tanh(a @ w), rate=0.4, seed=3), features["x"])
    loss = tf.reduce_mean((hidden - labels["y"]) ** 2)
    return tables.spec_of(mode, {"hidden": hidden}, loss, params)


@pytest.mark.parametrize("batches", [STATIC, UNKNOWN], ids=["static", "unknown"])
def test_functions_draw_the_numbers_of_one_device_where_these_are_drawn_once(batches):
    want = harness.trained(_model_that_drops, batches)
    with mock.patch.object(partition_model.Exact, "runs_once", lambda _, one: one.type in RANDOM):
        got = harness.trained.__wrapped__(_model_that_drops, batches, 3)
    harness.assert_same(got, want)


@pytest.mark.parametrize("batches", [STATIC, UNKNOWN], ids=["static", "unknown"])
def test_towers_draw_numbers_of_their_own_in_functions(batches):
    got = harness.trained(_model_that_drops, batches, 3)
    hidden = got.steps[0]["hidden"]
    dropped = np.mean(hidden == 0.0)
    assert 0.1 < dropped < 0.8
    assert not np.array_equal(hidden[:3] == 0, hidden[4:7] == 0)


def test_what_xla_compiles_stays_whole():
    def model_fn(features, labels, mode, params):
        w = model_inputs.get_variable("w", [4, 3], use_resource=True)
        compiled = _call(lambda a: tf.tanh(a @ w), features["x"])
        compiled.op._set_attr("_XlaMustCompile", tf.AttrValue(b=True))
        return tables.spec_of(mode, {}, tf.reduce_mean((compiled - labels["y"]) ** 2), params)

    with harness.mechanism() as made, harness.building(model_fn, STATIC, 3, ModeKeys.TRAIN):
        plan = made[0].plan
    assert any(one.type in FUNCTIONS for one in plan.operations)


def test_values_of_functions_can_be_asked_for_by_name():
    names = []

    def model_fn(features, labels, mode, params):
        w = model_inputs.get_variable("w", [4, 3], use_resource=True)
        hidden = _call(lambda a: tf.tanh(a @ w), features["x"])
        names[:] = [hidden.name]
        loss = tf.reduce_mean((hidden - labels["y"]) ** 2)
        return tables.spec_of(mode, {"hidden": hidden}, loss, params)

    graph = harness.building(model_fn, STATIC, 3, ModeKeys.EVAL)
    config = harness.session_config(3)
    with harness.mechanism(), graph as spec, tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        got, want = session.run([names[0], spec.predictions["hidden"]])
    harness.assert_close(got, want, 1e-9, "hidden")


def test_a_call_runs_beside_what_takes_its_place():
    """TensorFlow's graph optimizer makes operations of a call, too, and names them after it."""
    model_fn = MODELS.models["function_called"]
    with harness.building(model_fn, UNKNOWN, 3, ModeKeys.TRAIN) as spec:
        graph = tf.get_default_graph()
        calls = [one for one in graph.get_operations() if one.type.endswith("PartitionedCall")]
        called = next(one for one in calls if one.outputs and not one.name.startswith("tower_"))
        # A call that is fetched directly stays a call.
        taken = [tf.identity(tensor) for tensor in called.outputs]
        config = replicate.session_config(contract.device_names(3), graph_options=tf.GraphOptions())
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            session.run([spec.loss, taken])
