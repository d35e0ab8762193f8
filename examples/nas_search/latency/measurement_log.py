"""Latencies in a file, to which each measurement is appended, so that measuring can be resumed.

The first line, a JSON object, says how they were measured. Each other line describes one network,
in the order in which networks were drawn:

    {"indices": "0:1:…", "ms": 0.81, "reference_ms": 0.92}
"""

import json
import math
from typing import List, NamedTuple

import tensorflow.compat.v1 as tf

from examples.runs import json_file
from examples.runs.errors import UserError


class Measured(NamedTuple):
    """A network and its latency."""

    indices: str  # the option of each choice, separated by colons
    ms: float
    reference_ms: float  # latency of the reference network in the same group


def read(path, header) -> List[Measured]:
    """Returns what has been measured so far; starts the file if there is none.

    A last line that was not written to its end is dropped, in the file, too.

    Args:
        path: Name of the file.
        header: Dict of settings and device, as JSON has it.

    Raises:
        UserError: If the file was begun with other settings or on another device, is damaged, or
            cannot be read.
    """
    text = ""
    if tf.io.gfile.exists(path):
        try:
            with tf.io.gfile.GFile(path, "rb") as file:
                text = file.read().decode(errors="replace")  # Not text, not JSON.
        except tf.errors.OpError as error:
            raise _unreadable(path, error.message) from error
    whole = text[: text.rfind("\n") + 1]
    if not whole:
        write(path, json.dumps(header) + "\n")
        return []
    first, *lines = whole.splitlines()
    try:
        before = json_file.loads(first)
        measured = [_parse(line) for line in lines]
    except (TypeError, ValueError) as error:
        raise _unreadable(path, getattr(error, "fault", repr(error))) from error
    if not isinstance(before, dict):
        raise _unreadable(path, "its first line is no object")
    _check_same(path, before, header)
    if whole != text:
        write(path, whole)
    return measured


def append(path, measured):
    """Appends `Measured` networks."""
    write(path, "".join(json.dumps(each._asdict()) + "\n" for each in measured), "a")


def check_networks(path, measured, wanted):
    """Checks that `Measured` networks are the first of those that are `wanted`, indices as texts.

    Raises:
        UserError: If they are not.
    """
    for number, (each, indices) in enumerate(zip(measured, wanted), start=2):
        if each.indices != indices:
            raise UserError(
                f"{path} must hold the networks in the order in which they are drawn, but line "
                f"{number} has {each.indices} where {indices} is due. Delete the file, or name "
                "another --output."
            )


def write(path, text, mode="w"):
    """Writes text to a file, with the mode "a" at its end.

    Raises:
        UserError: If that is not possible.
    """
    try:
        with tf.io.gfile.GFile(path, mode) as file:
            file.write(text)
    except tf.errors.OpError as error:
        raise UserError(
            f"--output must be a file in a directory that can be written to, but {path} cannot: "
            f"{error.message}. Name another one."
        ) from error


def _unreadable(path, reason):
    return UserError(
        f"{path} must hold measured latencies, but cannot be read ({reason}). Delete it, or name "
        "another --output."
    )


def _parse(line):
    one = Measured(**json_file.loads(line))
    if not isinstance(one.indices, str):
        raise TypeError(f"indices {one.indices!r}")
    for ms in (one.ms, one.reference_ms):
        if not (isinstance(ms, float) and math.isfinite(ms) and ms > 0):
            raise TypeError(f"latency {ms!r}")
    return one


def _check_same(path, before, now):
    names = sorted({*before, *now})
    changes = [
        f"{name} was {before.get(name)!r} and is {now.get(name)!r}"
        for name in names
        if before.get(name) != now.get(name)
    ]
    if changes:
        raise UserError(
            f"Measuring goes on with the settings and on the device it started with, but those in "
            f"{path} differ: {'; '.join(changes)}. Pass the old ones, name another --output, or "
            "delete the file."
        )
