"""Names of Python objects, and JSON, on a command line."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pathlib
import sys
from typing import Any

from replicate import compat


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of commands that build a user's model."""
    parser.add_argument("--params", help="JSON, or module:name of them or of a function for them")
    parser.add_argument("--config", help="module:name of a RunConfig, or of a function for one")
    parser.add_argument(
        "--devices", nargs="+", help="default: every GPU, or /cpu:0 /cpu:1 if there are not two"
    )
    parser.add_argument("--options", help="JSON of more arguments of replicate_model_fn")
    parser.add_argument(
        "--tensorflow_1",
        nargs="*",
        metavar="PACKAGE",
        help="let `tensorflow` be version 1 for your files, with `tf.contrib`, and for these "
        "installed packages",
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON, no report")


def prepare(args: argparse.Namespace) -> None:
    """Makes names importable from the current directory, with the TensorFlow that `args` choose."""
    sys.path.insert(0, os.getcwd())
    if args.tensorflow_1 is not None:
        compat.install(replace_ancestor=True, tensorflow_1=args.tensorflow_1 or True)


def params(text: str | None) -> Any:
    """Returns the `params` of `--params`, None if there are none; raises the errors of `find`."""
    if not text:
        return None
    return (as_json if text.lstrip().startswith("{") else made)("--params", text)


def find(flag: str, name: str) -> Any:
    """Returns the object at `module:name` or `file.py:name`; `name` may have dots.

    Args:
        flag: The flag of the command line with this text, for the error.
        name: The text.

    Raises:
        ValueError: If there is no such object, or its module cannot be imported.
    """
    module, _, attributes = name.partition(":")
    try:
        found = _imported(module)
        for attribute in attributes.split("."):
            found = getattr(found, attribute)
    except (ImportError, AttributeError, OSError, ValueError) as error:
        raise ValueError(
            f"`{flag}` must name an object as `module:name`, importable from here, but {name!r} "
            f"is not: {error}. Run it in the directory of your modules, or set PYTHONPATH."
        ) from None
    return found


def made(flag: str, name: str) -> Any:
    """Returns the object that `find` returns, or its result if it is a function."""
    found = find(flag, name)
    # Other callables stay as they are, since parameters may be such objects.
    return found() if hasattr(found, "__code__") else found


def as_json(flag: str, text: str) -> dict[str, Any]:
    """Returns the JSON object in a text as a dictionary; raises a ValueError if it has none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        found = error
    if not isinstance(found, dict):
        raise ValueError(
            f"`{flag}` must be a JSON object, but {text!r} is {found!r}. Quote it for the shell: "
            "'{\"name\": 1}'"
        )
    return found


def _imported(module: str) -> Any:
    if module.startswith(".") and not module.endswith(".py"):
        raise ValueError("relative names have a meaning inside of packages only")
    if not module.endswith(".py"):
        return importlib.import_module(module)
    path = pathlib.Path(module).resolve(strict=True)
    # Under the name of the file, with its directory on the path, as when a program is run.
    sys.path.insert(0, str(path.parent))
    return importlib.import_module(path.stem)
