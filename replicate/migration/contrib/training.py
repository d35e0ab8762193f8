"""Strategies of `tf.contrib.training` that distribute variables over parameter servers."""

from __future__ import annotations

import hashlib
from typing import Callable

import numpy as np
import tensorflow.compat.v1 as tf


class RandomStrategy:
    """Chooses a task by a hash of an operation's name, for `tf.train.replica_device_setter`.

    Args:
        num_ps_tasks: Number of tasks.
        seed: Seed of the choice; different seeds make different choices.
    """

    def __init__(self, num_ps_tasks: int, seed: int = 0) -> None:
        self._num_tasks = num_ps_tasks
        self._seed = seed

    def __call__(self, op: tf.Operation) -> int:
        """Returns the task of an operation.

        Args:
            op: The operation.
        """
        digest = hashlib.md5(f"{op.name}_{self._seed}".encode()).hexdigest()
        return int(digest, 16) % self._num_tasks


class GreedyLoadBalancingStrategy:
    """Chooses the task with the lowest load, for `tf.train.replica_device_setter`.

    Args:
        num_tasks: Number of tasks.
        load_fn: Function of an operation that returns the load that it adds to a task.
    """

    def __init__(self, num_tasks: int, load_fn: Callable[[tf.Operation], float]) -> None:
        self._load_fn = load_fn
        self._loads = np.zeros(num_tasks)

    def __call__(self, op: tf.Operation) -> np.integer:
        """Returns the task of an operation; the first one if several have the lowest load.

        Args:
            op: The operation.
        """
        task = np.argmin(self._loads)
        self._loads[task] += self._load_fn(op)
        return task


def byte_size_load_fn(op: tf.Operation) -> int:
    """Returns the size of an operation's output in bytes.

    Args:
        op: The operation, such as that of a variable.

    Raises:
        ValueError: If the operation does not have exactly one output, or its shape is unknown.
    """
    if len(op.outputs) != 1:
        raise ValueError(
            f"An operation with one output has a size, but {op.name} has {len(op.outputs)}."
        )
    (output,) = op.outputs
    shape = output.shape
    if not shape.is_fully_defined():
        # The output of a resource variable is a handle, and the shape is in an attribute.
        shape = tf.TensorShape(op.get_attr("shape"))
    shape.assert_is_fully_defined()
    return shape.num_elements() * output.dtype.size
