"""`export`: makes a SavedModel of a network that was trained."""

from examples.runs import flags
from examples.runs.flags import Flag

FLAGS = (
    Flag("checkpoint_dir", str, None, "where the network was trained", required=True),
    Flag("export_dir", str, None, "new directory for the SavedModel", required=True),
    Flag("checkpoint", str, None, "path of the checkpoint (default: the latest one)"),
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
    # Here, because they import TensorFlow: flags are checked without.
    from examples.revnet import export, train_settings

    directory = given["export_dir"].rstrip("/")
    params = train_settings.resolve_evaluation(checkpoint_dir=given["checkpoint_dir"])
    record = export.export_network(params, directory, given["checkpoint"])
    for line in _lines(record, directory):
        print(line)
    return 0


def _lines(record, directory):
    shape = ", ".join(map(str, record["image_shape"]))
    low, high = record["pixel_range"]
    yield f"{directory}: {record['preset']}, {record['depth']} layers"
    yield f"  step {record['global_step']:,}, {record['params']:,} weights"
    metrics = record["metrics"]
    if metrics:
        yield f"  accuracy {metrics['accuracy']:.2%} on {metrics['split']} images"
    yield f"  serving_default: images, float32 [n, {shape}], pixels from {low:g} to {high:g}"
    if len(record["signatures"]) > 1:
        yield f"  {record['signatures'][1]}: encoded_images, contents of n JPEG or PNG files"
    yield "To use it, in Python with nothing but TensorFlow:"
    yield f"    model = tf.saved_model.load({directory!r}).signatures['serving_default']"
    yield "    model(images=tf.constant(images))['classes']"
