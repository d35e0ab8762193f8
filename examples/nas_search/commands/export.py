"""`export`: makes a SavedModel of a network that was trained alone, with its model card."""

from examples.classifiers import commands
from examples.runs import flags, training_flags
from examples.runs.flags import Flag, SettingsError, boolean

FLAGS = (
    *training_flags.EXPORT,
    Flag("tflite", boolean, False, "whether to write model.tflite as well, for one image at once"),
    Flag(
        "tflite_quantize",
        str,
        None,
        "how model.tflite stores weights: as they are, in 8 bits, or in 16 (default: none)",
        choices=("none", "dynamic", "float16"),
    ),
)


def add_flags(parser):
    """Adds the command's flags to an `argparse` parser."""
    flags.add_flags(parser, FLAGS, {"all": {}})


def main(args):
    """Exports a network; tells what was written, and how it is used.

    Args:
        args: Namespace with what `add_flags` adds.

    Returns:
        Exit status: 0.
    """
    given = flags.with_defaults(vars(args), FLAGS, {})
    if given["tflite_quantize"] and not given["tflite"]:
        raise SettingsError(
            f"--tflite_quantize {given['tflite_quantize']} says how to write model.tflite, but "
            "none is to be written. Pass --tflite as well."
        )
    # Here, because they import TensorFlow: flags are checked without.
    from examples.nas_search.serving import export
    from examples.nas_search.training import train_settings

    directory = given["export_dir"].rstrip("/")
    quantize = (given["tflite_quantize"] or "none") if given["tflite"] else None
    params = train_settings.resolve_evaluation(checkpoint_dir=given["checkpoint_dir"], num_towers=1)
    record = export.export_network(params, directory, given["checkpoint"], quantize)
    remarks = [*_remarks(record["tflite"]), "README.md: its model card"]
    title = f"{record['ssd']} {record['indices']}".rstrip()
    size = f"{record['madds']:,} MAdds, {record['params']:,} weights"
    commands.print_export(record, directory, title, size, remarks)
    return 0


def _remarks(lite):
    if lite:
        yield (
            f"model.tflite: {lite['bytes']:,} bytes; its probabilities differ from the "
            f"SavedModel's by {lite['max_difference']:.1e} at most"
        )
