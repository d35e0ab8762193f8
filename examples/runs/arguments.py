"""Values of command lines of `argparse`: an error that names the flag, before anything is done.

Importing this imports no TensorFlow, so that a command line answers at once.
"""

import argparse
import os
import pathlib


def at_least(least):
    """Returns the type of whole numbers from `least` on."""

    def parse(text):
        try:
            value = int(text)
        except ValueError:
            value = None
        if value is None or value < least:
            raise argparse.ArgumentTypeError(
                f"must be a whole number from {least:,} on, but is {text!r}"
            )
        return value

    return parse


def make_directory(parser, flag, path):
    """Makes a directory, unless it is there; ends with an error of the parser if it cannot.

    Args:
        parser: The `argparse.ArgumentParser`.
        flag: Name of the flag, for the message.
        path: The directory, a string or a path. One of another file system, such as
            `gs://bucket/model`, is left to TensorFlow.

    Returns:
        Its `pathlib.Path`.
    """
    if "://" in str(path):
        return pathlib.Path(path)
    path = pathlib.Path(path)
    reason = None
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror
    if reason is None and not os.access(path, os.W_OK | os.X_OK):
        reason = "Permission denied"
    if reason:
        parser.error(
            f"{flag} must be a directory that can be written to, but {path} cannot: {reason}. Name "
            "another one."
        )
    return path


def check_devices(parser, devices):
    """Ends with an error of the parser if sessions of this host cannot have `devices`."""
    import replicate  # Which imports TensorFlow.

    try:
        replicate.session_config(devices)
    except ValueError as error:
        parser.error(f"--devices: {error}")
