"""`train`: trains a network alone, and tells how accurate it is."""

import json

from examples.classifiers import commands
from examples.nas_search.commands import PROGRAM
from examples.nas_search.training import train_flags
from examples.runs import flags
from examples.runs.command_line import say


def add_flags(parser):
    """Adds the command's flags to an `argparse` parser."""
    flags.add_flags(parser, (train_flags.MODE, *train_flags.FLAGS), train_flags.PRESETS)


def main(args):
    """Trains a network, and evaluates it; prints its metrics as JSON.

    In a cluster, chief and workers train, and the evaluator evaluates, whatever the mode is.

    Args:
        args: Namespace with what `add_flags` adds.

    Returns:
        Exit status: 0, or `INTERRUPTED` if it was stopped before the end. A parameter server
        serves, and does not return.
    """
    # Here, because they import TensorFlow: flags are checked without.
    from examples.nas_search.training import mobile_train_eval, train_settings
    from examples.runs import cluster

    task = cluster.this_task()
    if task.task_type == "ps":
        cluster.serve(task)
    given = dict(vars(args))
    mode = given.pop("mode", train_flags.MODE.default)
    if task.task_type == "evaluator" or task.num_ps_replicas:
        # Who trains in a cluster has its variables elsewhere; who evaluates is not one of them.
        mode = "eval" if task.task_type == "evaluator" else "train"
    params = train_settings.resolve(**given)
    if mode == "eval":
        for metrics in mobile_train_eval.evaluate_checkpoints(params):
            print(json.dumps(metrics, sort_keys=True), flush=True)
        return 0
    mobile_train_eval.check(params)  # before anything is announced
    if params["search_dir"]:
        tell_if_searching(params["search_dir"])
    network = f"{params['ssd']} {params['indices']}".strip()
    where = params["tpu"] if params["use_tpu"] else _count(params["num_towers"], "tower")
    say(f"Training {network} on {where}: {params['max_global_step']:,} steps.")

    def train():
        if mode == "train_and_eval":
            return mobile_train_eval.train_network(params)
        if not mobile_train_eval.train(params):
            raise KeyboardInterrupt
        return None

    return commands.train(PROGRAM, params, train)


def tell_if_searching(directory):
    """Tells that another network may be found yet, if the search in a directory goes on."""
    from examples.nas_search.search import strategies
    from examples.runs import settings_file

    settings = settings_file.read(directory)
    step = strategies.steps_done(directory, settings)
    end = settings.get("max_global_step", step)
    if step < end:
        say(f"The search in {directory} is at step {step:,} of {end:,}: this is no final result.")


def _count(number, thing):
    return f"{number} {thing}{'s' * (number != 1)}"
