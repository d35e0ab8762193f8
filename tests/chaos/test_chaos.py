"""Faults follow from a seed, and a cluster under them keeps the promises of the documentation."""

import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest

import programs
from chaos import plan

WORKERS, PS = 5, 2
SEEDS = range(50)


def drawn(seed, counts=(20, 20), rare=True):
    return plan.draw(seed, counts, WORKERS, PS, rare)


def faults(seed, **kwargs):
    return [fault for groups in drawn(seed, **kwargs) for fault in plan.flat(groups)]


def test_the_same_seed_draws_the_same_faults():
    assert drawn(7) == drawn(7)
    assert len({str(drawn(seed)) for seed in SEEDS}) == len(SEEDS)
    first = drawn(7)[0][0][0]
    assert (first.kind, first.task) == ("disk", "chief/0")  # On every Python.


@pytest.mark.parametrize("seed", [0, 1])
def test_every_kind_is_drawn_before_any_is_repeated(seed):
    groups = [group for groups in drawn(seed, rare=False) for group in groups]
    size = len(plan.KINDS)
    for begin in range(0, len(groups) - size, size):
        assert {group[0].kind for group in groups[begin : begin + size]} == {*plan.KINDS}


def test_long_runs_have_rare_faults_once_in_each_job():
    for seed in SEEDS:
        for groups in drawn(seed):
            kinds = [fault.kind for fault in plan.flat(groups)]
            assert [kinds.count(kind) for kind in plan.RARE] == [1] * len(plan.RARE)
    assert not {fault.kind for seed in SEEDS for fault in faults(seed, rare=False)} & {*plan.RARE}


def test_few_tasks_are_down_at_once():
    groups = [group for seed in SEEDS for groups in drawn(seed) for group in groups]
    assert {len(group) for group in groups} == {1, plan.MOST_DOWN}
    for group in groups:
        assert len({fault.task for fault in group}) == len(group)
        if len(group) > 1:
            assert group[0].kind in plan.KINDS and group[1].kind in plan.SECOND
            assert group[0].at == group[1].at


def test_faults_hit_all_tasks_in_the_order_of_steps():
    tasks = {fault.task for seed in SEEDS for fault in faults(seed)}
    workers, servers = (f"worker/{i}" for i in range(5)), (f"ps/{i}" for i in range(2))
    assert tasks == {plan.ALL, "chief/0", *workers, *servers}
    for fault in (fault for seed in SEEDS for fault in faults(seed)):
        kind = plan.KNOWN[fault.kind]
        assert fault.task.partition("/")[0] in kind.jobs and fault.way in kind.ways
        assert kind.seconds[0] <= fault.seconds <= kind.seconds[1]
    for groups in drawn(3):
        shares = [group[0].at for group in groups]
        assert shares == sorted(shares) and 0 < shares[0] < shares[-1] < 1


# Real clusters.


def run(directory, *flags, limit):
    """Runs chaos with the command line `flags`; returns its verdict when it is done."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.chaos", "--directory", str(directory), *flags],
        cwd=programs.ROOT,
        env={**os.environ, "PYTHONPATH": str(programs.ROOT), "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit)
    finally:  # It kills its tasks itself, unless it is killed.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    print(output)
    told = [json.loads(line) for line in output.splitlines() if line.startswith('{"verdict"')]
    assert [one["problems"] for one in told] == [[]] and process.returncode == 0, output
    return told[0]


def happened(told):
    return {kind for job in told["faults"].values() for kind in job}


@pytest.mark.thorough  # It runs alone: beside other tests it takes twice as long.
@pytest.mark.timeout(900)
def test_a_cluster_survives_a_few_faults(tmp_path):
    told = run(tmp_path, "--minutes", "3", "--seed", "31", limit=840)
    assert happened(told) == {"checkpoint", "stop", "save", "preempt"}


@pytest.mark.nightly
def test_a_cluster_survives_half_an_hour_of_all_faults(tmp_path):
    told = run(tmp_path, "--minutes", "30", limit=3 * 3600)
    assert happened(told) == {*plan.KNOWN}
