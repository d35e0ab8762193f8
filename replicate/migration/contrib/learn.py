"""Modes and the configuration of runs of `tf.contrib.learn`."""

from __future__ import annotations

import json
import os
from typing import Any

import tensorflow.compat.v1 as tf

from replicate.compat.estimator import api


class ModeKeys:
    """Modes of a `model_fn`, with the values of `tf.estimator.ModeKeys`."""

    TRAIN = "train"
    EVAL = "eval"
    INFER = "infer"  # `PREDICT` in `tf.estimator.ModeKeys`.

    @classmethod
    def validate(cls, key: str) -> None:
        """Checks a mode.

        Args:
            key: The mode.

        Raises:
            ValueError: If it is none of the three.
        """
        if key not in (cls.TRAIN, cls.EVAL, cls.INFER):
            raise ValueError(f"A mode is one of `ModeKeys`, but got {key!r}.")


class TaskType:
    """Types of tasks of a cluster."""

    MASTER = "master"
    PS = "ps"
    WORKER = "worker"


class RunConfig(api().RunConfig):  # type: ignore[misc]
    """The configuration of a run, for an Estimator of `tf.estimator`.

    Args:
        master: Address of the session's target.
        num_cores: Number of threads within and between operations in `tf_config`; 0 for all.
        log_device_placement: Whether `tf_config` makes a session log the devices of operations.
        gpu_memory_fraction: Share of a GPU's memory in `tf_config`.
        tf_random_seed: The seed of the graph.
        save_summary_steps: Steps between summaries.
        save_checkpoints_secs: Seconds between checkpoints; 0 means 600, or none if
            `save_checkpoints_steps` is given.
        save_checkpoints_steps: Steps between checkpoints.
        keep_checkpoint_max: Number of checkpoints to keep.
        keep_checkpoint_every_n_hours: Hours between checkpoints that are kept forever.
        log_step_count_steps: Steps between logs of the speed.
        protocol: Protocol of servers.
        evaluation_master: Address of the session's target for evaluation.
        model_dir: Directory of checkpoints.
        session_config: Configuration of sessions. Estimators of `tf.estimator` use this one, not
            `tf_config`, as in TensorFlow 1.15.
        session_creation_timeout_secs: Timeout of the creation of a session, in seconds.

    Raises:
        ValueError: If `TF_CONFIG` has a cluster, whose tasks `tf.contrib.learn` counts differently.
    """

    _USE_DEFAULT = 0

    def __init__(
        self,
        master: str | None = None,
        num_cores: int = 0,
        log_device_placement: bool = False,
        gpu_memory_fraction: float = 1,
        tf_random_seed: int | None = None,
        save_summary_steps: int = 100,
        save_checkpoints_secs: int | None = _USE_DEFAULT,
        save_checkpoints_steps: int | None = None,
        keep_checkpoint_max: int = 5,
        keep_checkpoint_every_n_hours: int = 10000,
        log_step_count_steps: int = 100,
        protocol: str | None = None,
        evaluation_master: str = "",
        model_dir: str | None = None,
        session_config: Any = None,
        session_creation_timeout_secs: int = 7200,
    ) -> None:
        cluster = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster")
        if cluster:
            raise ValueError(
                "tf.contrib.learn.RunConfig takes no cluster here, for it counted tasks otherwise "
                f"than tf.estimator, but TF_CONFIG has {cluster}. Write tf.estimator.RunConfig."
            )
        given = {"save_checkpoints_secs": save_checkpoints_secs}
        if save_checkpoints_secs == self._USE_DEFAULT:
            given = {"save_checkpoints_secs": None if save_checkpoints_steps else 600}
        if save_checkpoints_steps is not None:
            given["save_checkpoints_steps"] = save_checkpoints_steps
            # The base class accepts only one of the two.
            if given["save_checkpoints_secs"] is None:
                del given["save_checkpoints_secs"]
        super().__init__(
            model_dir=model_dir,
            tf_random_seed=tf_random_seed,
            save_summary_steps=save_summary_steps,
            session_config=session_config,
            keep_checkpoint_max=keep_checkpoint_max,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
            log_step_count_steps=log_step_count_steps,
            protocol=protocol,
            session_creation_timeout_secs=session_creation_timeout_secs,
            **given,
        )
        self._session_config = session_config
        self._num_worker_replicas = 0  # The value of `tf.contrib.learn` without a cluster.
        self._master = master or ""
        self._evaluation_master = evaluation_master or ""
        self._tf_config = tf.ConfigProto(
            log_device_placement=log_device_placement,
            inter_op_parallelism_threads=num_cores,
            intra_op_parallelism_threads=num_cores,
            gpu_options=tf.GPUOptions(per_process_gpu_memory_fraction=gpu_memory_fraction),
        )

    @property
    def tf_config(self) -> tf.ConfigProto:
        """The session configuration of `tf.contrib.learn`'s Estimators."""
        return self._tf_config
