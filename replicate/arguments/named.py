"""Names of Python objects, and JSON, on a command line."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import os
import pathlib
import sys
import traceback
import types
from typing import Any, ContextManager, Sequence

import tensorflow.compat.v1 as tf

from replicate import compat
from replicate.graphs import is_users

EPILOG = "Flags of your program follow `--`."


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


def split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns the arguments of a command, and those of the user's program, which follow `--`."""
    at = list(argv).index("--") if "--" in argv else len(argv)
    return list(argv[:at]), list(argv[at + 1 :])


def prepare(args: argparse.Namespace, of_program: Sequence[str]) -> None:
    """Makes names importable from the current directory, with the TensorFlow that `args` choose.

    Args:
        args: The arguments of the command.
        of_program: Those that the user's files find in `sys.argv`, as `tf.flags` does.
    """
    sys.path.insert(0, os.getcwd())
    sys.argv[1:] = of_program
    if args.tensorflow_1 is not None:
        compat.install(replace_ancestor=True, tensorflow_1=args.tensorflow_1 or True)


def printing(args: argparse.Namespace) -> ContextManager[Any]:
    """A scope in which the user's files print; with `--json`, beside the line of JSON."""
    return contextlib.redirect_stdout(sys.stderr) if args.json else contextlib.nullcontext()


def check_files(*names: str | None) -> None:
    """Checks that Python imported what the files import that these names are in.

    Args:
        *names: The arguments that named objects, None for those that are left out.

    Raises:
        ValueError: If files in two directories have one name, of which Python imported only one.
    """
    files = {pathlib.Path(name.partition(":")[0]).resolve() for name in names if name}
    files = {path for path in files if path.suffix == ".py"}
    homes = {path.parent for path in files}
    imported = [module for name, module in sys.modules.items() if "." not in name]
    for module in imported:
        file = _file_of(module)
        home = file.parent.parent if file.name == "__init__.py" else file.parent
        for other in sorted(homes - {home}) if home in homes and file not in files else ():
            twin = other / file.relative_to(home)
            there = [one for one in set(sys.modules.values()) if _file_of(one).parent == other]
            if twin.exists() and any(_uses(one, module) for one in there):
                raise ValueError(
                    f"Python imports one module of a name, but your files are beside {file} and "
                    f"{twin}. Rename one of them, or make packages of their directories, and name "
                    "objects as `package.module:name`."
                )


def read_flags(of_program: Sequence[str]) -> None:
    """Lets the flags that the user's files define have values; `of_program` is as in `prepare`.

    Raises:
        ValueError: If the files do not define one of them.
    """
    flags = tf.flags.FLAGS
    if flags.is_parsed():
        return
    try:
        flags(sys.argv)
    except tf.flags.Error as error:
        # A program that has none may read its arguments otherwise.
        modules = {str(module).partition(".")[0] for module in flags.flags_by_module_dict()}
        if of_program and not modules <= {"absl", "tensorflow"}:
            raise ValueError(
                f"Flags of your program follow `--`, but {list(of_program)} cannot be read: {error}"
            ) from None
        flags.unparse_flags()  # A flag that the program needs may not matter here.


def check_file(flag: str, path: str) -> None:
    """Checks that a file can be written; leaves it as it is.

    Args:
        flag: The flag of the command line with this path, for the error.
        path: The path.

    Raises:
        ValueError: If it cannot.
    """
    folder = pathlib.Path(path).absolute().parent
    if not folder.is_dir():
        raise ValueError(
            f"`{flag}` must be in an existing directory, but is {path!r}. Make "
            f"{pathlib.Path(path).parent}, or name another file."
        )
    is_new = not os.path.lexists(path)
    try:
        with open(path, "a"):
            pass
        if is_new:  # A model that cannot be built would leave an empty file.
            pathlib.Path(path).unlink()
    except OSError as error:
        raise ValueError(
            f"`{flag}` must be a file that can be written, but {path!r} is not: {error.strerror}. "
            "Name another file."
        ) from None


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
    module, _, attributes = name.rpartition(":")
    try:
        found = _imported(module)
    except Exception as error:
        if not _is_missing(error, module):
            raise ValueError(_failed(flag, module, error)) from error
        raise ValueError(_unnamed(flag, name, error)) from None
    try:
        for attribute in attributes.split("."):
            found = getattr(found, attribute)
    except AttributeError as error:
        raise ValueError(_unnamed(flag, name, error)) from None
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


def _unnamed(flag: str, name: str, error: Exception) -> str:
    return (
        f"`{flag}` must name an object as `module:name`, importable from here, but {name!r} "
        f"is not: {error}. Run it in the directory of your modules, or set PYTHONPATH."
    )


def _is_missing(error: Exception, module: str) -> bool:
    """Whether a module itself is not there, and not something that it imports."""
    if not module:
        return True
    if isinstance(error, ModuleNotFoundError):
        return f"{module}.".startswith(f"{error.name}.")
    return isinstance(error, FileNotFoundError) and not pathlib.Path(module).exists()


def _failed(flag: str, module: str, error: Exception) -> str:
    """Returns the text of the error that a module raised while it was imported."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if is_users(one.filename)]
    frames = [one for one in frames if one.filename != __file__]
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    text = f"{type(error).__name__}: {error}"
    hint = "Mend it."
    if "relative import" in text:
        hint = "It is in a package: name it as `package.module:name`."
    elif "contrib" in text or "module 'tensorflow" in text:
        hint = "If it expects TensorFlow 1, add `--tensorflow_1`."
    return f"`{flag}` is in {module!r}, whose import failed{place}: {text}. {hint}"


def _uses(user: Any, module: Any) -> bool:
    """Whether a module has imported another one, or something of it."""
    return any(
        value is module
        or (isinstance(value, (type, types.FunctionType)) and value.__module__ == module.__name__)
        for value in vars(user).values()
    )


def _file_of(module: Any) -> pathlib.Path:
    return pathlib.Path(getattr(module, "__file__", None) or os.devnull).resolve()


def _imported(module: str) -> Any:
    if module.startswith(".") and not module.endswith(".py"):
        text = "relative names have a meaning inside of packages only"
        raise ModuleNotFoundError(text, name=module)
    if not module.endswith(".py"):
        return importlib.import_module(module)
    path = pathlib.Path(module).resolve(strict=True)
    # Under the name of the file, with its directory on the path, as when a program is run.
    sys.path.insert(0, str(path.parent))
    name, known = path.stem, sys.modules.get(path.stem)
    if known is not None and _file_of(known) == path:
        return known
    if known is not None or not name.isidentifier():
        name = str(path)  # Another file of this name is imported already.
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    found = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(found)
    except BaseException:
        del sys.modules[name]
        raise
    return found
