"""Flags of a command, as data: each is a flag of the command line and an argument of `resolve`.

A *preset* is a name for the values of flags that are not given. Importing this imports no
TensorFlow, so that the command line answers at once.
"""

import argparse
import functools
import math
import numbers
import os
import reprlib
from typing import Any, Callable, NamedTuple, Optional, Tuple

from examples.runs.errors import UserError


class SettingsError(UserError):
    """Settings do not fit together, or not to what is there; says which, and the way out."""


class Flag(NamedTuple):
    """A flag of the command line."""

    name: str
    type: Callable  # of text; `boolean` for true or false
    default: Any  # where the preset has no other
    help: str
    bounds: Optional[Tuple[float, float]] = None  # of the value, inclusive
    choices: Optional[Tuple[str, ...]] = None
    required: bool = False
    nargs: Optional[str] = None  # of `argparse`; "+" makes the value a list; bounds apply to each


ANY = float("inf")
POSITIVE = (1, ANY)  # of integers
SHARE = (0, 1)
BELOW_ONE = (0, 0.9999)
_KINDS = {int: "a whole number", float: "a number", str: "a text"}
_CLASSES = {int: numbers.Integral, float: numbers.Real, str: (str, os.PathLike)}


def boolean(text):
    """Returns the truth value that a text stands for.

    Raises:
        ValueError: If it stands for none.
    """
    values = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.lower() not in values:
        raise ValueError(f"must be true or false, but is {text!r}")
    return values[text.lower()]


def add_flags(parser, flags, presets):
    """Adds flags to an `argparse` parser; those that are not given are left out of the result.

    A flag of truth is set by `--flag`, `--flag=false` or `--noflag`.

    Args:
        parser: An `argparse.ArgumentParser`, or a group of one.
        flags: The `Flag`s.
        presets: Dict of dicts, values of flags by name, by preset. Only help texts need it.
    """
    for flag in flags:
        how = {"default": argparse.SUPPRESS, "help": _help(flag, presets)}
        how["type"] = functools.partial(_parse, flag)
        if flag.type is boolean:
            how.update(nargs="?", const=True, metavar="true|false")
            parser.add_argument(
                f"--no{flag.name}",
                dest=flag.name,
                action="store_false",
                default=argparse.SUPPRESS,
                help=argparse.SUPPRESS,
            )
        else:
            metavar = "|".join(flag.choices) if flag.choices else flag.type.__name__.upper()
            how.update(metavar=metavar, nargs=flag.nargs)
        parser.add_argument(f"--{flag.name}", required=flag.required, **how)


def _parse(flag, text):
    """Returns the value that a text stands for; raises what `argparse` shows to the user."""
    try:
        value = flag.type(text)
    except ValueError as error:
        if flag.type is boolean:
            raise argparse.ArgumentTypeError(str(error)) from error
        raise argparse.ArgumentTypeError(f"must be {_KINDS[flag.type]}, but is {text!r}") from error
    fault = _fault(flag, value)
    if fault:
        raise argparse.ArgumentTypeError(fault)
    return value


def _help(flag, presets):
    values = {name: preset.get(flag.name, flag.default) for name, preset in presets.items()}
    shown = {name: _shown(value) for name, value in values.items() if value not in (None, "")}
    text = flag.help.replace("%", "%%")
    if not shown or flag.required:
        return text
    if len(set(shown.values())) == 1 and len(shown) == len(presets):
        return f"{text} (default: {next(iter(shown.values()))})"
    return f"{text} (default: {', '.join(f'{value} for {name}' for name, value in shown.items())})"


def _shown(value):
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def given_arguments(args):
    """Yields the arguments of the command line that `args` came from."""
    for name, value in vars(args).items():
        if isinstance(value, list):
            yield f"--{name}"
            yield from map(str, value)
        else:
            yield f"--{name}={value}"


def with_defaults(given, flags, preset):
    """Returns a dict of the values of all flags.

    Args:
        given: Dict of those that are given; None counts as not given.
        flags: The `Flag`s.
        preset: Dict of values that stand in for those that are not given.

    Raises:
        SettingsError: If a required flag is not given, a value is out of bounds, or none of the
            flags has the name of a value.
    """
    unknown = sorted(set(given) - {flag.name for flag in flags})
    if unknown:
        raise SettingsError(
            f"There is no setting called {', '.join(unknown)}. Settings are "
            f"{', '.join(flag.name for flag in flags)}."
        )
    values = {}
    for flag in flags:
        value = given.get(flag.name)
        if value is None:
            value = preset.get(flag.name, flag.default)
        if flag.nargs and value is not None:
            value = list(value) if isinstance(value, (list, tuple)) else [value]
        _check(flag, value)
        values[flag.name] = value
    return values


def check(given, flags):
    """Checks values, as of a file, before anything is made of them.

    Args:
        given: Dict of values by name; those of no flag may be anything, and None is not checked.
        flags: The `Flag`s.

    Raises:
        SettingsError: If a value is of another type than its flag, or out of bounds.
    """
    for flag in flags:
        value = given.get(flag.name)
        if value is not None:
            is_one = flag.nargs and not isinstance(value, (list, tuple))
            _check(flag, [value] if is_one else value)


def _check(flag, value):
    if value is None:
        if flag.required:
            raise SettingsError(f"Pass --{flag.name}: {flag.help}.")
        return
    for each in value if flag.nargs else [value]:
        fault = _type_fault(flag, each) or _fault(flag, each)
        if fault:
            raise SettingsError(f"--{flag.name} {fault}.")


def _type_fault(flag, value):
    """Returns how a value is not of the type of its flag, or None."""
    is_right = isinstance(value, bool if flag.type is boolean else _CLASSES[flag.type])
    if is_right and isinstance(value, bool) == (flag.type is boolean):
        return None
    rule = "true or false" if flag.type is boolean else _KINDS[flag.type]
    return f"must be {rule}, but is {reprlib.repr(value)}"


def _fault(flag, value):
    """Returns what is wrong with a value, or None."""
    if flag.choices and value not in flag.choices:
        return f"must be one of {', '.join(flag.choices)}, but is {value!r}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"must be a finite number, but is {value}"
    if flag.bounds and not flag.bounds[0] <= value <= flag.bounds[1]:
        low, high = flag.bounds
        if high == ANY:
            rule = f"at least {low}"
        else:
            rule = f"at most {high}" if low == -ANY else f"in [{low}, {high}]"
        return f"must be {rule}, but is {value}"
    return None
