"""What the Estimator asks `tensorflow.python.distribute.estimator_training` for, which is gone.

It is asked when a `RunConfig` has a `tf.distribute` strategy. On a single host a strategy needs
nothing more; strategies that span the workers of a cluster needed a coordinator, and are refused.
"""

import tensorflow.compat.v1 as tf


def init_run_config(config, tf_config):
    """Completes a `RunConfig` that has a strategy.

    Args:
        config: The `RunConfig`.
        tf_config: What the environment variable TF_CONFIG says, a dict.

    Raises:
        NotImplementedError: If the strategy would span a cluster.
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
    jobs = tf.train.ClusterSpec(tf_config.get("cluster", {})).jobs
    is_remote = getattr(experimental, "remote_cluster", None) is not None
    if is_remote or (jobs and "master" not in jobs and config._train_distribute is not None):
        raise NotImplementedError(
            "A `tf.distribute` strategy in an Estimator cannot span the workers of a cluster "
            f"(TF_CONFIG has the jobs {sorted(jobs)}) since TensorFlow 2.16. Leave "
            "`train_distribute` out, so that workers train through parameter servers, each with "
            "towers of its own; or use TensorFlow 2.15."
        )
    config._distribute_coordinator_mode = None
    config._init_distributed_setting_from_environment_var(tf_config)
    config._maybe_overwrite_session_config_for_distributed_training()


def should_run_distribute_coordinator(config):
    """Returns False: what would need the coordinator was refused by `init_run_config`."""
    return False
