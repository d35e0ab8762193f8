"""Says where towers and variables are while a TensorFlow cluster trains a model.

Every worker of a cluster with parameter servers builds a graph. Its towers, and operations that run
once per step, are on the worker's devices. TensorFlow distributes the model's variables over the
parameter servers; variables that belong to one worker's step stay on the worker.

TensorFlow gives each operation its job and task after all other device scopes, if these leave both
open. So the devices of towers must not name a job, and the device of any operation that is to run
on another task must.
"""

from __future__ import annotations

import contextlib
import contextvars
import json
import os
from typing import Any, Iterable, Iterator, NamedTuple

import tensorflow.compat.v1 as tf

TRAINERS = ("master", "chief", "worker")
PS_DEVICE = "/job:ps/device:CPU:0"  # TensorFlow adds the index of the task.

_LOCAL = (tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES)
_worker = contextvars.ContextVar("replicate_worker", default="")


class Cluster(NamedTuple):
    """Describes the cluster that a graph is built for."""

    worker: str = ""
    """Job and task of the worker that runs the towers, as a device string; empty outside."""
    has_ps: bool = False
    """Whether the cluster has parameter servers."""

    @classmethod
    def from_config(cls, config: Any) -> Cluster:
        """Returns the cluster of a `RunConfig`; an empty `Cluster` for None."""
        # Evaluators and parameter servers run no towers.
        if not getattr(config, "num_ps_replicas", 0) or config.task_type not in TRAINERS:
            return cls()
        return cls(f"/job:{config.task_type}/task:{config.task_id}", has_ps=True)

    def check(
        self, devices: Iterable[str], consolidation_device: str, variable_placement: str
    ) -> None:
        """Raises unless this worker can have its towers on these devices.

        Args:
            devices: Canonical strings of the towers' devices.
            consolidation_device: Canonical string of the consolidation device.
            variable_placement: As for `replicate_model_fn`.

        Raises:
            ValueError: If a device names a job, or `variable_placement` puts variables on the
                towers' devices.
        """
        if not self.has_ps:
            return
        named = [name for name in [*devices, consolidation_device] if "/job:" in name]
        if named:
            raise ValueError(
                "In a cluster, the towers of a worker are on the worker's own devices, so "
                f"`devices` and `consolidation_device` must not name a job, but {named[0]} does. "
                "Pass e.g. '/gpu:0', which means a device of each worker."
            )
        if variable_placement not in ("consolidation", "auto"):
            raise ValueError(
                "In a cluster, variables are on its parameter servers, but got "
                f"`variable_placement` {variable_placement!r}. Leave it out."
            )

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        """A scope that puts variables of one step, such as those of metrics, on the worker."""
        if not self.has_ps:
            yield
            return

        def create(next_creator: Any, **kwargs: Any) -> Any:
            # The model's variables go to the parameter servers.
            if not {*(kwargs.get("collections") or ())} & {*_LOCAL}:
                return next_creator(**kwargs)
            with tf.device(self.worker):
                return next_creator(**kwargs)

        token = _worker.set(self.worker)
        try:
            with tf.variable_creator_scope(create):
                yield
        finally:
            _worker.reset(token)


def worker_here() -> str:
    """Returns job and task of the worker that builds a model here; empty outside a cluster."""
    return _worker.get()


def this_task() -> tuple[dict[str, Any], str | None, int | None]:
    """Returns the cluster that TF_CONFIG describes and the job and index of this process.

    Returns:
        A dictionary of lists of addresses by job, the job, a str, and the index, an integer. If the
        description is missing or wrong: an empty dictionary, None and None. The Estimator reports
        the error.
    """
    try:
        given = json.loads(os.environ.get("TF_CONFIG") or "{}")
        task = given.get("task", {})
        return given.get("cluster", {}), task["type"], int(task.get("index", 0))
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}, None, None


def is_chief(config: Any) -> bool:
    """Whether this process saves checkpoints.

    If a strategy trains in a cluster, the program's `RunConfig` has `is_chief` in every worker, and
    TF_CONFIG decides.

    Args:
        config: The `RunConfig`.
    """
    cluster, job, index = this_task()
    if not config.is_chief or job is None:
        return config.is_chief
    return job in ("chief", "master") or (job == "worker" and index == 0 and "chief" not in cluster)


def device_filters() -> list[str]:
    """Returns the device filters of this process's sessions: the tasks that they may wait for.

    An Estimator sets the same filters if its `RunConfig` has no `session_config`. Without them, a
    worker could not start while another one is down. The list is empty outside a cluster with
    parameter servers.
    """
    cluster, job, index = this_task()
    if "ps" not in cluster or job not in TRAINERS:
        return []
    return ["/job:ps", f"/job:worker/task:{index}" if job == "worker" else f"/job:{job}"]
