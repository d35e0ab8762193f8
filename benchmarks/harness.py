"""What all benchmarks share: processes of their own, spreads over rounds, and the machine.

TensorFlow is never imported here: on Linux a child's peak of resident memory starts from its
parent's.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
_AT_ROOT = {"cwd": str(ROOT), "capture_output": True, "text": True}


def run(module, request, timeout, env=None):
    """Runs a module of the benchmarks in a process of its own.

    Args:
        module: Name, e.g. `benchmarks.engines`.
        request: What the module reads from its first argument, as JSON.
        timeout: Seconds that it may take.
        env: Dict of environment variables that differ from this process's.

    Returns:
        What it prints last, read as JSON; with `load_average`, that of the machine before it began.

    Raises:
        RuntimeError: If the process fails.
    """
    # Without GPUs in sight, logical CPU devices are the only ones that can be chosen.
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1", **(env or {})}
    load_average = os.getloadavg()[0]
    command = [sys.executable, "-m", module, json.dumps(request)]
    child = subprocess.run(command, env=env, timeout=timeout, **_AT_ROOT)
    if child.returncode:
        raise RuntimeError(
            f"A benchmark's process must exit with 0, but {module} exited with {child.returncode} "
            f"for {request}. Mend it, or leave it out.\n{child.stderr[-2000:]}"
        )
    return {**json.loads(child.stdout.splitlines()[-1]), "load_average": load_average}


def spread(values):
    """Returns the median, least and greatest of `values`, rounded to a float's 5 digits."""
    figures = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {key: float(f"{value:.5g}") for key, value in figures.items()}


def publish(record, path=None):
    """Prints a record as a line of JSON, and appends it to a file if there is a `path`."""
    print(json.dumps(record), flush=True)
    if path:
        append(record, path)


def append(record, path):
    """Appends a record to a file, as a line of JSON."""
    with open(path, "a") as file:
        print(json.dumps(record), file=file)


def machine():
    """Returns where and when figures were taken: processor, cores, git commit and UTC date."""
    cpu, cpuinfo = platform.processor() or platform.machine(), pathlib.Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = re.findall(r"(?m)^model name\s*: (.*)$", cpuinfo.read_text())
        cpu = names[0] if names else cpu
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], **_AT_ROOT).stdout.strip()
    now = datetime.datetime.now(datetime.timezone.utc)
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "commit": commit or None,
        "date": now.isoformat(timespec="seconds"),
    }


def names_of(accepted):
    """Returns a type for `argparse`: distinct names out of `accepted`, separated by commas."""

    def parse(text):
        names = text.split(",")
        unknown = [name for name in names if name not in accepted]
        if unknown or len(set(names)) < len(names):
            raise argparse.ArgumentTypeError(
                f"must be distinct names out of {','.join(accepted)}, separated by commas, but is "
                f"{text!r}. Leave the option out to run all of them."
            )
        return names

    return parse


def positive(text):
    """A type for `argparse`: a whole number >= 1."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f"must be a whole number >= 1, but is {text!r}. Leave the option out for the default."
        )
    return int(text)
