"""Training and evaluating over towers leaves no graph, no tower and no thread in the process.

How much memory that is in the end is measured by `soak/test_soak.py`.
"""

import contextlib
import gc
import json
import weakref

import pytest
import tensorflow.compat.v1 as tf

import replicate
from bodies import EVAL, PREDICT, TRAIN, build, control_flow, spec
from replicate.partition import Program
from soak import long_training


@pytest.fixture(scope="module", autouse=True)
def only_new_objects():
    """Lets the garbage collector see only objects that these tests make, of millions."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def programs():
    """Returns the ids of the programs of towers of graphs that are not collected."""
    gc.collect()
    return {id(each) for each in gc.get_objects() if isinstance(each, Program)}


def test_an_estimator_leaves_no_graph_no_tower_and_no_thread(tmp_path, capsys):
    before = programs()
    long_training.main("towers", "rounds", 2, str(tmp_path))
    start, *rounds = map(json.loads, capsys.readouterr().out.splitlines())
    assert [look["graphs"] for look in rounds] == [0, 0]
    # TensorFlow keeps the files of events, one of training and one of evaluation, open.
    assert len(rounds[1]["files"]) == len(rounds[0]["files"])
    names = [name for look in rounds for name in look["threads"] if name not in start["threads"]]
    assert set(names) <= {"EventLoggerThread"}
    assert programs() <= before


def _trains(index, features):
    weight = tf.get_variable("weight", [], initializer=tf.ones_initializer())
    loss = tf.reduce_mean(replicate.cross_tower_mean(features)) * weight
    optimizer = replicate.TowerOptimizer(tf.train.AdamOptimizer(0.1))
    grads_and_vars = optimizer.compute_gradients(loss, [weight])
    return spec(TRAIN, loss, optimizer.apply_gradients(grads_and_vars))


def _measures(index, features):
    metrics = {"mean": tf.metrics.mean(features), "auc": tf.metrics.auc(features > 0, features)}
    return spec(EVAL, tf.reduce_mean(features), eval_metric_ops=metrics)


def _predicts(index, features):
    part = replicate.merge_call(lambda own: replicate.PerTower(own), tf.reduce_sum(features))
    return tf.estimator.EstimatorSpec(PREDICT, {"y": features * part + tf.to_float(index)})


def _fails(index, features):
    with tf.GradientTape() as tape:
        weight = tf.get_variable("weight", [])
        loss = replicate.cross_tower_sum(tf.reduce_mean(features)) * weight
    tape.gradient(loss, weight)
    raise ArithmeticError


def _loops(index, features):
    """In TensorFlow 2, the loop stores its results for the gradient in lists of tensors."""
    weight = tf.get_variable("weight", [], initializer=tf.ones_initializer())
    with control_flow(2):
        last = tf.while_loop(
            lambda round, _: round < 3,
            lambda round, value: (round + 1, tf.tanh(value * weight)),
            [0, features],
        )[1]
        optimizer = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.1))
        train_op = optimizer.minimize(tf.reduce_mean(last))
    return spec(TRAIN, tf.reduce_mean(last), train_op)


MODELS = {
    TRAIN: _trains,
    EVAL: _measures,
    PREDICT: _predicts,
    "failing": _fails,
    "loop": _loops,
}
MODES = {"failing": TRAIN, "loop": TRAIN}


@pytest.mark.parametrize("per_tower", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("mode", list(MODELS))
def test_a_graph_goes_with_its_towers(mode, per_tower):
    before = programs()

    def alive():
        kept = []

        def body(index, features):
            kept.append(weakref.ref(features.op))
            return MODELS[mode](index, features)

        with tf.Graph().as_default() as graph:
            with contextlib.suppress(ArithmeticError):
                build(
                    body,
                    mode=MODES.get(mode, mode),
                    num_towers=3,
                    per_tower=per_tower,
                )
            return [weakref.ref(graph), *kept]

    references = alive()
    assert len(references) == 2
    assert programs() <= before
    assert [reference() for reference in references] == [None, None]


@pytest.mark.parametrize("num_towers", [pytest.param(1, marks=pytest.mark.thorough), 2])
@pytest.mark.parametrize(
    "kwargs",
    [
        pytest.param({}, marks=pytest.mark.thorough),
        {"loss_scale": "dynamic", "accumulate_steps": 2},
    ],
)
def test_an_optimizer_that_outlives_graphs_keeps_none(kwargs, num_towers):
    optimizer = replicate.TowerOptimizer(lambda: tf.train.AdamOptimizer(0.1), **kwargs)
    assert graphs_alive(optimizer, num_towers) == [False, False]


def test_a_dynamic_loss_scale_keeps_no_graph():
    optimizer = replicate.TowerOptimizer(
        tf.train.GradientDescentOptimizer(0.1), loss_scale="dynamic"
    )
    # TensorFlow's optimizer holds a tensor of the last graph.
    assert graphs_alive(optimizer, 2) == [False, True]


def graphs_alive(optimizer, num_towers):
    """Trains two graphs with an optimizer; returns which of them are still there after that."""

    def body(index, features):
        weight = tf.get_variable("weight", [], initializer=tf.ones_initializer())
        loss = tf.reduce_mean(features) * weight
        return spec(TRAIN, loss, optimizer.minimize(loss, tf.train.get_global_step()))

    graphs = []
    for _ in range(2):
        with tf.Graph().as_default():
            tf.train.create_global_step()
            build(body, num_towers=num_towers)
            graphs.append(weakref.ref(tf.get_default_graph()))
    gc.collect()
    return [graph() is not None for graph in graphs]
