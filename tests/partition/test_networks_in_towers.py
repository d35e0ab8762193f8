"""All that is costly of networks as they are trained in earnest runs in towers."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
import selection
from benchmarks import networks
from partition import harness
from replicate.bench import models

CASES = {**models.CASES, **networks.CASES}
COSTLY = ("MatMul", "Conv", "Pool", "FusedBatchNorm", "Softmax", "Einsum", "Relu", "Mean", "Add")
# Operations that initialize or update variables.
OTHERS = ("Initializer", "Apply")

pytestmark = pytest.mark.filterwarnings("ignore:`tf.layers:UserWarning")


def plan_of(name, num_towers, static):
    """Returns the `Plan` of a training step."""
    case = CASES[name]._replace(towers=num_towers, layers=min(CASES[name].layers, 9))
    model_fn = models.make_model_fn(case, models.OPTIMIZERS[case.optimizer])
    draw = np.random.RandomState(0)
    rows = models.MODELS[case.model].rows(case, case.global_batch, draw)
    with harness.mechanism() as made, tf.Graph().as_default():
        tf.train.get_or_create_global_step()
        features, labels = tf.nest.map_structure(
            lambda one: tf.placeholder(one.dtype, [len(one) if static else None, *one.shape[1:]]),
            rows,
        )
        devices = contract.device_names(num_towers)
        replicate.replicate_model_fn(model_fn, devices=devices)(features, labels, "train", {})
    return made[0].plan


@pytest.mark.parametrize(
    "static", [selection.cell(True, is_quick=False, id="static"), pytest.param(False, id="unknown")]
)
@pytest.mark.parametrize("name", ["resnet50", "mobilenet_v2", "bert", "wide", "cnn"])
def test_costly_operations_run_in_towers(name, static):
    plan = plan_of(name, 4, static)
    copied = set(plan.copied)
    once = [
        f"{operation.type} {operation.name}"
        for operation in plan.operations
        if operation not in copied
        and any(kind in operation.type for kind in COSTLY)
        and any((tensor.shape.rank or 0) > 1 for tensor in operation.outputs)
        and not any(kind in operation.name + operation.type for kind in OTHERS)
    ]
    assert once == []
    assert sum("MatMul" in one.type or "Conv" in one.type for one in copied) > 2


@pytest.mark.conformance
@pytest.mark.parametrize("static", [True, False], ids=["static", "unknown"])
def test_a_network_behind_a_loop_over_rows_runs_in_towers(static):
    def model_fn(features, labels, mode):
        hidden = features @ tf.get_variable("first", [4, 3])
        rows = tf.map_fn(lambda row: row - tf.reduce_mean(row), hidden)
        loss = tf.reduce_mean(tf.tanh(rows @ tf.get_variable("second", [3, 3])))
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        train_op = optimizer.minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with harness.mechanism() as made, tf.Graph().as_default():
        tf.train.create_global_step()
        rows = tf.placeholder(tf.float32, [7 if static else None, 4])
        devices = contract.device_names(3)
        replicate.replicate_model_fn(model_fn, devices=devices)(rows, None, mode="train")
    plan = made[0].plan
    products = {one for one in plan.operations if one.type == "MatMul"}
    assert len(products) >= 5
    assert products <= {*plan.copied}
