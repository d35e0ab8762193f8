"""Starts a TensorFlow cluster on this host: each of its tasks is a process.

    python -m examples.cluster.local --workers 2 --model_dir runs/cluster -- --sync --steps 300

Flags after `--` are those of `examples.cluster.train`, which every task runs. The output of the
tasks goes to `logs/` in the model's directory. On a terminal, a bar shows the chief's steps and the
last results of the evaluator. The exit status is 0 if chief, workers and evaluator end with 0.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading

from examples.cluster import flags
from examples.runs import arguments

PROGRAM = ("-m", "examples.cluster.train")


class Task:
    """A process of a cluster, and the lines that it printed."""

    def __init__(self, name, process, log, echo=None):
        self.name = name
        self.process = process
        self.lines = []
        self._printed = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, args=(log, echo), daemon=True)
        self._reader.start()

    def wait_for(self, pattern, lines=1, timeout_s=120):
        """Waits until lines match, or the process has ended.

        Args:
            pattern: Regular expression that is searched in each line, from the first on.
            lines: How many must match.
            timeout_s: Seconds.

        Returns:
            The match of the last of them, or None if there were not so many.
        """
        found = []

        def look():
            found[:] = filter(None, (re.search(pattern, line) for line in self.lines))
            return len(found) >= lines or self._ended

        with self._printed:
            self._printed.wait_for(look, timeout_s)
        return found[lines - 1] if len(found) >= lines else None

    def wait(self, timeout_s=None):
        """Waits until the process has ended and all it printed was read; returns its status."""
        status = self.process.wait(timeout_s)
        self._reader.join(timeout_s)
        return status

    def send(self, number):
        """Sends the process a signal, if it is still there."""
        if self.process.poll() is None:
            self.process.send_signal(number)

    def _read(self, log, echo):
        with open(log, "a", encoding="utf-8") as file, self.process.stdout:
            for line in self.process.stdout:
                file.write(line)
                file.flush()
                if echo:
                    echo(self.name, line.rstrip("\n"))
                with self._printed:
                    self.lines.append(line.rstrip("\n"))
                    self._printed.notify_all()
        with self._printed:
            self._ended = True
            self._printed.notify_all()


class LocalCluster:
    """A cluster of a chief, workers, parameter servers and an evaluator on this host.

    Leaving its scope kills what still runs.

    Args:
        workers: How many workers there are, the chief among them.
        flags: Command line of `program`, a list.
        logs: Directory for what the tasks print.
        ps: How many parameter servers there are.
        program: What Python runs, arguments of its command line.
        env: Environment variables that differ from this process's.
        echo: Function of a task's name and a line that it printed, which is called for each.
    """

    def __init__(self, workers, flags, logs, ps=1, program=PROGRAM, env=None, echo=None):
        self._flags = list(flags)
        self._logs = pathlib.Path(logs)
        self._program = program
        # Unbuffered, Python writes a line and its end apart, and a log line of another thread comes
        # between them: both streams are one pipe here.
        self._env = {**os.environ, **(env or {}), "PYTHONUNBUFFERED": ""}
        self._echo = echo
        self.tasks = {}
        """The last process of each task, by its name, such as `worker/0`."""
        addresses = [f"127.0.0.1:{port}" for port in _free_ports(workers + ps)]
        self.cluster = {"chief": addresses[:1]}
        if ps:
            self.cluster["ps"] = addresses[workers:]
        if workers > 1:
            self.cluster["worker"] = addresses[1:workers]

    def __enter__(self):
        self._logs.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *error):
        for task in self.tasks.values():
            task.send(signal.SIGKILL)
        for task in self.tasks.values():
            task.wait()

    def start(self, name, flags=()):
        """Starts a task, or starts it again.

        Args:
            name: Such as `'chief/0'` or `'evaluator/0'`.
            flags: More of its command line.

        Returns:
            The `Task`.
        """
        job, _, index = name.partition("/")
        config = {"cluster": self.cluster, "task": {"type": job, "index": int(index)}}
        process = subprocess.Popen(
            [sys.executable, *self._program, *self._flags, *flags],
            env={**self._env, "TF_CONFIG": json.dumps(config)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        log = self._logs / f"{name.replace('/', '_')}.log"
        task = self.tasks[name] = Task(name, process, log, self._echo)
        return task

    def start_all(self, evaluator=True):
        """Starts all tasks, the workers when the chief has initialised the variables.

        A worker that comes before that looks again after half a minute only.
        """
        for job in ("ps", "chief"):
            for index in range(len(self.cluster.get(job, ()))):
                self.start(f"{job}/{index}")
        self.tasks["chief/0"].wait_for("^ready")
        for index in range(len(self.cluster.get("worker", ()))):
            self.start(f"worker/{index}")
        if evaluator:
            self.start("evaluator/0")

    def wait(self, timeout_s=None):
        """Waits until chief, workers and evaluator have ended; returns their statuses by name."""
        waits = [name for name in self.tasks if not name.startswith("ps/")]
        return {name: self.tasks[name].wait(timeout_s) for name in waits}


class Progress:
    """Shows how a cluster comes along.

    Args:
        steps: Step at which training ends.

    Attributes:
        evaluated: What the evaluator printed last, None if nothing yet.
    """

    def __init__(self, steps):
        self._steps = steps
        self._display = None
        self.evaluated = None

    def __call__(self, name, line):
        """Takes a line that a task printed."""
        if name == "evaluator/0" and line.startswith("evaluated "):
            self.evaluated = line
        if name != "chief/0":
            return
        ready = re.match(r"ready at step (\d+)", line)
        made = re.match(r"step (\d+) loss (\S+)", line)
        if made and self._display:
            loss = float(made[2])
            step = min(int(made[1]) + 1, self._steps)
            self._display.show(step, lambda wide: f"loss {loss:.4g}")
        elif ready and int(ready[1]) < self._steps:
            from examples.runs.progress_display import Display  # Which imports TensorFlow.

            self._display = Display("cluster", "step", int(ready[1]), self._steps, sys.stderr)
        elif not ready:
            print(f"{name}: {line}", flush=True)

    def close(self):
        """Leaves what is on the screen, and says what was measured."""
        if self._display:
            self._display.close()
        if self.evaluated:
            print(self.evaluated, flush=True)


def _free_ports(count):
    """Returns ports that nobody listens at."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def main(argv=None):
    """Runs the cluster that the command line `argv` describes; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    workers, servers = arguments.at_least(1), arguments.at_least(0)
    parser.add_argument("--workers", type=workers, default=2, help="the chief among them")
    parser.add_argument("--ps", type=servers, default=1, help="parameter servers")
    parser.add_argument("--model_dir", default="runs/cluster")
    parser.add_argument("flags", nargs="*", help="after --, flags of examples.cluster.train")
    args = parser.parse_args(argv)
    given = ["--model_dir", args.model_dir, *args.flags]
    # Else every task would start, and say it by itself. This prints it, and ends.
    task = flags.make_parser("Flags of a task.", prog=f"{parser.prog} [...] --", add_help=False)
    of_task = task.parse_args(given)
    if not args.ps and not of_task.mirrored and args.workers > 1:
        parser.error(
            "--ps must be at least 1, since the workers' variables are on parameter servers, but "
            "is 0. With `-- --mirrored`, each worker has its own."
        )
    arguments.make_directory(parser, "--model_dir", args.model_dir)
    logs = pathlib.Path(args.model_dir) / "logs"
    progress = Progress(of_task.steps)
    with LocalCluster(args.workers, given, logs, args.ps, echo=progress) as cluster:
        cluster.start_all()
        statuses = cluster.wait()
    progress.close()
    print(", ".join(f"{name} ended with {status}" for name, status in statuses.items()))
    return 0 if not any(statuses.values()) else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # Tasks end with it.
    sys.exit(main())
