"""Trains on a cluster of eight processes while faults happen to them, and judges the result.

    python -m tests.chaos --minutes 30 --seed 7

There are three jobs: a synchronous one without faults, an asynchronous one, and the synchronous
one with faults. A seed decides which faults happen, in which order, after which share of the steps,
and to which tasks. Prints a line of JSON for each fault, and the verdict. The exit status is 1 if
losses or weights of the synchronous jobs differ, a step is lost or counted twice, or a task breaks
a promise of `docs/clusters.md` or `docs/faults.md`. Logs of all tasks stay in a directory.
"""

import argparse
import json
import os
import pathlib
import platform
import random
import shutil
import signal
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

_TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(_TESTS), str(_TESTS.parent)]

WORKERS, PS = 5, 2  # With the chief, these are eight tasks.
TOLERANCE = 1e-12  # Relative to the largest loss, and to the largest weight of a variable.
SYNC_FLAGS = ("--batch_size", 60, "--save_steps", 25)
# Few rows, since a task that starts again skips the rows of all steps.
ASYNC_FLAGS = ("--batch_size", 12, "--save_steps", 300)

# Groups of faults in a minute of the whole run, without those in which the three clusters start.
_GROUPS = {"asynchronous": 0.45, "synchronous": 0.9}
_STARTS_MINUTES = 2
# Shares of the time: for the steps of the uninterrupted job, and of the rest for the asynchronous.
_UNINTERRUPTED, _ASYNCHRONOUS = 0.08, 0.42
# Seconds that a group of faults costs; short runs take longer rather than leave faults out.
_COST_S = {"asynchronous": 15, "synchronous": 30}
_LEAST_S = 30  # Of asynchronous steps.
_RATE = 1.1  # Steps of an asynchronous task, for each that a synchronous one makes.
_RARE_FROM = 15  # Minutes.
_MORE_S = 240  # A job may take so much longer than planned.


def main(argv=None):
    """Runs the command line `argv`; returns the exit status."""
    args = _parser().parse_args(argv)
    seed = random.SystemRandom().randrange(10**6) if args.seed is None else args.seed
    directory = pathlib.Path(args.directory).resolve() / f"{seed}-{os.getpid()}"
    disk = directory / "disk"
    from chaos.disk import mounted

    if not args.mounted:
        disk.mkdir(parents=True)
        under = None if args.no_mount else mounted(disk)
        if under:
            # The process stays the same one, so that its directory does.
            given = ["--seed", str(seed), "--minutes", str(args.minutes), "--mounted"]
            given += ["--directory", args.directory, "--stall_secs", str(args.stall_secs)]
            command = [*under, sys.executable, "-m", "tests.chaos", *given]
            os.execvp(command[0], command)
    # All tasks are killed when this one ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return run(args.minutes, seed, directory, args.mounted, args.stall_secs)


def run(minutes, seed, directory, is_mounted, stall_secs):
    """Runs all jobs; returns the exit status."""
    from chaos import jobs, plan, report

    begun, disk = time.monotonic(), directory / "disk"
    _say({"seed": seed, "minutes": minutes, "logs": str(directory / "logs")})
    setting = jobs.Setting(directory, disk, is_mounted, WORKERS, PS, stall_secs, _say)
    disturbed = max(minutes - _STARTS_MINUTES, 1)
    counts = [max(1, round(disturbed * share)) for share in _GROUPS.values()]
    rare = minutes >= _RARE_FROM
    of_async, of_sync = plan.draw(seed, counts, WORKERS, PS, rare)

    expected = jobs.uninterrupted(setting, 60 * minutes * _UNINTERRUPTED, *SYNC_FLAGS)
    left = 60 * minutes - (time.monotonic() - begun)
    facts = {"steps_per_s": round(expected.steps_per_s, 1), "start_s": round(expected.start_s, 1)}
    _say({"job": "uninterrupted", "steps": expected.steps, **facts})

    # As many steps as faults leave time for: if there were more, no time would be left for faults.
    without_steps = expected.start_s + _COST_S["asynchronous"] * len(of_async)
    secs = max(without_steps + _LEAST_S, left * _ASYNCHRONOUS)
    rate = expected.steps_per_s * (WORKERS + 1) * _RATE
    steps = round(rate * (secs - without_steps))
    secs += expected.start_s  # The rate is a guess.
    _say({"job": "asynchronous", "steps": steps})
    job = jobs.Job(setting, "asynchronous", "--steps", steps, *ASYNC_FLAGS)
    first = jobs.disturbed(setting, job, of_async, steps, rate, secs, _MORE_S)

    left = 60 * minutes - (time.monotonic() - begun)
    undisturbed = expected.start_s + expected.steps / expected.steps_per_s
    secs = max(undisturbed + _COST_S["synchronous"] * len(of_sync), left)
    _say({"job": "synchronous", "steps": expected.steps})
    job = jobs.Job(setting, "synchronous", "--sync", "--steps", expected.steps, *SYNC_FLAGS)
    second = jobs.disturbed(
        setting, job, of_sync, expected.steps, expected.steps_per_s, secs, _MORE_S
    )

    from clusters import cluster_runs  # Imports TensorFlow.

    problems = report.asynchronous_problems(
        first, of_async, steps, _saved(cluster_runs, first.job.directory)
    )
    problems = [f"asynchronous: {problem}" for problem in problems]
    found, losses = report.synchronous_problems(second, of_sync, expected, TOLERANCE)
    values = [_saved(cluster_runs, where) for where in (second.job.directory, expected.directory)]
    others, weights = report.weight_problems(*values, TOLERANCE)
    problems += [f"synchronous: {problem}" for problem in found + others]
    both = (first, second)
    verdict = {
        "verdict": "different" if problems else "equal",
        "seed": seed,
        "versions": _versions(),
        "minutes": round((time.monotonic() - begun) / 60, 1),
        "steps": {"uninterrupted": expected.steps, "asynchronous": steps},
        "faults": {done.job.name: report.costs(done.job, done.happened) for done in both},
        "skipped": sum(one.begun is None for done in both for one in done.happened),
        "groups_left": sum(done.left for done in both),
        "steps_repeated": second.job.record.repeated(),
        "largest_deviation": {"losses": losses, "weights": weights},
        "connections_lost": [said for done in both for said in report.connections_lost(done.job)],
        "stalled": [said for done in both for said in report.stalled(done.job)],
        "problems": problems,
    }
    if problems:
        for done in both:
            for words in done.job.keeper.last_words:
                _say({"job": done.job.name, **words})
        shutil.copytree(disk, directory / "checkpoints", ignore=shutil.ignore_patterns("filler"))
    _say(verdict)
    return 1 if problems else 0


def _saved(cluster_runs, directory):
    """Returns the values of the last checkpoint; a step below 0 alone if there is none."""
    try:
        return cluster_runs.saved(directory)
    except Exception as error:
        _say({"unreadable": str(directory), "error": str(error)})
        return {"global_step": -1}


def _versions():
    import tensorflow.compat.v1 as tf

    import replicate

    return {
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "replicate": replicate.__version__,
    }


def _say(facts):
    print(json.dumps(facts), flush=True)


def _parser():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30, help="which all jobs take together")
    parser.add_argument("--seed", type=int, help="of the faults; a random one if there is none")
    parser.add_argument("--directory", default="build/chaos", help="for logs")
    parser.add_argument(
        "--stall_secs", type=float, default=90, help="without a step, before a task gives up"
    )
    parser.add_argument(
        "--no_mount", action="store_true", help="limit files instead of filling a file system"
    )
    parser.add_argument("--mounted", action="store_true", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
