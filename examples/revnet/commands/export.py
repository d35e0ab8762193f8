"""`export`: makes a SavedModel of a network that was trained."""

from examples.classifiers import commands
from examples.runs import flags, training_flags


def add_flags(parser):
    """Adds the command's flags to an `argparse` parser."""
    flags.add_flags(parser, training_flags.EXPORT, {"all": {}})


def main(args):
    """Exports a network; tells what was written, and how it is used.

    Args:
        args: Namespace with what `add_flags` adds.

    Returns:
        Exit status: 0.
    """
    given = flags.with_defaults(vars(args), training_flags.EXPORT, {})
    # Here, because they import TensorFlow: flags are checked without.
    from examples.revnet import export
    from examples.revnet.training import train_settings

    directory = given["export_dir"].rstrip("/")
    params = train_settings.resolve_evaluation(checkpoint_dir=given["checkpoint_dir"])
    record = export.export_network(params, directory, given["checkpoint"])
    title = f"{record['preset']}, {record['depth']} layers"
    commands.print_export(record, directory, title, f"{record['params']:,} weights")
    return 0
