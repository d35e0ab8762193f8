"""`evaluate`: tells how accurate a network is that was trained alone."""

from examples.classifiers import commands
from examples.runs import flags, training_flags
from examples.runs.command_line import say
from examples.runs.errors import UserError


def add_flags(parser):
    """Adds the command's flags to an `argparse` parser."""
    flags.add_flags(parser, training_flags.EVALUATE, {"all": {}})


def main(args):
    """Evaluates a checkpoint on every image of a part of the data; prints the metrics as JSON.

    Leaves them beside the checkpoint, too, for the model card of an export.

    Args:
        args: Namespace with what `add_flags` adds.

    Returns:
        Exit status: 0.
    """
    # Here, because they import TensorFlow: flags are checked without.
    from examples.nas_search.training import mobile_train_eval, train_settings
    from examples.runs import settings_file

    def run(params, split, checkpoint):
        metrics = mobile_train_eval.evaluate_network(params, split, checkpoint)
        name = mobile_train_eval.EVALUATED.format(metrics["split"])
        try:
            settings_file.write_json(metrics, params["checkpoint_dir"], name)
        except UserError as error:  # Results of others may be read-only.
            say(f"No {name}, for the model card of an export: {error}")
        return metrics

    return commands.evaluate(args, train_settings.resolve_evaluation, run)
