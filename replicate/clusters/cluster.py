"""Where towers and variables are while a TensorFlow cluster trains a model.

Every worker of a cluster with parameter servers builds a graph of its own. Its towers, and what
happens once per step, are on the worker's devices. Variables of the model are on the parameter
servers, where TensorFlow deals them out; what belongs to one worker's step stays with the worker.

TensorFlow gives each operation its job and task after all other device scopes, where these leave
both open. So towers' devices must not name a job, and what is to be elsewhere must.
"""

import contextlib
import contextvars
import json
import os
from typing import NamedTuple

import tensorflow.compat.v1 as tf

TRAINERS = ("master", "chief", "worker")
PS_DEVICE = "/job:ps/device:CPU:0"  # TensorFlow adds the task.

_LOCAL = (tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES)
_worker = contextvars.ContextVar("replicate_worker", default="")


class Cluster(NamedTuple):
    """What a graph must know of its cluster."""

    worker: str = ""
    """Device string of the task that runs the towers, without a device; empty outside a cluster."""
    has_ps: bool = False

    @classmethod
    def of(cls, config):
        """Returns the cluster of a `RunConfig`; of None, none."""
        if not getattr(config, "num_ps_replicas", 0) or config.task_type not in TRAINERS:
            return cls()
        return cls(f"/job:{config.task_type}/task:{config.task_id}", has_ps=True)

    def check(self, devices, consolidation_device, variable_placement):
        """Raises unless this worker can have its towers on these devices.

        Args:
            devices: Canonical strings of the towers' devices.
            consolidation_device: Likewise.
            variable_placement: As `replicate_model_fn` takes it.

        Raises:
            ValueError: If a device names a job, or variables are to be on the towers' devices.
        """
        if not self.has_ps:
            return
        named = [name for name in [*devices, consolidation_device] if "/job:" in name]
        if named:
            raise ValueError(
                "In a cluster, the towers of a worker are on the worker's own devices, so "
                f"`devices` and `consolidation_device` must not name a job, but {named[0]} does. "
                "Pass e.g. '/gpu:0', which every worker takes for its own."
            )
        if variable_placement not in ("consolidation", "auto"):
            raise ValueError(
                "In a cluster, variables are on its parameter servers, but got "
                f"`variable_placement` {variable_placement!r}. Leave it out."
            )

    @contextlib.contextmanager
    def building(self):
        """A scope in which a step's own variables, such as those of metrics, are on its worker."""
        if not self.has_ps:
            yield
            return

        def create(next_creator, **kwargs):
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


def worker_here():
    """Returns the device string of the worker that builds a model here; empty of no cluster."""
    return _worker.get()


def this_task():
    """Returns the cluster that TF_CONFIG describes and the job and index of this process.

    Returns:
        Dictionary of lists of addresses by job, str and int; of no or a wrong description, an empty
        one and None twice. The Estimator says what is wrong with it.
    """
    try:
        given = json.loads(os.environ.get("TF_CONFIG") or "{}")
        task = given.get("task", {})
        return given.get("cluster", {}), task["type"], int(task.get("index", 0))
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}, None, None


def is_chief(config):
    """Whether this process is the one that saves.

    If a strategy trains in a cluster, the `RunConfig` of the program takes every worker for that.

    Args:
        config: The `RunConfig`.
    """
    cluster, job, index = this_task()
    if not config.is_chief or job is None:
        return config.is_chief
    return job in ("chief", "master") or (job == "worker" and index == 0 and "chief" not in cluster)


def device_filters():
    """Returns the jobs that sessions of this process may wait for.

    They are those that an Estimator gives sessions that are not configured: without them, a worker
    could not start while another one is down. An empty list outside of a cluster with parameter
    servers.
    """
    cluster, job, index = this_task()
    if "ps" not in cluster or job not in TRAINERS:
        return []
    return ["/job:ps", f"/job:worker/task:{index}" if job == "worker" else f"/job:{job}"]
