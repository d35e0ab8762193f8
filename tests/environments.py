"""The TensorFlows that are here: this one, and those of the environments that `make` makes beside.

For tests of what must be the same on all of them, whose programs run in processes of their own.
"""

import os
import pathlib
import subprocess
import sys

import tensorflow as tf

import programs


def _found():
    """Returns the Python of each version of TensorFlow that is here, with this one first."""
    here = ".".join(tf.__version__.split(".")[:2])
    found = {here: sys.executable}
    prefix = pathlib.Path(sys.prefix)
    for path in sorted(prefix.parent.glob(f"{prefix.name}-[12].*")):
        if (path / ".test").exists():  # Made, and wholly.
            found.setdefault(path.name[len(prefix.name) + 1 :], str(path / "bin" / "python"))
    return found


PYTHONS = _found()
HERE, *OTHERS = PYTHONS


def is_newer(version, than):
    """Whether a version such as `2.21` is newer than another."""
    return tuple(map(int, version.split("."))) > tuple(map(int, than.split(".")))


def run(version, *args, keras_2=True):
    """Runs Python with `args` in the environment of a version; returns the process when it is done.

    `keras_2` is whether TensorFlows that have Keras 3 are asked for Keras 2.
    """
    # Packages that are named before are found after this checkout's.
    paths = [str(programs.ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "CUDA_VISIBLE_DEVICES": ""}
    env.pop("TF_USE_LEGACY_KERAS", None)
    env.pop("TF2_BEHAVIOR", None)  # TensorFlow 2 sets it, and TensorFlow 1.15 would heed it.
    if keras_2 and is_newer(version, "2.15"):
        env["TF_USE_LEGACY_KERAS"] = "1"
    return subprocess.run(
        [PYTHONS[version], *map(str, args)], env=env, capture_output=True, text=True, check=False
    )
