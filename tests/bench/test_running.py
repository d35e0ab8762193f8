"""Output of `python -m replicate bench` while it runs, and when it is interrupted."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys

import pytest

import programs
from replicate.bench import command, engines, harness, rows

TWO = ["--devices", "/cpu:0", "/cpu:1"]
TITLES = ["one device", "replicate", "MirroredStrategy", "CentralStorageStrategy"]


class Engines:
    """In the place of processes: every step takes as many milliseconds as runs were begun.

    `actions` are functions that are called in the place of the runs of these numbers.
    """

    def __init__(self, monkeypatch, **actions):
        self.calls, self.actions = [], actions
        monkeypatch.setattr(engines, "run", self.run)

    def run(self, case, engine, warmup, steps, devices, choice, tick):
        self.calls.append((case.model, engine, warmup, steps))
        action = self.actions.get(f"run_{len(self.calls)}")
        if action:
            action()
        tick()
        figures = {name: float(len(self.calls)) for name in rows._FIGURES}
        graph = {"all_reduced": [], "peak_gpu_mb": None, "losses": [1.0] * steps, "links": {}}
        return {**_zeros(), **figures, **graph}


def _zeros():
    of_runs = ("load_average", "tf", "numpy", "python", "replicate")
    return dict.fromkeys((*rows._OF_GRAPHS, *of_runs), 0)


def interrupt():
    raise KeyboardInterrupt


def table_of(output):
    """Returns the cells of the model, the way and the step's time of each row."""
    lines = [line for line in output.splitlines() if line.startswith("| ")][2:]
    return [tuple(line.split(" | ")[i].strip("| ") for i in (0, 1, 4)) for line in lines]


def test_rows_come_as_they_are_measured_and_the_table_has_medians(capfd, monkeypatch, tmp_path):
    out, seen = tmp_path / "out.jsonl", []

    def look():
        lines = out.read_text().splitlines() if out.exists() else []
        seen.append((capfd.readouterr(), lines))

    Engines(monkeypatch, run_2=look, run_6=look, run_8=look)
    flags = [*TWO, "--models", "mlp", "--rounds", "2", "--global_batch", "8", "--out", str(out)]
    assert command.main(flags) == 0
    (first, none), (second, one), (third, three) = seen
    assert "8 runs, each in a separate process: about " in first.err
    assert "mlp, one device: 1.0 ms a step, 8,000 examples/s (after round 1 of 2)\n" in first.err
    towers = (
        "mlp, replicate, 2 devices: 2.0 ms a step, 4,000 examples/s, efficiency 0.25 (after round 1"
    )
    assert towers in second.err
    assert "mlp, one device: 3.0 ms a step" in second.err and "(after round 2 of 2)" in second.err
    assert none == [] and [json.loads(line)["way"] for line in one] == TITLES[:1]
    assert [json.loads(line)["way"] for line in three] == TITLES[:3]
    assert first.out == second.out == third.out == ""  # Only final text goes there.
    output = capfd.readouterr().out
    assert table_of(output)[0] == ("mlp", "one device", "3.0 (3.0, 3.0)")
    assert [way for _, way, _ in table_of(output)] == TITLES
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["way"] for line in lines] == TITLES
    assert {line["rounds"] for line in lines} == {2}


def test_ctrl_c_prints_what_was_measured(capfd, monkeypatch, tmp_path):
    out = tmp_path / "out.jsonl"
    made = Engines(monkeypatch, run_12=interrupt)
    flags = [*TWO, "--models", "cnn,mlp", "--rounds", "2", "--global_batch", "8", "--out", str(out)]
    assert command.main(flags) == 130
    assert len(made.calls) == 12
    output = capfd.readouterr()
    assert "Interrupted when 11 of 16 runs were done.\n" in output.err
    assert [row[:2] for row in table_of(output.out)] == [
        *(("cnn", title) for title in TITLES),
        *(("mlp", title) for title in TITLES[:3]),
    ]
    assert "cnn, 2 devices: losses of the first 5 steps of replicate; " in output.out
    assert "mlp, 2 devices" not in output.out  # Its losses were not compared.
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(line["model"], line["rounds"]) for line in lines] == [("cnn", 2)] * 4 + [
        ("mlp", 1)
    ] * 3


def test_ctrl_c_before_anything_was_measured_prints_no_table(capfd, monkeypatch):
    Engines(monkeypatch, run_1=interrupt)
    assert command.main(TWO) == 130
    output = capfd.readouterr()
    assert output.out == ""
    assert output.err.endswith("Interrupted when 0 of 38 runs were done.\n")


def test_no_choice_is_advised_of_rounds_that_were_not_run(capfd, monkeypatch):
    flags = [*TWO, "--models", "mlp", "--engines", "replicate", "--choices", "default,unpacked"]
    flags += ["--global_batch", "8", "--rounds", "2"]
    Engines(monkeypatch, run_5=interrupt)
    assert command.main(flags) == 130
    assert "was fastest" not in capfd.readouterr().out
    Engines(monkeypatch)
    assert command.main(flags) == 0
    assert "default was fastest" in capfd.readouterr().out


def test_a_process_that_fails_is_a_line_below_what_it_said(capfd, monkeypatch):
    def fail():
        raise RuntimeError("A process must not fail. Mend it.\nTraceback\n  ...\n")

    Engines(monkeypatch, run_3=fail)
    assert command.main([*TWO, "--quick"]) == 1
    output = capfd.readouterr()
    assert output.err.endswith("\nTraceback\n  ...\nProblem: A process must not fail. Mend it.\n")
    assert [row[1] for row in table_of(output.out)] == TITLES[:2]


def test_a_file_that_cannot_be_written_any_more_is_a_line(capfd, monkeypatch, tmp_path):
    def full(record, path):
        raise OSError(28, "No space left on device", path)

    Engines(monkeypatch)
    monkeypatch.setattr(harness, "append", full)
    flags = ["--models", "mlp", "--rounds", "1", "--out", str(tmp_path / "out.jsonl")]
    assert command.main([*TWO, *flags]) == 1
    output = capfd.readouterr()
    assert output.err.splitlines()[-1].startswith("Problem: [Errno 28] No space left on device: ")
    assert len(table_of(output.out)) == 1


def test_a_small_run_is_of_few_short_processes(capfd, monkeypatch):
    made = Engines(monkeypatch)
    assert command.main([*TWO, "--quick"]) == 0
    assert made.calls == [
        *(("cnn", engine, 5, 20) for engine in ("single", "replicate", "mirrored", "central")),
        *(("mlp", engine, 5, 20) for engine in ("single", "replicate", "mirrored", "central")),
        ("mlp", "single", 1, 5),
    ]
    text = capfd.readouterr().err
    (expected,) = re.findall(r"^9 runs, .*: about (\d+) s on two idle CPU cores\.", text)
    assert int(expected) < 90


def test_flags_say_otherwise_than_a_small_run(monkeypatch, capfd):
    made = Engines(monkeypatch)
    flags = "--quick --models wide --engines replicate --rounds 2 --steps 7 --warmup 3"
    assert command.main([*TWO, *shlex.split(flags)]) == 0
    assert made.calls[:-1] == [("wide", engine, 3, 7) for engine in ("single", "replicate")] * 2


def test_help_tells_what_runs_are_of(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    with pytest.raises(SystemExit) as exited:
        command.main(["--help"])
    assert exited.value.code == 0
    text = capsys.readouterr().out
    assert "cnn,mlp, 1 round of 20 steps after 5" in text
    assert "default: cnn,mlp,wide, 3 rounds of 100 steps after 20" in text
    assert re.search(r"minutes.*--quick", text)


def test_what_ends_a_benchmark_ends_its_process(monkeypatch):
    started = []

    class Started(subprocess.Popen):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Started)
    monkeypatch.setattr(harness, "_TICK_S", 0.01)  # It takes seconds to import TensorFlow.
    with pytest.raises(KeyboardInterrupt):
        harness.run("replicate", {}, timeout=600, tick=interrupt)
    assert [child.returncode for child in started] == [-signal.SIGKILL]


# Tests may run where Ctrl-C is ignored, in the background.
RUN = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from replicate import __main__
sys.exit(__main__.main(sys.argv[1:]))
"""


@pytest.mark.thorough
def test_a_real_ctrl_c():
    flags = ["bench", *TWO, "--quick", "--models", "mlp", "--rows", "8"]
    pipe = subprocess.PIPE
    environment = {**os.environ, "PYTHONPATH": str(programs.ROOT), "CUDA_VISIBLE_DEVICES": ""}
    with subprocess.Popen(
        [sys.executable, "-c", RUN, *flags], stdout=pipe, stderr=pipe, text=True, env=environment
    ) as child:
        for line in child.stderr:
            if line.startswith("mlp, one device: "):
                break
        child.send_signal(signal.SIGINT)
        output, errors = child.communicate()
    assert child.returncode == 130
    assert errors.endswith("Interrupted when 1 of 5 runs were done.\n"), errors
    assert [row[:2] for row in table_of(output)] == [("mlp", "one device")]
