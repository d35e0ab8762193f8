"""This process as one task of a TensorFlow cluster, if TF_CONFIG says that it is.

All tasks run the same command. The chief and the workers train, each on towers and images of its
own; what they train is on the parameter servers, which do nothing else than hold it. Workers do not
wait for one another. A global step is that of one worker. The chief alone *writes* what a run
leaves, and shows how it goes. Without TF_CONFIG, a process is chief of nobody else.
"""

import tensorflow.compat.v1 as tf

from examples.runs.flags import SettingsError
from replicate import estimator
from replicate.clusters.cluster import Cluster
from replicate.hooks import StallHook

_JOBS = ("chief", "worker", "ps", "evaluator")


def this_task():
    """Returns a `RunConfig`, which tells the task that this process is.

    Raises:
        SettingsError: If TF_CONFIG describes no cluster, or one in which nothing can be trained.
    """
    try:
        config = estimator.RunConfig()
    except (AttributeError, TypeError, ValueError) as error:
        raise SettingsError(
            "TF_CONFIG must describe a cluster, and which of its tasks this process is, but does "
            f"not: {error} Correct it, or unset it to train without a cluster."
        ) from error
    if config.task_type not in _JOBS:
        raise SettingsError(
            f"The tasks of a cluster must be {', '.join(_JOBS)}, but TF_CONFIG says that this one "
            f"is {config.task_type!r}. Call one that is master the chief."
        )
    if config.num_worker_replicas > 1 and not config.num_ps_replicas:
        raise SettingsError(
            "Workers share what they train through parameter servers, but the cluster of TF_CONFIG "
            f"has {config.num_worker_replicas} workers and no ps. Add one, or train on the "
            "towers of one host: unset TF_CONFIG."
        )
    return config


def refuse(what):
    """Raises if TF_CONFIG makes this process a task of a cluster of several.

    Args:
        what: What cannot be trained there, a str.

    Raises:
        SettingsError: If it does.
    """
    if this_task().cluster_spec:
        raise SettingsError(
            f"{what} trains on the devices of one host, but TF_CONFIG describes a cluster. Unset "
            "it."
        )


def serve(task):
    """Serves as a parameter server, until the process is killed.

    Args:
        task: What `this_task` returned.
    """
    # It holds variables in the memory of the host; GPUs are for workers on the same one.
    without_gpus = tf.ConfigProto(device_count={"GPU": 0})
    tf.train.Server(
        task.cluster_spec, task.task_type, task.task_id, config=without_gpus, protocol=task.protocol
    ).join()


def writes(config):
    """Returns whether a process writes what a run leaves: as chief, or without other workers.

    Args:
        config: The `RunConfig` of its Estimator; None: there are no others.
    """
    return not Cluster.from_config(config).has_ps or config.is_chief


def train(training, input_fn, max_steps, hooks):
    """Trains an Estimator, in a cluster as the task of it that this process is.

    Args:
        training: The Estimator.
        input_fn: As `Estimator.train` takes it.
        max_steps: Global step at which training ends, the steps of all workers.
        hooks: List of session hooks.
    """
    config = training.config
    if not Cluster.from_config(config).has_ps:
        training.train(input_fn, max_steps=max_steps, hooks=hooks)
        return
    # This starts the server of the task. Only an evaluator evaluates.
    estimator.train_and_evaluate(
        training,
        estimator.TrainSpec(input_fn, max_steps, hooks=[*hooks, StallHook(config)]),
        estimator.EvalSpec(input_fn),
    )
