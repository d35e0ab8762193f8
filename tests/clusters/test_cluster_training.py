"""Clusters of real processes train digits; each worker has two towers."""

import re
import signal

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from clusters import cluster_runs as runs

_STEPS = 12


@pytest.mark.conformance
def test_synchronous_workers_are_one_device_on_their_rows_together(tmp_path):
    """Batches have 122 rows: 61 for each worker, so 31 and 30 for its towers."""
    flags = ["--steps", str(_STEPS), "--batch_size", "122"]
    lines = runs.alone(tmp_path / "alone", *flags)
    expected, weights = runs.losses(lines), runs.saved(tmp_path / "alone")
    accuracy = re.search(r"accuracy ([\d.]+)", lines[-1])[1]

    directory = tmp_path / "cluster"
    with runs.cluster(directory, "--sync", *flags) as cluster:
        cluster.start_all()
        assert cluster.wait(runs.LIMIT_S) == {"chief/0": 0, "worker/0": 0, "evaluator/0": 0}
        by_worker = [runs.losses(cluster.tasks[name].lines) for name in ("chief/0", "worker/0")]
    assert all(list(losses) == list(range(_STEPS)) for losses in by_worker)
    for step, loss in expected.items():
        np.testing.assert_allclose(np.mean([own[step] for own in by_worker]), loss, rtol=1e-12)
        assert by_worker[0][step] != by_worker[1][step]  # They have rows of their own.
    assert runs.deviation(runs.saved(directory), weights) < 1e-12
    assert f"{_evaluated(directory)['accuracy']:.3f}" == accuracy


@pytest.mark.thorough
def test_asynchronous_workers_share_their_steps(tmp_path):
    with runs.cluster(tmp_path, "--steps", "500", ps=2) as cluster:
        chief = [cluster.start(name) for name in ("ps/0", "ps/1", "chief/0")][-1]
        assert chief.wait_for("^ready")
        chief.send(signal.SIGSTOP)  # It waits while the other one starts.
        worker = cluster.start("worker/0")
        assert worker.wait_for("^ready")
        chief.send(signal.SIGCONT)
        assert cluster.wait(runs.LIMIT_S) == {"chief/0": 0, "worker/0": 0}
    made = [runs.steps(task.lines) for task in (chief, worker)]
    assert all(made)
    # A step is counted once; while the chief saves the last one, the other may make one or two.
    counted = runs.saved(tmp_path)["global_step"]
    assert 500 <= counted <= len(made[0]) + len(made[1]) <= counted + 3


def _evaluated(directory):
    """Returns the values of the last summary of an evaluation."""
    events = sorted((directory / "eval").glob("events.*"))[-1]
    values = [
        (value.tag, value.simple_value)
        for event in tf.train.summary_iterator(str(events))
        for value in event.summary.value
    ]
    return dict(values)
