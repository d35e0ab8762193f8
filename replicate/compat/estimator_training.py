"""Replaces `tensorflow.python.distribute.estimator_training`, gone but needed by the Estimator.

The Estimator calls it if a `RunConfig` has a `tf.distribute` strategy. On a single host there is
nothing to do. In a cluster, each worker runs `train_and_evaluate` separately, under TensorFlow's
coordinator of strategies, which still exists: it makes the server of the worker, and tells the
strategy about the cluster.
"""

from __future__ import annotations

import copy
from typing import Any, Callable, Mapping

import tensorflow.compat.v1 as tf
from tensorflow.python.distribute import distribute_coordinator as coordinator
from tensorflow.python.distribute import distribute_coordinator_context as contexts

_MODE = coordinator.CoordinatorMode.INDEPENDENT_WORKER
_TRAINERS = ("chief", "worker")  # In the order of global ids.


def init_run_config(config: Any, tf_config: Mapping[str, Any]) -> None:
    """Completes a `RunConfig` that has a strategy.

    Args:
        config: The `RunConfig`.
        tf_config: The value of the environment variable TF_CONFIG, a dict.

    Raises:
        NotImplementedError: If one process would have to train on all hosts of a cluster.
        ValueError: If strategies are given twice.
    """
    experimental = config._experimental_distribute
    for name in ("train_distribute", "eval_distribute"):
        given = getattr(experimental, name, None)
        if given is not None:
            if getattr(config, f"_{name}") is not None:
                raise ValueError(
                    f"A strategy must be given once, but `RunConfig` has `{name}` and "
                    f"`experimental_distribute.{name}`. Leave one of them out."
                )
            setattr(config, f"_{name}", given)
    if getattr(experimental, "remote_cluster", None) is not None:
        raise NotImplementedError(
            "Every worker of a cluster must run the program with a TF_CONFIG of its own since "
            "TensorFlow 2.16, but `experimental_distribute` has a `remote_cluster`, which one "
            "process was to train on. Leave it out and set TF_CONFIG; or use TensorFlow 2.15."
        )
    cluster = tf.train.ClusterSpec(tf_config.get("cluster", {}))
    if cluster.jobs and "master" not in cluster.jobs and config._train_distribute is not None:
        config._init_distributed_setting_from_environment_var({})
        config._cluster_spec = cluster
        config._distribute_coordinator_mode = _MODE
        return
    config._distribute_coordinator_mode = None
    config._init_distributed_setting_from_environment_var(tf_config)
    config._maybe_overwrite_session_config_for_distributed_training()


def should_run_distribute_coordinator(config: Any) -> bool:
    """Whether workers of a cluster train with this `RunConfig` by a strategy."""
    is_asked = getattr(config, "_distribute_coordinator_mode", None) is not None
    return is_asked and bool(config.cluster_spec)


def train_and_evaluate(
    estimator: Any, train_spec: Any, eval_spec: Any, executor_cls: Callable[..., Any]
) -> None:
    """Runs this process's task of the cluster.

    Args:
        estimator: The Estimator.
        train_spec: The `TrainSpec`.
        eval_spec: The `EvalSpec`, for the evaluator.
        executor_cls: The Estimator's class that evaluates continuously.
    """

    def train(strategy: tf.distribute.Strategy | None) -> None:
        copied = _for_this_task(estimator, "train", strategy)
        copied.train(train_spec.input_fn, list(train_spec.hooks), max_steps=train_spec.max_steps)

    def evaluate(strategy: tf.distribute.Strategy | None) -> None:
        copied = _for_this_task(estimator, "eval", strategy)
        executor_cls(copied, train_spec, eval_spec)._start_continuous_evaluation()

    config = estimator.config
    coordinator.run_distribute_coordinator(
        train,
        config.train_distribute,
        evaluate,
        config.eval_distribute,
        mode=_MODE,
        session_config=config.session_config,
    )


def estimator_train(estimator: Any, train_distributed_fn: Any, hooks: Any) -> None:
    """Refuses `Estimator.train` in a cluster with a strategy.

    Raises:
        ValueError: Always.
    """
    del estimator, train_distributed_fn, hooks
    raise ValueError(_ONLY_BOTH.format("train"))


def estimator_evaluate(estimator: Any, evaluate_distributed_fn: Any, hooks: Any) -> None:
    """Refuses `Estimator.evaluate` in a cluster with a strategy.

    Raises:
        ValueError: Always.
    """
    del estimator, evaluate_distributed_fn, hooks
    raise ValueError(_ONLY_BOTH.format("evaluate"))


_ONLY_BOTH = (
    "In a cluster, a strategy trains by `tf.estimator.train_and_evaluate`, which every task calls, "
    "but `Estimator.{}` was called. Call that instead, or drop `train_distribute`."
)


def _for_this_task(estimator: Any, purpose: str, strategy: tf.distribute.Strategy | None) -> Any:
    """Returns a copy of an Estimator with this task's place in the cluster, without a coordinator.

    Args:
        estimator: The Estimator.
        purpose: `'train'` or `'eval'`.
        strategy: The strategy for that, or None.
    """
    copied = copy.deepcopy(estimator)
    config, context = copied._config, contexts.get_current_worker_context()
    setattr(config, f"_{purpose}_distribute", strategy)
    setattr(copied, f"_{purpose}_distribution", strategy)
    config._distribute_coordinator_mode = None
    config._service = None
    config._task_type, config._task_id = context.task_type, context.task_id
    config._master = config._evaluation_master = context.master_target
    config._is_chief = context.is_chief
    if context.task_type == "evaluator":  # It works without the other tasks.
        config._cluster_spec = tf.train.ClusterSpec({})
        config._num_ps_replicas = config._num_worker_replicas = 0
        config._global_id_in_cluster = None
        return copied
    cluster = context.cluster_spec
    tasks = [
        (job, index)
        for job in _TRAINERS
        if job in cluster.jobs
        for index in range(cluster.num_tasks(job))
    ]
    config._cluster_spec = cluster
    config._num_ps_replicas = cluster.num_tasks("ps") if "ps" in cluster.jobs else 0
    config._num_worker_replicas = len(tasks)
    config._global_id_in_cluster = tasks.index((context.task_type, context.task_id))
    return copied
