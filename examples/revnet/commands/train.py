"""`train`: trains a network, and tells how accurate it is."""

from examples.classifiers import commands
from examples.revnet.commands import PROGRAM
from examples.revnet.training import train_flags
from examples.runs import flags
from examples.runs.command_line import say


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
    from examples.revnet.training import train_eval, train_settings

    params = train_settings.resolve(**vars(args))
    train_eval.check(params)  # before anything is announced
    end = params["max_global_step"]
    depth = train_settings.network(params).depth
    say(f"Training a RevNet of {depth} layers, engine {params['engine']}: {end:,} steps.")
    return commands.train(PROGRAM, params, lambda: train_eval.train_network(params))
