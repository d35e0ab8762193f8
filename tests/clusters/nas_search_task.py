"""Runs `search` or `train` as a task of a cluster, and prints its steps, and what towers draw.

    python tests/clusters/nas_search_task.py search --checkpoint_dir … [--hold_at STEPS]

With `--hold_at`, chief and worker wait for one another after their first step. After so many of
its own, the chief waits for what never comes, so that tests can kill it there, and the worker until
the chief does so.
"""

import argparse
import sys

import tensorflow.compat.v1 as tf

import replicate
from examples.nas_search.commands import PROGRAM
from examples.nas_search.search import search_loop
from examples.runs import cluster

_SAVE_STEPS = 5
_seed_of_draw, _train = search_loop.model_fn._seed_of_draw, cluster.train
_session_config = replicate.session_config
_seeds = []  # int32 [2], of tower 0: the model is called once


class PrintHook(tf.train.SessionRunHook):
    """Prints where variables are, at which step this worker begins, and what its towers draw."""

    def __init__(self, is_chief, hold_at):
        self._name, self._other = ("chief", "worker") if is_chief else ("worker", "chief")
        self._hold_at = hold_at
        self._steps = 0

    def begin(self):
        """Finds the draws of a search: of each tower, the seed and the indices of its choices."""
        for variable in tf.global_variables():
            print("variable", variable.op.name, variable.device, flush=True)
        draw = "rl_controller/independent_sample/ArgMax:0"
        graph = tf.get_default_graph()
        towers = ("", "tower_1/") if _seeds else ()
        self._draws = [graph.get_tensor_by_name(tower + draw) for tower in towers]
        self._seeds = [graph.get_tensor_by_name(tower + _seeds[0].name) for tower in towers]
        with tf.device("/job:ps/task:0/cpu:0"):
            self._call = _calls(self._other).enqueue(True)
            self._wait = _calls(self._name).dequeue()

    def after_create_session(self, session, coord):
        """Says from which step the search goes on."""
        print(f"ready at step {session.run(tf.train.get_global_step())}", flush=True)

    def before_run(self, run_context):
        """Asks for the step and the draws."""
        return tf.train.SessionRunArgs([tf.train.get_global_step(), self._seeds, self._draws])

    def after_run(self, run_context, run_values):
        """Prints them, and waits for the other."""
        step, seeds, draws = run_values.results
        print("step", step, flush=True)
        for (_, number), draw in zip(seeds, draws):
            print("drew", number, ",".join(map(str, draw)), flush=True)
        self._steps += 1
        if self._steps in (1, self._hold_at) and self._hold_at:
            if self._steps == 1 or self._name == "chief":
                run_context.session.run(self._call)
            run_context.session.run(self._wait)


def _calls(name):
    """Returns the queue of what chief or worker waits for."""
    return tf.FIFOQueue(2, [tf.bool], [[]], shared_name=f"calls_of_{name}")


def _kept_seed(*args):
    _seeds.append(_seed_of_draw(*args))
    return _seeds[-1]


def _quick_session_config(devices):
    """Returns a configuration without what takes longer than the few steps: optimised graphs."""
    config = _session_config(devices)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config


def main():
    """Runs the command."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--hold_at", type=int)
    args, argv = parser.parse_known_args()

    def train(training, input_fn, max_steps, hooks):
        is_chief, directory = training.config.is_chief, training.config.model_dir
        more = [PrintHook(is_chief, args.hold_at)]
        if is_chief:
            saver = tf.train.CheckpointSaverHook(
                directory, save_steps=_SAVE_STEPS, save_graph_def=False
            )
            more.append(saver)
        _train(training, input_fn, max_steps, [*hooks, *more])

    cluster.train, search_loop.model_fn._seed_of_draw = train, _kept_seed
    replicate.session_config = _quick_session_config
    return PROGRAM.main(argv)


if __name__ == "__main__":
    sys.exit(main())
