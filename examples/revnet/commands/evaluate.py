"""`evaluate`: tells how accurate a network is that was trained."""

from examples.classifiers import commands
from examples.runs import flags, training_flags


def add_flags(parser):
    """Adds the command's flags to an `argparse` parser."""
    flags.add_flags(parser, training_flags.EVALUATE, {"all": {}})


def main(args):
    """Evaluates a checkpoint on every image of a part of the data; prints the metrics as JSON.

    Args:
        args: Namespace with what `add_flags` adds.

    Returns:
        Exit status: 0.
    """
    # Here, because they import TensorFlow: flags are checked without.
    from examples.revnet.training import train_eval, train_settings

    evaluate_network = train_eval.evaluate_network
    return commands.evaluate(args, train_settings.resolve_evaluation, evaluate_network)
