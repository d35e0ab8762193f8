"""Clusters of real processes train digits; each worker has two towers."""

import re

import numpy as np
import pytest

import cluster_runs as runs

_STEPS = 12


@pytest.mark.conformance
def test_synchronous_workers_are_one_device_on_their_rows_together(tmp_path):
    """Batches are of 122 rows: 61 of each worker, so 31 and 30 of its towers."""
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


def test_asynchronous_workers_share_their_steps(tmp_path):
    """The chief waits in its first steps for the other, which takes as long as it starts."""
    with runs.cluster(tmp_path, "--steps", "3000", ps=2) as cluster:
        cluster.start_all(evaluator=False)
        statuses = cluster.wait(runs.LIMIT_S)
        chief, worker = (runs.losses(cluster.tasks[n].lines) for n in ("chief/0", "worker/0"))
    assert set(statuses.values()) == {0}
    assert chief and worker
    # A step is counted once, by the worker that made it; each prints what it read before.
    assert 3000 <= runs.saved(tmp_path)["global_step"] <= 3001
    assert 3000 <= len(chief) + len(worker) <= 3002


def _evaluated(directory):
    """Returns the values of the last summary of an evaluation."""
    import tensorflow.compat.v1 as tf

    events = sorted((directory / "eval").glob("events.*"))[-1]
    values = [
        (value.tag, value.simple_value)
        for event in tf.train.summary_iterator(str(events))
        for value in event.summary.value
    ]
    return dict(values)
