"""The search as the job of a cluster: its tasks are processes, each worker has two towers."""

import json
import re
import signal

import pytest

import programs
from bodies import matching
from clusters import cluster_runs as runs
from examples.cluster.local import LocalCluster
from examples.nas_search.commands import PROGRAM

_END = 12
_HELD = 4  # steps of the chief, before it waits to be killed
_HOLD = ["--hold_at", str(_HELD)]
_AS_JSON = ["--output_format", "json", "--plot", "false"]
_TASK = (str(programs.ROOT / "tests" / "clusters" / "nas_search_task.py"),)


def draws(task):
    """Returns what the towers of a task drew, `(number, indices)`, one tower after the other."""
    words = [line.split() for line in task.lines if line.startswith("drew ")]
    return [(int(number), indices) for _, number, indices in words]


def variables(task):
    """Returns where the variables of a task are, by name."""
    words = [line.split() for line in task.lines if line.startswith("variable ")]
    return {name: device for _, name, device in words}


def written(directory):
    """Returns when each JSON file was written, by name."""
    return {path.name: path.stat().st_mtime_ns for path in directory.glob("*.json")}


def cluster_of(directory, command, end, *flags):
    """Returns a cluster of a chief and a worker that print what they do."""
    env = {"PYTHONPATH": str(programs.ROOT), "CUDA_VISIBLE_DEVICES": ""}
    flags = [command, "--preset", "digits", "--num_towers", "2", *flags]
    flags += ["--max_global_step", str(end), "--checkpoint_dir", str(directory)]
    return LocalCluster(2, flags, directory / "logs", program=_TASK, env=env)


@pytest.mark.thorough
@pytest.mark.parametrize("all_is_lost", [False, True])
def test_workers_search_with_one_controller_and_the_chief_goes_on_from_its_checkpoint(
    tmp_path, capsys, all_is_lost
):
    with cluster_of(tmp_path, "search", _END) as cluster:
        server = cluster.start("ps/0")
        first = cluster.start("chief/0", _HOLD)
        assert first.wait_for("^ready at step 0$")
        before = written(tmp_path)
        worker = cluster.start("worker/0", _HOLD)
        # It makes the steps that are left when the chief waits, and ends at the last one.
        assert worker.wait(runs.LIMIT_S) == 0
        after = written(tmp_path)
        first.send(signal.SIGKILL)
        assert first.wait(runs.LIMIT_S) == -signal.SIGKILL
        saved = runs.saved(tmp_path)
        if all_is_lost:
            server.send(signal.SIGKILL)
            assert server.wait(runs.LIMIT_S) == -signal.SIGKILL
            cluster.start("ps/0")
        again = cluster.start("chief/0")
        assert again.wait(runs.LIMIT_S) == 0
    by_task = [draws(first), draws(worker)]

    # All that is trained is on the parameter server: of all workers alike.
    places = variables(first)
    assert variables(worker) == places
    assert all(device.startswith("/job:ps/task:0") for device in places.values())
    of_controller = [name for name in places if name.startswith("rl_controller/")]
    assert {"exponential_moving_average/numerator", "apply_adam/t"} < set(places)
    assert f"{of_controller[0]}/v" in places and any(n.startswith("model/") for n in places)

    # A step is counted once, by the worker that made it. Each tower draws for itself.
    assert len(by_task[0]) == 2 * _HELD
    assert 2 * _END <= len(by_task[0] + by_task[1]) <= 2 * (_END + 1)
    assert [{number % 4 for number, _ in own} for own in by_task] == [{0, 1}, {2, 3}]
    numbers, networks = zip(*by_task[0], *by_task[1])
    assert len(set(numbers)) == len(numbers)
    assert len(set(networks)) > 0.9 * len(networks)

    # The chief alone writes, all there is.
    assert before == after
    assert set(saved) == set(places)
    step = saved["global_step"]
    assert 5 <= step < _END
    assert {"params.json", "model_spec.json", "cost_model.json"} == set(before)
    assert f"search: step {_END} of {_END}" in "\n".join(again.lines)
    assert not [line for line in worker.lines if line.startswith(("search:", "At its end"))]

    # The chief goes on from there, alone, with the draws that come next.
    assert again.wait_for(f"^ready at step {step}$")
    numbers = [number for number, _ in draws(again)]
    assert numbers == [4 * s + tower for s in range(step, _END) for tower in (0, 1)]
    saved = runs.saved(tmp_path)
    assert set(saved) == set(places) and saved["global_step"] == _END
    assert any(saved[name].any() for name in of_controller)

    # The directory holds a search like any other.
    capsys.readouterr()
    assert PROGRAM.main(["analyze", "--dirname", str(tmp_path), *_AS_JSON]) == 0
    (analysis,) = json.loads(capsys.readouterr().out)
    assert analysis["global_step"] == _END
    given = ["--search_dir", str(tmp_path), "--num_samples", "1"]
    assert PROGRAM.main(["sample", *given]) == 0
    assert capsys.readouterr().out


@pytest.mark.thorough
def test_a_network_trains_on_a_cluster_all_of_which_is_lost(tmp_path):
    end = 200
    flags = ["--ssd", "digits_search", "--indices", ":".join("0" * 14), "--train_batch_size", "16"]
    with cluster_of(tmp_path, "train", end, *flags) as cluster:
        tasks = [cluster.start(name, _HOLD) for name in ("ps/0", "chief/0")]
        assert tasks[1].wait_for("^ready at step 0$")
        tasks.append(cluster.start("worker/0", _HOLD))
        assert tasks[2].wait_for(r"^step \d+$", lines=_HELD + 10)
        for task in tasks:
            task.send(signal.SIGKILL)
        assert {task.wait(runs.LIMIT_S) for task in tasks} == {-signal.SIGKILL}
        step = runs.saved(tmp_path)["global_step"]
        assert 5 <= step < end

        cluster.start("ps/0")
        chief = cluster.start("chief/0")
        assert chief.wait_for(f"^ready at step {step}$")
        for name in ("worker/0", "evaluator/0"):
            cluster.start(name)
        assert cluster.wait(runs.LIMIT_S) == {"chief/0": 0, "worker/0": 0, "evaluator/0": 0}
    made = [line for name in ("chief/0", "worker/0") for line in cluster.tasks[name].lines]
    made = [line for line in made if re.match(r"step \d+$", line)]
    # A step is counted once; while the chief saves the last one, the other may make one or two.
    last = runs.saved(tmp_path)["global_step"]
    assert end <= last <= end + 2 and last - step <= len(made) <= last - step + 3
    assert cluster.tasks["evaluator/0"].wait_for(rf'"global_step": {last}')


TASKS = {
    "no_ps": (
        {"chief": ["a.test:1"], "worker": ["b.test:1"]},
        "chief",
        "Workers share what they train through parameter servers, but the cluster of TF_CONFIG has "
        "2 workers and no ps. Add one, or",
    ),
    "master": (
        {"master": ["a.test:1"], "ps": ["b.test:1"]},
        "master",
        "The tasks of a cluster must be chief, worker, ps, evaluator, but TF_CONFIG says that this "
        "one is 'master'. Call",
    ),
    "no_chief": (
        {"worker": ["a.test:1"], "ps": ["b.test:1"]},
        "worker",
        "TF_CONFIG must describe a cluster, and which of its tasks this process is, but does not: "
        "…Correct it, or unset it",
    ),
}


@pytest.mark.parametrize(("cluster", "job", "text"), TASKS.values(), ids=list(TASKS))
@pytest.mark.parametrize("command", ["search", "train"])
def test_tasks_that_cannot_be(monkeypatch, capsys, tmp_path, command, cluster, job, text):
    task = {"type": job, "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    assert PROGRAM.main([command, "--checkpoint_dir", str(tmp_path)]) == 2
    assert re.search(matching(text), capsys.readouterr().err)
    assert not list(tmp_path.iterdir())


def test_a_search_has_nothing_to_evaluate(monkeypatch, capsys, tmp_path):
    cluster = {"chief": ["a.test:1"], "ps": ["b.test:1"]}
    task = {"type": "evaluator", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    assert PROGRAM.main(["search", "--checkpoint_dir", str(tmp_path)]) == 0
    assert "its evaluator has nothing to do" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
