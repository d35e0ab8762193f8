"""Runs programs one after the other on the TensorFlow of this process, each in one of its own.

    python tests/moving/runs.py RUNS.json

`RUNS.json` has a list of objects:

    program     the file that `python` gets, whose folder it imports from
    flags       its command line
    is_moved    whether `launch.py` runs it, or it runs as it is
    from        a folder that is copied to `model_dir` first, or null
    model_dir   where it trains
    log         where its output goes

Processes fork from one that has imported TensorFlow, and `tensorflow.contrib` where that is, or
else this library's Estimator, all of which takes seconds. Prints the version of TensorFlow, and the
exit status of each program.
"""

import contextlib
import importlib
import json
import os
import pathlib
import runpy
import shutil
import sys
import traceback

HERE = pathlib.Path(__file__).resolve().parent


def copy(source, model_dir):
    """Copies a folder to train in; no name of its event files is one that TensorFlow gives.

    Those end with the second in which they are begun. So a run that continues in the same second
    would overwrite the events of the run before it.
    """
    shutil.copytree(source, model_dir)
    for path in sorted(pathlib.Path(model_dir).rglob("events.out.tfevents.*")):
        path.rename(path.with_name(path.name + ".first"))


def run_here(run):
    """Runs a program as `python` does, and ends the process."""
    output = os.open(run["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    first = str(HERE / "launch.py") if run["is_moved"] else run["program"]
    sys.argv = [first, *([run["program"]] if run["is_moved"] else []), *run["flags"]]
    sys.path[0] = str(pathlib.Path(first).parent)
    status = 1
    try:
        if run["from"]:
            copy(run["from"], run["model_dir"])
        runpy.run_path(first, run_name="__main__")
        status = 0
    except SystemExit as error:
        status = error.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 1)


def main(path):
    # In no name of this module: programs begin as if TensorFlow had not been imported.
    version = importlib.import_module("tensorflow").__version__
    if version.startswith("1."):
        importlib.import_module("tensorflow.contrib.estimator")
    else:
        with contextlib.suppress(ImportError):  # Which it is without Keras 2.
            _ = importlib.import_module("replicate").estimator.Estimator
    print(version, flush=True)
    for run in json.loads(pathlib.Path(path).read_text()):
        process = os.fork()
        if not process:
            run_here(run)
        _, status = os.waitpid(process, 0)
        print(status, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
