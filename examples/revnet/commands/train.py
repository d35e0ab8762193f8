"""`train`: trains a network, and tells how accurate it is."""

import json
import sys

from examples.revnet import train_flags
from examples.revnet.commands import PROGRAM
from examples.runs import flags
from examples.runs.program import INTERRUPTED


def add_flags(parser):
    """Adds the command's flags to an `argparse` parser."""
    flags.add_flags(parser, train_flags.FLAGS, train_flags.DEFAULTS)


def main(args):
    """Trains a network, and evaluates it; prints its metrics as JSON.

    Args:
        args: Namespace with what `add_flags` adds.

    Returns:
        Exit status: 0, or `INTERRUPTED` if it was stopped before the end.
    """
    # Here, because they import TensorFlow: flags are checked without.
    from examples.revnet import train_settings, training
    from examples.runs import checkpoints

    params = train_settings.resolve(**vars(args))
    directory, end = params["checkpoint_dir"], params["max_global_step"]
    depth = train_settings.network(params).depth
    _say(f"Training a RevNet of {depth} layers, engine {params['engine']}: {end:,} steps.")
    try:
        metrics = training.train_network(params)
    except KeyboardInterrupt:
        step = checkpoints.latest_step(directory)
        if step:
            _say(f"Stopped; saved at step {step:,} of {end:,}. The same command goes on there.")
        else:
            _say(f"Stopped before the first of {end:,} steps. The same command begins anew.")
        return INTERRUPTED
    _say(f"Written to {directory}/{training.METRICS}.")
    print(json.dumps(metrics, indent=2, sort_keys=True))
    _say("To make a SavedModel of it:")
    exported = f"{directory.rstrip('/')}-exported"
    made = ("export", "--checkpoint_dir", directory, "--export_dir", exported)
    _say(f"    {PROGRAM.command_line(*made)}")
    return 0


def _say(line):
    print(line, file=sys.stderr, flush=True)
