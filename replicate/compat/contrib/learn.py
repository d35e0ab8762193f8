"""Modes and the configuration of runs of `tf.contrib.learn`."""

from __future__ import annotations

import json
import os
from typing import Any

import tensorflow.compat.v1 as tf

from replicate.compat.estimator import api


class ModeKeys:
    """What a `model_fn` is called for; these are the modes of `tf.estimator`, too."""

    TRAIN = "train"
    EVAL = "eval"
    INFER = "infer"  # Which `tf.estimator.ModeKeys` calls PREDICT.

    @classmethod
    def validate(cls, key: str) -> None:
        """Raises a ValueError if a mode is none of the three.

        Args:
            key: The mode.

        Raises:
            ValueError: If it is none.
        """
        if key not in (cls.TRAIN, cls.EVAL, cls.INFER):
            raise ValueError(f"A mode is one of `ModeKeys`, but got {key!r}.")


class TaskType:
    """What a task of a cluster can be."""

    MASTER = "master"
    PS = "ps"
    WORKER = "worker"


class RunConfig(api().RunConfig):  # type: ignore[misc]
    """The configuration of a run, for an Estimator of `tf.estimator`.

    Args:
        master: Address of the session's target.
        num_cores: Of `tf_config`, how many threads operations and their parts run in; 0 for all.
        log_device_placement: Of `tf_config`, whether to log where operations run.
        gpu_memory_fraction: Of `tf_config`, how much of a GPU's memory to take.
        tf_random_seed: The seed of the graph.
        save_summary_steps: How many steps there are from summaries to summaries.
        save_checkpoints_secs: Likewise checkpoints, in seconds; 0 for 600, or none if there are
            steps.
        save_checkpoints_steps: Likewise checkpoints, in steps.
        keep_checkpoint_max: How many checkpoints are kept.
        keep_checkpoint_every_n_hours: How often one is kept for ever.
        log_step_count_steps: How many steps there are from one log of their speed to the next.
        protocol: Of servers.
        evaluation_master: Address of the session's target for evaluation.
        model_dir: Where checkpoints are.
        session_config: The session's, which `tf_config` is not: as in TensorFlow 1.15, Estimators
            of `tf.estimator` do not ask for that.
        session_creation_timeout_secs: How long to wait for a session.

    Raises:
        ValueError: If `TF_CONFIG` has a cluster, whose tasks `tf.contrib.learn` counted otherwise.
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
            # Of which the other takes but one.
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
        self._num_worker_replicas = 0  # As there were without a cluster.
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
        """The session's configuration of `tf.contrib.learn`'s own Estimators."""
        return self._tf_config
