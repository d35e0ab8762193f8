"""Networks behind entries that a batch selects run in towers, as they do on one device."""

import pytest
import tensorflow.compat.v1 as tf

from partition import harness, selected_losses, tables
from partition.harness import ModeKeys
from partition.model_inputs import CASES, F64, STATIC, UNKNOWN, get_variable
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


def _probed(features, labels, mode, params):
    """A model that hooks run parts of: a norm of weights, measured by probes and by noise."""
    w = get_variable("w", [4, 3])
    probes = [tf.tile(tf.eye(4, dtype=F64), [3, 1]), tf.random.normal([9, 4], dtype=F64)]
    seen = [tf.reduce_max(tf.abs(tf.tanh(one @ w) @ tf.transpose(w))) for one in probes]
    tf.group(tf.assign(w, w / tf.maximum(seen[0], seen[1])), name="clip")
    loss = tf.reduce_mean((features["x"] @ w) ** 2) + sum(
        tf.reduce_sum((p @ w) ** 2) for p in probes
    )
    (slope,) = tf.gradients(seen[1], w)
    tf.group(tf.assign_sub(w, 0.1 * slope), name="calm")
    return tables.spec_of(mode, {}, loss, params)


def _adversarial(features, labels, mode, params):
    """Hooks train a critic, and a generator by noise alone, of as many rows as the batch has."""
    x = features["x"]
    noise = tf.random.normal([x.shape[0], 3], dtype=F64)
    w, u, v = (get_variable(name, [size, 4]) for name, size in (("w", 3), ("u", 4), ("v", 4)))
    made = tf.tanh(noise @ w) @ u
    wanted, unwanted, between = (tf.tanh(one @ v) for one in (x, made, x * 0.3 + made * 0.7))
    loss = tf.reduce_mean(unwanted - wanted) + tf.reduce_mean(between**2)
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    tf.group(optimizer.minimize(-tf.reduce_mean(unwanted), var_list=[w, u]), name="generator")
    tf.group(optimizer.minimize(loss, var_list=[v]), name="critic")
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.no_op())


@pytest.mark.parametrize(
    ("model_fn", "name", "batches"),
    [
        (_probed, "clip", STATIC),
        (_probed, "clip", UNKNOWN),
        (_probed, "calm", STATIC),
        (_probed, "calm", UNKNOWN),
        (_adversarial, "generator", STATIC),
    ],
)
def test_what_takes_no_batch_takes_none_in_towers(model_fn, name, batches):
    """Else a hook that runs it would take a batch from the next step."""
    with harness.building(model_fn, batches, 3, ModeKeys.TRAIN) as spec:
        run = ancestors([spec.loss.graph.get_operation_by_name(name)])
    assert {"MatMul", "NoOp"} < {one.type for one in run}
    assert "IteratorGetNext" not in {one.type for one in run}


def _products_that_run_once(name, batches, num_towers):
    built = harness.building(MODELS.models[name], batches, num_towers, ModeKeys.TRAIN)
    with harness.mechanism() as made, built:
        step = made[0].coverage.operations
    once = {one.operation.type for one in step if one.kind != "towers"}
    return once.intersection(MULTIPLIES)
