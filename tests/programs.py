"""Runs the programs of this checkout as users do, each in a process of its own."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(*args, env=None, root=ROOT):
    """Runs Python with `args` in the root of the checkout; returns the process when it is done.

    `env` has environment variables that differ from this process's. Another `root` is where it runs
    instead, and imports from.
    """
    return subprocess.run(
        [sys.executable, *args],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), "CUDA_VISIBLE_DEVICES": "", **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )
