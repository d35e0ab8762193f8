"""`search`: searches for a network that is as accurate as can be at a given cost."""

from examples.nas_search.commands import PROGRAM
from examples.nas_search.search import search_flags
from examples.runs import flags
from examples.runs.command_line import INTERRUPTED


def add_flags(parser):
    """Adds the command's flags to an `argparse` parser."""
    flags.add_flags(parser, search_flags.FLAGS, search_flags.PRESETS)


def main(args):
    """Searches, or resumes.

    Args:
        args: Namespace with what `add_flags` adds.

    Returns:
        Exit status: 0 if the search is at its end, `INTERRUPTED` if it was stopped before. In a
        cluster, of what this task does of it: a parameter server serves and does not return.
    """
    # Here, because they import TensorFlow: flags are checked without.
    from examples.nas_search.search import search_costs, search_loop, search_settings, strategies
    from examples.runs import cluster

    task = cluster.this_task()
    if task.task_type == "ps":
        cluster.serve(task)
    if task.task_type == "evaluator":
        _say("A search is not evaluated: its evaluator has nothing to do.")
        return 0
    params = search_settings.resolve(**vars(args))
    directory = params["checkpoint_dir"]
    search_settings.check_same(params)  # before anything is announced
    start, end = strategies.steps_done(directory, params), params["max_global_step"]
    if start < end:
        _say(_plan(params, start, task))
        costs = search_costs.load(params, keep=False) if params["enable_cost_model"] else []
        for cost in costs:
            weight = f", weight {cost.weight:.3g}" if len(costs) > 1 else ""
            _say(f"Cost: {cost}{weight}.")
    is_done = search_loop.run(params)
    if not cluster.writes(task):
        return 0 if is_done else INTERRUPTED
    if is_done:
        _say(f"At its end, step {end:,}. What it found:")
        _say(f"    {PROGRAM.command_line('analyze', '--dirname', directory)}")
        return 0
    step = strategies.steps_done(directory, params)
    _say(f"Stopped and saved at step {step:,} of {end:,}. Go on with")
    _say(f"    {PROGRAM.command_line('search', *flags.given_arguments(args))}")
    return INTERRUPTED


def _plan(params, start, task):
    where = params["tpu"] if params["use_tpu"] else _count(params["num_towers"], "tower")
    if task.num_ps_replicas:
        where += f" of each of {_count(task.num_worker_replicas, 'worker')}"
    end = params["max_global_step"]
    steps = f"from step {start:,} to {end:,}" if start else _count(end, "step")
    space = params.get("ssd_file") or params["ssd"]
    return f"Searching {space} on {where}, {steps}. The first takes a while."


def _count(number, noun):
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _say(line):
    print(line, flush=True)
