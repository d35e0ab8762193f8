"""How Slurm and Kubernetes start the example: TF_CONFIG of each task, and their command lines."""

import pathlib
import re
import shlex

import pytest

import programs
from clusters import cluster_runs as runs
from examples.cluster import flags, local, slurm
from replicate.hooks import StallHook

EXAMPLE = pathlib.Path(programs.ROOT) / "examples" / "cluster"


@pytest.mark.parametrize(
    ("rank", "job", "index"),
    [(0, "chief", 0), (1, "evaluator", 0), (2, "ps", 0), (3, "worker", 0), (5, "worker", 2)],
)
def test_tasks_of_slurm(monkeypatch, rank, job, index):
    """Two hosts of three tasks."""
    environment = {
        "SLURM_PROCID": str(rank),
        "SLURM_STEP_NUM_TASKS": "6",
        "SLURM_STEP_NODELIST": "node[7-8]",
        "SLURM_STEP_TASKS_PER_NODE": "3(x2)",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = slurm.tf_config(workers=4, ps=1, port=8000)
    assert found["task"] == {"type": job, "index": index}
    assert found["cluster"] == {
        "chief": ["node7:8000"],
        "ps": ["node7:8002"],
        "worker": ["node8:8000", "node8:8001", "node8:8002"],
    }


@pytest.mark.thorough
def test_slurm_runs_the_example(tmp_path):
    """The only task of a host except the evaluator: it trains alone."""
    environment = {
        "SLURM_PROCID": "0",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_STEP_TASKS_PER_NODE": "2",
    }
    flags = ["--workers", "1", "--ps", "0", "--model_dir", str(tmp_path), "--steps", "3"]
    result = programs.run("-m", "examples.cluster.slurm", *flags, env=environment)
    assert result.returncode == 0, result.stderr
    assert runs.steps(result.stdout.splitlines()) == [0, 1, 2]


def test_command_lines_are_those_of_the_programs():
    """They are read as the shell and Kubernetes read them."""
    script = (EXAMPLE / "slurm.sh").read_text()
    (command,) = re.findall(r"^srun .*?python (.*)$", script, re.MULTILINE)
    by_slurm = shlex.split(command.replace('"$1"', "dir"))
    manifest = (EXAMPLE / "tfjob.yaml").read_text()
    (command,) = re.findall(r"command:\n((?: +- .*\n)+)", manifest)
    _, *by_kubernetes = re.findall(r"- (.*)\n", command)
    known = {"--help"}
    for parser in (flags.make_parser("A task."), slurm.make_parser()):
        known |= set(re.findall(r"--\w+", parser.format_help()))
    for arguments in (by_slurm, by_kubernetes):
        assert arguments[:2] in (["-m", "examples.cluster.train"], ["-m", "examples.cluster.slurm"])
        assert {flag.partition("=")[0] for flag in arguments if flag.startswith("--")} <= known


@pytest.mark.thorough
def test_the_local_cluster_tells_how_its_tasks_ended(tmp_path, capfd):
    given = ["--workers", "2", "--model_dir", str(tmp_path)]
    assert local.main([*given, "--", "--steps", "5"]) == 0
    shown, steps = capfd.readouterr()
    assert "cluster: step 5 of 5, " in steps
    assert not re.search(r"step \d+ loss", shown)
    measured = r"^evaluated at step 5: accuracy 0\.\d{3}, loss \d\.\d{3}$"
    assert re.search(measured, shown, re.MULTILINE)
    assert "chief/0 ended with 0, worker/0 ended with 0, evaluator/0 ended with 0" in shown
    assert (tmp_path / "logs" / "chief_0.log").read_text()


def test_the_local_cluster_shows_steps_and_what_was_measured(capsys):
    progress = local.Progress(20)
    for line in (
        "WARNING: about the chief",
        "ready at step 10",
        "step 10 loss 2.5",
        "step 19 loss 1.25",
    ):
        progress("chief/0", line)
    progress("worker/0", "step 18 loss 7.5")
    progress("evaluator/0", "evaluated at step 20: accuracy 0.950, loss 0.100")
    progress.close()
    shown, steps = capsys.readouterr()
    assert shown.splitlines() == [
        "chief/0: WARNING: about the chief",
        "evaluated at step 20: accuracy 0.950, loss 0.100",
    ]
    lines = steps.splitlines()
    assert [line.split(", ")[0] for line in lines] == ["cluster: step 20 of 20"]
    assert lines[0].endswith("loss 1.25")


def test_lines_of_a_task_are_whole_while_another_thread_logs(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    program = """
import sys, threading
log = lambda: [sys.stderr.write("a log line\\n") for _ in range(3000)]
thread = threading.Thread(target=log)
thread.start()
for step in range(3000):
    print("step", step, flush=True)
thread.join()
"""
    with local.LocalCluster(1, [], tmp_path, ps=0, program=["-c", program]) as cluster:
        task = cluster.start("chief/0")
        assert task.wait(60) == 0
    assert set(task.lines) == {"a log line", *(f"step {step}" for step in range(3000))}


def test_exit_statuses_that_the_manifest_names():
    assert f"({StallHook.EXIT_STATUS})" in (EXAMPLE / "tfjob.yaml").read_text()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--workers", "0"], "--workers: must be a whole number from 1 on, but is '0'"),
        (["--workers", "-1"], "--workers: must be a whole number from 1 on, but is '-1'"),
        (["--ps", "x"], "--ps: must be a whole number from 0 on, but is 'x'"),
        (["--ps", "0"], "--ps must be at least 1, since the workers' variables are on parameter"),
        (["--model_dir", "/proc/none"], "--model_dir must be a directory that can be written to"),
        (["--", "--stepps", "4"], "local.py [...] --: error: unrecognized arguments: --stepps 4"),
        (["--", "--steps", "0"], "--steps: must be a whole number from 1 on, but is '0'"),
    ],
)
def test_bad_input_of_the_local_cluster_is_told_before_a_task_starts(
    given, message, monkeypatch, capsys, tmp_path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(local, "LocalCluster", None)  # Nothing is started.
    monkeypatch.setattr("sys.argv", ["local.py"])
    with pytest.raises(SystemExit, match="2"):
        local.main(given)
    assert message in capsys.readouterr().err.splitlines()[-1]
