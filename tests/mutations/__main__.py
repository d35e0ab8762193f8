"""Applies defects one by one to a copy of the library, and tells which the tests catch.

    python -m tests.mutations                       all of them, by what `make test` runs of their
                                                    package; those left by all of it on TensorFlow
                                                    2.15, and those left then by slow tests; by
                                                    .venv-1.15 those that show on 1.15 alone
    python -m tests.mutations --only dropped        those whose names hold a word
    python -m tests.mutations -- tests/test_x.py    by these tests, or by other arguments of pytest

Prints a line of JSON for each, and a summary; exits with 1 if tests miss one.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import queue
import shutil
import subprocess
import sys
import tempfile
import time

from tests.mutations.defects import DEFECTS

ROOT = pathlib.Path(__file__).parents[2]
PYTHON_1_15 = str(ROOT / ".venv-1.15/bin/python")
LEFT_OUT = {"build", "dist", "runs"}  # At the root, and what begins with a dot.
# Of public modules, where their tests are.
PACKAGES = {
    "model_fn.py": "contract",
    "cross_tower.py": "test_cross_tower.py",
    "normalization.py": "test_normalization.py",
}
QUICK = "not slow and not further and not thorough and not nightly"
# In turn, until one fails: what is quick first.
SUITES = (
    ("its package", ["-m", QUICK]),  # Where that is, follows.
    ("test", ["-m", QUICK]),
    ("test-all", ["-m", "(slow or further) and not thorough and not nightly"]),
)


def copy_to(tree):
    """Copies the repository to `tree`, and checks that its tests can be collected there."""

    def left_out(folder, names):
        names = [name for name in names if name.startswith(".") or name == "__pycache__"]
        return names + list(LEFT_OUT) if pathlib.Path(folder) == ROOT else names

    shutil.copytree(ROOT, tree, ignore=left_out)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    environment = dict(os.environ, PYTHONPATH=str(tree), PYTHONDONTWRITEBYTECODE="1")
    subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.DEVNULL, check=True)


def spoil(tree, defect):
    """Puts a defect into the library in `tree`; returns the file and its text before."""
    path = tree / "replicate" / defect.file
    text = path.read_text()
    if text.count(defect.right) != 1:
        raise ValueError(f"'{defect.name}' must change one place of {defect.file}.")
    path.write_text(text.replace(defect.right, defect.wrong))
    return path, text


def caught_by(tree, defect, suites):
    """Returns the first suite that fails in `tree`, and its first test to fail; or Nones."""
    environment = dict(os.environ, PYTHONPATH=str(tree), PYTHONDONTWRITEBYTECODE="1")
    package = defect.file.partition("/")[0]
    in_package = f"tests/{PACKAGES.get(package, package)}"
    python = sys.executable
    if defect.on_1_15:
        python, suites = PYTHON_1_15, [("1.15", ["-m", QUICK, defect.on_1_15])]
    for name, arguments in suites:
        if name == "its package":
            arguments = [*arguments, in_package]
        command = [python, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider"]
        command += ["--ignore=tests/mutations"]  # Which miss the text that is replaced.
        done = subprocess.run(
            [*command, *arguments], cwd=tree, env=environment, capture_output=True, text=True
        )
        if done.returncode not in (0, 5):  # 5: no test was selected.
            failed = [
                line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))
            ]
            return name, (failed or done.stdout.splitlines()[-1:] or [done.stderr[-200:]])[0]
    return None, None


def main(arguments=None):
    """Runs the command line; returns the status to exit with."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("--only", default="", help="a word that the names of defects hold")
    parser.add_argument("--processes", type=int, default=2, help="how many run side by side")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, after --")
    given = parser.parse_args(arguments)
    suites = [("given", given.pytest)] if given.pytest else SUITES
    chosen = [defect for defect in DEFECTS if given.only in defect.name]
    with tempfile.TemporaryDirectory() as directory:
        trees = queue.Queue()
        for index in range(given.processes):
            tree = pathlib.Path(directory, str(index))
            copy_to(tree)
            trees.put(tree)

        def run(defect):
            tree, start = trees.get(), time.monotonic()
            path, text = spoil(tree, defect)
            try:
                suite, test = caught_by(tree, defect, suites)
            finally:
                path.write_text(text)
                trees.put(tree)
            seconds = round(time.monotonic() - start, 1)
            line = {"defect": defect.name, "caught by": suite, "test": test, "seconds": seconds}
            print(json.dumps(line), flush=True)
            return suite

        with concurrent.futures.ThreadPoolExecutor(given.processes) as pool:
            caught = list(pool.map(run, chosen))
    counts = dict(collections.Counter(filter(None, caught)))
    missed = [defect.name for defect, suite in zip(chosen, caught) if suite is None]
    print(json.dumps({"defects": len(chosen), "caught by": counts, "missed": missed}))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
