"""Shared code of benchmarks: separate processes, spreads over rounds, and the machine."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import resource
import statistics
import subprocess
import sys
import time
from typing import Any, Callable, Collection, Mapping

_TICK_S = 0.5  # Seconds between calls of the argument `tick` of `run`.
_CHECKOUT = pathlib.Path(__file__).resolve().parents[2]  # No repository if this is installed.


def run(
    module: str,
    request: Any,
    timeout: float,
    env: Mapping[str, str] | None = None,
    sees_gpus: bool = False,
    tick: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Runs a module of a benchmark in a separate process, with the path of this one.

    Args:
        module: Name, e.g. `replicate.bench.engines`.
        request: Object that the module gets as JSON in its first argument.
        timeout: Limit of its time in seconds.
        env: Dict of environment variables that differ from this process's; None for none.
        sees_gpus: Whether it sees the GPUs that this process sees. Otherwise only logical CPU
            devices can be chosen.
        tick: Function of no arguments that is called from time to time while the process runs;
            None for none. An exception of it ends the process.

    Returns:
        The last line that it prints, a JSON object, as a dict; with `load_average`, the load
        average of the machine before it began.

    Raises:
        RuntimeError: If the process fails, or takes too long.
    """
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **(env or {})}
    env["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
    if not sees_gpus:
        env["CUDA_VISIBLE_DEVICES"] = "-1"
    load_average = os.getloadavg()[0]
    command = [sys.executable, "-m", module, json.dumps(request)]
    try:
        returncode, output, errors = _waited(command, env, timeout, tick)
    except subprocess.TimeoutExpired:
        raise RuntimeError(
            f"A benchmark's process must end within {timeout:g} seconds, but {module} did not for "
            f"{request}. Make the case smaller, or leave it out."
        ) from None
    if returncode:
        raise RuntimeError(
            f"A benchmark's process must exit with 0, but {module} exited with {returncode} "
            f"for {request}. Fix it, or leave it out.\n{errors[-2000:]}"
        )
    return {**json.loads(output.splitlines()[-1]), "load_average": load_average}


def _waited(
    command: list[str], env: Mapping[str, str], timeout: float, tick: Callable[[], None] | None
) -> tuple[int, str, str]:
    """Runs a command; returns its exit status, standard output and standard error."""
    pipe, end = subprocess.PIPE, time.monotonic() + timeout
    with subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe, text=True) as child:
        try:
            while True:
                left = max(0, end - time.monotonic())
                try:
                    output, errors = child.communicate(timeout=min(_TICK_S, left))
                    return child.returncode, output, errors
                except subprocess.TimeoutExpired:
                    if time.monotonic() >= end:
                        raise
                if tick:
                    tick()
        except BaseException:  # Ctrl-C, too, so that the process never outlives this one.
            child.kill()
            raise


def peak_rss() -> int:
    """Returns the largest resident memory of this process so far, in bytes."""
    status = pathlib.Path("/proc/self/status")
    if status.exists():  # Unlike `getrusage`, it leaves out the parent process.
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
        if found:  # Some kernels leave it out.
            return int(found.group(1)) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def spread(values: Collection[float]) -> dict[str, float]:
    """Returns the median, minimum and maximum of `values`, rounded to 5 digits."""
    figures = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {key: float(f"{value:.5g}") for key, value in figures.items()}


def publish(record: Any, path: str | None = None) -> None:
    """Prints a record as a line of JSON, and appends it to a file if there is a `path`."""
    print(json.dumps(record), flush=True)
    if path:
        append(record, path)


def append(record: Any, path: str) -> None:
    """Appends a record to a file, as a line of JSON."""
    with open(path, "a") as file:
        print(json.dumps(record), file=file)


def machine() -> dict[str, Any]:
    """Returns a dict of the processor, number of cores, git commit and UTC date of figures.

    The commit is None if the library is installed, since its directory may be in another
    repository.
    """
    cpu, cpuinfo = platform.processor() or platform.machine(), pathlib.Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = re.findall(r"(?m)^model name\s*: (.*)$", cpuinfo.read_text())
        cpu = names[0] if names else cpu
    commit = ""
    if (_CHECKOUT / ".git").exists():
        git = ["git", "-C", str(_CHECKOUT), "describe", "--always", "--dirty"]
        commit = subprocess.run(git, capture_output=True, text=True).stdout.strip()
    now = datetime.datetime.now(datetime.timezone.utc)
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "commit": commit or None,
        "date": now.isoformat(timespec="seconds"),
    }


def names_of(accepted: Collection[str]) -> Callable[[str], list[str]]:
    """Returns a type for `argparse`: distinct names out of `accepted`, separated by commas."""

    def parse(text: str) -> list[str]:
        names = text.split(",")
        unknown = [name for name in names if name not in accepted]
        if unknown or len(set(names)) < len(names):
            raise argparse.ArgumentTypeError(
                f"must be distinct names out of {','.join(accepted)}, separated by commas, but is "
                f"{text!r}. Leave the option out for the default."
            )
        return names

    return parse


def positive(text: str) -> int:
    """A type for `argparse`: a whole number >= 1."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f"must be a whole number >= 1, but is {text!r}. Leave the option out for the default."
        )
    return int(text)
