"""The directory of an export: written as a whole or not at all, and over nothing."""

import contextlib
import os

import tensorflow.compat.v1 as tf

from examples.runs.errors import UserError


@contextlib.contextmanager
def partial(export_dir):
    """Context with a directory beside `export_dir` to write into; it is gone at the end.

    Args:
        export_dir: Path of a directory that is not there yet, or empty.

    Yields:
        Path of a new directory. `publish` makes a part of it the export.

    Raises:
        UserError: If `export_dir` is in use, or no directory can be made there.
    """
    if tf.io.gfile.exists(export_dir) and (
        not tf.io.gfile.isdir(export_dir) or tf.io.gfile.listdir(export_dir)
    ):
        raise UserError(
            f"--export_dir must be a new directory, so that nothing is overwritten, but "
            f"{export_dir} is there already. Name another one, or remove it."
        )
    directory = f"{export_dir.rstrip('/')}.partial-{os.getpid()}"
    try:
        tf.io.gfile.makedirs(directory)
    except tf.errors.OpError as error:
        raise UserError(
            f"--export_dir must be where a directory can be made, but {directory} cannot be: "
            f"{error.message}. Name another one."
        ) from error
    try:
        yield directory
    finally:
        tf.io.gfile.rmtree(directory)


def publish(directory, export_dir):
    """Makes a directory in a `partial` one the export."""
    if tf.io.gfile.exists(export_dir):
        tf.io.gfile.rmtree(export_dir)  # It is empty.
    tf.io.gfile.rename(directory, export_dir)
