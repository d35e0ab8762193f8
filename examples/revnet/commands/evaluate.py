"""`evaluate`: tells how accurate a network is that was trained."""

import json

from examples.revnet import train_flags
from examples.runs import flags


def add_flags(parser):
    """Adds the command's flags to an `argparse` parser."""
    flags.add_flags(parser, train_flags.EVALUATE_FLAGS, {"all": {}})


def main(args):
    """Evaluates a checkpoint on every image of a part of the data; prints the metrics as JSON.

    Args:
        args: Namespace with what `add_flags` adds.

    Returns:
        Exit status: 0.
    """
    # Here, because they import TensorFlow: flags are checked without.
    from examples.revnet import train_settings, training

    given = vars(args)
    metrics = training.evaluate_network(
        train_settings.resolve_evaluation(**given), given.get("split"), given.get("checkpoint")
    )
    print(json.dumps(metrics, indent=2, sort_keys=True))
    return 0
