"""What training and evaluating over towers leaves in the process: no graph, no tower, no thread.

How much memory that is in the end is measured by `soak/test_soak.py`.
"""

import gc
import json
import weakref

import pytest
import tensorflow.compat.v1 as tf

import replicate
from bodies import TRAIN, build, spec
from replicate.lockstep import Tower
from soak import long_training


def towers():
    """Returns the ids of the towers that are not collected."""
    gc.collect()
    return {id(each) for each in gc.get_objects() if isinstance(each, Tower)}


def test_an_estimator_leaves_no_graph_no_tower_and_no_thread(tmp_path, capsys):
    before = towers()
    long_training.main("towers", "rounds", 2, str(tmp_path))
    start, *rounds = map(json.loads, capsys.readouterr().out.splitlines())
    assert [look["graphs"] for look in rounds] == [0, 0]
    # TensorFlow keeps the files of events, one of training and one of evaluation, open.
    assert len(rounds[1]["files"]) == len(rounds[0]["files"])
    names = [name for look in rounds for name in look["threads"] if name not in start["threads"]]
    assert set(names) <= {"EventLoggerThread"}
    assert towers() <= before


@pytest.mark.parametrize("num_towers", [1, 2])
@pytest.mark.parametrize("kwargs", [{}, {"loss_scale": "dynamic", "accumulate_steps": 2}])
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
