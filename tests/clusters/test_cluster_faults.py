"""Tasks of clusters are killed and stopped, and their jobs go on."""

import signal

import pytest

from clusters import cluster_runs as runs
from replicate.hooks import StallHook

_MANY = "1000000"  # steps, for jobs that are killed


def start(cluster, *names):
    """Starts tasks, a worker once the chief is ready; returns them."""
    tasks = []
    for name in names:
        if name.startswith("worker"):
            assert cluster.tasks["chief/0"].wait_for("^ready")
        tasks.append(cluster.start(name))
    return tasks


def ready(task):
    """Returns the step at which a task begins."""
    return int(task.wait_for(r"^ready at step (\d+)")[1])


def killed(*tasks):
    for task in tasks:
        task.send(signal.SIGKILL)
    assert {task.wait(runs.LIMIT_S) for task in tasks} == {-signal.SIGKILL}


@pytest.mark.thorough
def test_a_job_goes_on_without_a_worker_and_the_chief_from_a_checkpoint(tmp_path):
    flags = ["--steps", _MANY, "--save_steps", "25", "--stall_secs", "6"]
    with runs.cluster(tmp_path, *flags) as cluster:
        _, chief, worker = start(cluster, "ps/0", "chief/0", "worker/0")
        assert worker.wait_for(r"^step \d+")
        killed(worker)
        made = len(runs.losses(chief.lines))
        # Nobody waits for it, and the log names it.
        assert chief.wait_for(r"replicate: worker/0 has not reported for \d+ s \(\d+ steps made")
        assert chief.wait_for(r"^step \d+", lines=made + 50)
        before = max(runs.losses(chief.lines))
        (worker,) = start(cluster, "worker/0")
        assert ready(worker) > before
        assert chief.wait_for("replicate: worker/0 reports again")
        assert worker.wait_for(r"^step \d+", lines=5)

        # The chief writes checkpoints; the workers' variables are on parameter servers meanwhile.
        killed(chief)
        step = runs.saved(tmp_path)["global_step"]
        (chief,) = start(cluster, "chief/0")
        assert chief.wait_for(r"^step \d+", lines=5)
        # The worker trained on until the chief restored the variables: no step counts twice.
        steps = runs.steps(worker.lines)
        ((before, after),) = [pair for pair in zip(steps, steps[1:]) if pair[1] < pair[0]]
        assert before > after >= step > 0
        assert min(runs.steps(chief.lines)) >= step


@pytest.mark.thorough  # It takes the longest of all.
def test_a_synchronous_job_goes_on_as_if_nothing_had_happened(tmp_path):
    """First it is preempted, then it is killed while it saves, which it does at every step."""
    steps = ["--steps", "30"]
    runs.alone(tmp_path / "alone", *steps)
    directory = tmp_path / "cluster"
    with runs.cluster(directory, "--sync", "--steps", _MANY) as cluster:
        _, chief, worker = start(cluster, "ps/0", "chief/0", "worker/0")
        assert chief.wait_for("^step 3 ")
        chief.send(signal.SIGTERM)
        assert chief.wait(runs.LIMIT_S) == 143
        made = len(runs.losses(chief.lines))
        assert chief.wait_for(rf"told to leave; step {made} is saved")
    with runs.cluster(directory, "--sync", "--steps", _MANY, "--save_steps", "1") as cluster:
        server, chief, worker = start(cluster, "ps/0", "chief/0", "worker/0")
        assert ready(chief) == ready(worker) == made
        assert worker.wait_for(rf"^step {made + 3} ")
        killed(server, chief, worker)
    first = runs.saved(directory)["global_step"]
    assert made < first < 30
    with runs.cluster(directory, "--sync", *steps) as cluster:
        _, *trainers = start(cluster, "ps/0", "chief/0", "worker/0")
        assert [ready(task) for task in trainers] == [first] * 2
        assert cluster.wait(runs.LIMIT_S) == {"chief/0": 0, "worker/0": 0}
        assert all(list(runs.losses(task.lines)) == list(range(first, 30)) for task in trainers)
    assert runs.deviation(runs.saved(directory), runs.saved(tmp_path / "alone")) < 1e-12


@pytest.mark.parametrize(
    "lost",
    ["worker/0", *[pytest.param(n, marks=pytest.mark.thorough) for n in ("chief/0", "ps/0")]],
)
def test_a_synchronous_job_that_loses_a_task_goes_on_as_if_nothing_had_happened(tmp_path, lost):
    """The others stay. They begin again with the task that is back, at the last checkpoint."""
    steps = ["--steps", "60", "--save_steps", "25"]
    runs.alone(tmp_path / "alone", *steps)
    directory = tmp_path / "cluster"
    with runs.cluster(directory, "--sync", *steps) as cluster:
        _, chief, worker = start(cluster, "ps/0", "chief/0", "worker/0")
        assert all(task.wait_for("^step 30 ") for task in (chief, worker))
        others = {"chief/0": chief, "worker/0": worker}
        others.pop(lost, None)
        killed(cluster.tasks[lost])
        start(cluster, lost)
        assert cluster.wait(runs.LIMIT_S) == {"chief/0": 0, "worker/0": 0}
        for task in others.values():
            made = runs.steps(task.lines)
            back = [pair for pair in zip(made, made[1:]) if pair[1] != pair[0] + 1]
            assert len(back) <= 1  # None, if it was lost right after a checkpoint.
            assert all(now % 25 == 0 and 0 <= before - now < 25 for before, now in back)
            assert made[-1] == 59
    assert runs.deviation(runs.saved(directory), runs.saved(tmp_path / "alone")) < 1e-12


@pytest.mark.thorough
def test_a_worker_that_is_preempted_leaves_the_saving_to_the_chief(tmp_path):
    with runs.cluster(tmp_path, "--steps", _MANY, "--save_steps", _MANY) as cluster:
        _, chief, worker = start(cluster, "ps/0", "chief/0", "worker/0")
        assert worker.wait_for(r"^step \d+")
        before = runs.saved(tmp_path)
        worker.send(signal.SIGTERM)
        assert worker.wait(runs.LIMIT_S) == 143
        made = len(runs.losses(chief.lines))
        assert chief.wait_for(r"^step \d+", lines=made + 20)
        assert runs.deviation(runs.saved(tmp_path), before) == 0


def test_a_job_without_its_parameter_server_ends(tmp_path):
    flags = ["--steps", _MANY, "--save_steps", "25", "--stall_secs", "6"]
    with runs.cluster(tmp_path, *flags) as cluster:
        server, *trainers = start(cluster, "ps/0", "chief/0", "worker/0")
        assert all(task.wait_for(r"^step \d+", lines=30) for task in trainers)
        killed(server)
        for task in trainers:
            assert task.wait(runs.LIMIT_S) == StallHook.EXIT_STATUS
            assert task.wait_for("replicate: ps/0 took no connections for 6 s, of `limit_secs` 6")
        saved = runs.saved(tmp_path)["global_step"]
        _, chief = start(cluster, "ps/0", "chief/0")
        assert ready(chief) == saved
        assert chief.wait_for(f"^step {saved} ")


@pytest.mark.thorough
def test_a_parameter_server_that_is_back_in_time_costs_the_steps_since_the_checkpoint(tmp_path):
    flags = ["--steps", _MANY, "--save_steps", "25", "--stall_secs", "60"]
    with runs.cluster(tmp_path, *flags, workers=1) as cluster:
        server, chief = start(cluster, "ps/0", "chief/0")
        assert chief.wait_for(r"^step \d+", lines=30)
        killed(server)
        start(cluster, "ps/0")
        again = chief.wait_for(r"^ready at step (\d+)", lines=2)
        made = max(runs.losses(chief.lines[: chief.lines.index(again.string)]))
        assert 25 <= int(again[1]) <= made
        assert chief.wait_for(f"^step {again[1]} ", lines=1)


@pytest.mark.thorough
def test_a_synchronous_job_names_the_worker_that_hangs(tmp_path):
    flags = ["--sync", "--steps", _MANY, "--stall_secs", "12"]
    with runs.cluster(tmp_path, *flags) as cluster:
        _, chief, worker = start(cluster, "ps/0", "chief/0", "worker/0")
        assert chief.wait_for("^step 3 ")
        worker.send(signal.SIGSTOP)
        assert chief.wait(runs.LIMIT_S) == 1
        assert chief.wait_for(
            r"StallError: Training stands still: chief/0 has made no step for \d+ s, of "
            r"`limit_secs` 12\. Not reporting: worker/0 \(\d+ steps made, (in|between) steps\)\. "
        )
