"""All that is costly of networks as they are trained in earnest runs in towers."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
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


@pytest.mark.parametrize("static", [True, False], ids=["static", "unknown"])
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
