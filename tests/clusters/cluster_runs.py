"""Runs of `examples.cluster` for tests: on a cluster of real processes, and on one device."""

import contextlib
import io
import re

import numpy as np
import tensorflow.compat.v1 as tf

import programs
from examples.cluster import train
from examples.cluster.local import LocalCluster

LIMIT_S = 240  # after which a test fails, instead of waiting for what will not come


def cluster(directory, *flags, workers=2, **kwargs):
    """Returns a `LocalCluster` that trains in `directory`."""
    flags = ["--model_dir", str(directory), "--dtype", "float64", *flags]
    env = {"PYTHONPATH": str(programs.ROOT), "CUDA_VISIBLE_DEVICES": ""}
    return LocalCluster(workers, flags, directory / "logs", env=env, **kwargs)


def alone(directory, *flags):
    """Trains in this process, on one device; returns what was printed, a list of lines."""
    flags = ["--model_dir", str(directory), "--dtype", "float64", "--devices", "/cpu:0", *flags]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert train.main(flags) == 0
    return printed.getvalue().splitlines()


def losses(lines):
    """Returns the losses that a worker printed, by step."""
    return {int(match[1]): float(match[2]) for match in _matches(lines)}


def steps(lines):
    """Returns the steps that a worker printed, in that order."""
    return [int(match[1]) for match in _matches(lines)]


def _matches(lines):
    return filter(None, (re.match(r"step (\d+) loss (\S+)", line) for line in lines))


def saved(directory):
    """Returns all values of the last checkpoint, by name."""
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(directory)))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def deviation(values, others):
    """Returns the largest difference of two dictionaries of arrays, relative to what it is in."""
    assert set(values) == set(others)
    return max(
        np.abs(value - others[name]).max() / max(np.abs(others[name]).max(), 1e-9)
        for name, value in values.items()
    )
