"""MultiWorkerMirroredStrategy trains the model that parameter servers train."""

import re

import pytest

import programs
from bodies import matching
from clusters import cluster_runs as runs

# Of two processes each calls it in its replica; nothing is waited for.
MERGES = """
import json, os, sys
import tensorflow.compat.v1 as tf
import replicate
tf.disable_eager_execution()
tf.disable_v2_behavior()
strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy()
cluster = {"worker": ["127.0.0.1:1", "127.0.0.1:2"]}
strategy.configure(cluster_spec=cluster, task_type="worker", task_id=1)

def replica():
    print("towers", replicate.num_towers(), "this is", replicate.tower_index())
    return replicate.merge_call(lambda values: values[0], tf.constant(1.0))

with strategy.scope():
    try:
        strategy.extended.call_for_each_replica(replica)
    except RuntimeError as error:
        print(error)
"""
NOT_ALL = (
    "A merge function takes the values of all towers, but of the …2 towers of …this process has "
    "only some, for merge_call of …Use `cross_tower_sum`"
)


@pytest.mark.conformance
def test_mirrored_workers_are_one_device_on_their_rows_together(tmp_path):
    flags = ["--steps", "12"]
    runs.alone(tmp_path / "alone", *flags)
    directory = tmp_path / "cluster"
    flags += ["--mirrored", "--devices", "/cpu:0"]
    with runs.cluster(directory, *flags, ps=0) as cluster:
        for name in ("chief/0", "worker/0", "evaluator/0"):
            cluster.start(name)
        assert set(cluster.wait(runs.LIMIT_S).values()) == {0}
        by_worker = [runs.losses(cluster.tasks[name].lines) for name in ("chief/0", "worker/0")]
    assert list(by_worker[0]) == list(by_worker[1]) == list(range(12))
    assert runs.deviation(runs.saved(directory), runs.saved(tmp_path / "alone")) < 1e-12


def test_values_of_other_processes_are_not_merged():
    result = programs.run("-c", MERGES)
    assert "towers 2 this is 1" in result.stdout, result.stderr
    assert re.search(matching(NOT_ALL), result.stdout), result.stdout
