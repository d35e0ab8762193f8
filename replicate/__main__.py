"""`python -m replicate`: prints versions, devices, and how they would be used.

If the Estimator cannot work, it prints the reason and the command to run, and exits with 1. If
TensorFlow cannot be imported, it raises an ImportError with the reason. `python -m replicate bench`
is `replicate.bench.command`, `python -m replicate check-gpus` is `replicate.checking.command`,
`python -m replicate compare` is `replicate.comparing.command`, `python -m replicate plan` is
`replicate.planning.command`, and `python -m replicate scan`, which imports no TensorFlow, is
`replicate.migration.scan.command`.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
from typing import Sequence

from replicate.compat import environment
from replicate.version import __version__


def report() -> list[str]:
    """Returns the lines to print."""
    import numpy as np
    import tensorflow.compat.v1 as tf

    from replicate import devices
    from replicate.compat import estimator

    available = devices.local()
    chosen = devices.default(available)
    if len(chosen) > 1:
        plan = f"{len(chosen)} towers, one on each of {', '.join(chosen)}"
    else:
        plan = f"calls model_fn as it is, on {chosen[0]}, the only device"
    rows = [
        ("replicate", __version__),
        ("Python", platform.python_version()),
        ("TensorFlow", tf.__version__),
        ("NumPy", np.__version__),
        ("Estimator", estimator.source()),
        ("devices", ", ".join(available)),
        ("replicate_model_fn(model_fn)", plan),
    ]
    width = max(len(name) for name, _ in rows) + 2
    lines = [f"{name:<{width}}{value}" for name, value in rows]
    if len(chosen) == 1:
        lines += [
            "",
            "To run towers on one CPU, split it into logical devices:",
            '    devices = ["/cpu:0", "/cpu:1"]',
            "    model_fn = replicate.replicate_model_fn(model_fn, devices=devices)",
            "    config = replicate.estimator.RunConfig(",
            "        session_config=replicate.session_config(devices))",
        ]
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line `argv`; returns the exit status."""
    try:
        status = _main(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except BrokenPipeError:  # The reader, such as `head`, has closed the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


def _main(argv: Sequence[str]) -> int:
    if argv[:1] == ["scan"]:
        from replicate.migration import scan

        return scan.command.main(argv[1:])
    if argv[:1] == ["check-gpus"]:
        # TensorFlow's messages about each session would hide the lines of progress.
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    if not {"-h", "--help"} & {*argv[:1]}:  # Help needs no TensorFlow.
        environment.check_packages()
    if argv[:1] == ["bench"]:
        from replicate.bench import command as benchmark

        return benchmark.main(argv[1:])
    if argv[:1] == ["check-gpus"]:
        from replicate.checking import command as checking

        return checking.main(argv[1:])
    if argv[:1] == ["plan"]:
        from replicate.planning import command as planning

        return planning.main(argv[1:])
    if argv[:1] == ["compare"]:
        from replicate.comparing import command as comparison

        return comparison.main(argv[1:])
    parser = argparse.ArgumentParser(
        prog="python -m replicate",
        description="Without a command: prints versions, devices, and what replicate_model_fn "
        "would do here.",
    )
    commands = parser.add_subparsers(title="commands")
    commands.add_parser("bench", help="times one device against several, engines side by side")
    commands.add_parser("check-gpus", help="checks the GPUs here, and prints a report")
    commands.add_parser("compare", help="trains your model_fn on both, and compares the results")
    commands.add_parser("plan", help="shows which parts of your model_fn would run in towers")
    commands.add_parser("scan", help="reads a codebase, and lists the changes that moving it takes")
    parser.parse_args(argv)
    print("\n".join(report()))
    problem = environment.estimator_problem()
    if problem:
        print(f"\nProblem: {problem}", file=sys.stderr)
    return 1 if problem else 0


if __name__ == "__main__":
    # Else it would leave temporary files and the processes that it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main())
