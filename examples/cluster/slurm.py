"""Runs `examples.cluster.train` as a task of a Slurm job, which has no TF_CONFIG.

    srun python -m examples.cluster.slurm --workers 4 --ps 1 --model_dir /shared/digits

The tasks of the job step are, in this order: the chief, the evaluator, parameter servers, workers.
All other flags are those of `examples.cluster.train`. See `docs/clusters.md`.
"""

import argparse
import json
import os
import sys

import tensorflow.compat.v1 as tf

from examples.cluster import train
from examples.digits import quiet_tensorflow


def tf_config(workers, ps, port):
    """Returns TF_CONFIG for this task, a dict.

    Args:
        workers: How many workers there are, the chief among them.
        ps: How many parameter servers there are.
        port: The port of the first task on a host; the next ones have those after it.
    """
    jobs = {"chief": 1, "ps": ps, "worker": workers - 1, "evaluator": 1}
    jobs = {job: tasks for job, tasks in jobs.items() if tasks}
    # Which GPUs a task has is for Slurm to say, by CUDA_VISIBLE_DEVICES; here there need only be
    # one for each task of a host, to be counted.
    resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
        jobs, port, gpus_per_node=sum(jobs.values()), gpus_per_task=1, auto_set_gpu=False
    )
    cluster = resolver.cluster_spec().as_dict()
    job, index = resolver.get_task_info()
    del cluster["evaluator"]  # It only reads checkpoints.
    return {"cluster": cluster, "task": {"type": job, "index": index}}


def main(argv=None):
    """Runs the task that Slurm's environment describes; returns the exit status."""
    args, flags = make_parser().parse_known_args(argv)
    os.environ["TF_CONFIG"] = json.dumps(tf_config(args.workers, args.ps, args.port))
    return train.main(flags)


def make_parser():
    """Returns the parser of the flags that `examples.cluster.train` does not know."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2, help="the chief among them")
    parser.add_argument("--ps", type=int, default=1, help="parameter servers")
    parser.add_argument("--port", type=int, default=8888, help="of the first task on a host")
    return parser


if __name__ == "__main__":
    quiet_tensorflow()
    sys.exit(main())
