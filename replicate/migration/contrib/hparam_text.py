"""Reads hyperparameters from text, such as `rate=0.1,sizes=[3,4],sizes[1]=5`."""

from __future__ import annotations

import re
from typing import Any

_TARGET = re.compile(r"([A-Za-z][\w.]*)(?:\[\s*(\d+)\s*\])?")
_BOOLEANS = {"true": True, "True": True, "false": False, "False": False}


def parse_values(
    values: str, type_map: dict[str, type], ignore_unknown: bool = False
) -> dict[str, Any]:
    """Parses assignments in text: numbers, strings, lists, and dicts of values with an index.

    >>> parse_values("x=5,l=[1,2],a[1]=3", {"x": int, "l": int, "a": int})
    {'x': 5, 'l': [1, 2], 'a': {1: 3}}

    Args:
        values: Assignments, separated by commas. Values of lists are separated by commas or
            blanks. Booleans are `true`, `false` or a number.
        type_map: The type of each name's value, or of the values in its list.
        ignore_unknown: Whether to skip names that `type_map` lacks.

    Returns:
        The values by name.

    Raises:
        ValueError: If the text is not a list of assignments, a name or value is invalid, or a name
            or index is assigned twice.
    """
    found: dict[str, Any] = {}
    rest = values
    while rest:
        target, given, rest = _first(rest, values)
        name, index = target
        if name in type_map:
            _assign(found, name, index, given, type_map[name], values)
        elif not ignore_unknown:
            raise ValueError(f"{name!r} is no hyperparameter here, in {values!r}.")
    return found


def _first(text: str, values: str) -> tuple[Any, Any, str]:
    """Splits off the first assignment of a text.

    Returns:
        A pair of name and index; the assigned text, or for a list in brackets, a list that holds
        the text between the brackets; and the rest of the text.
    """
    before, equals, after = text.partition("=")
    target, after = _TARGET.fullmatch(before.rstrip()), after.lstrip()
    given: Any
    if after.startswith("["):
        inner, end, rest = after[1:].partition("]")
        given = [inner]
        is_whole = bool(end) and (not rest or rest.startswith(","))
        rest = rest[1:]
    else:
        given, _, rest = after.partition(",")
        is_whole = "[" not in given
    if not equals or target is None or not is_whole:
        raise ValueError(f"Hyperparameters are name=value, name=[values], but got {text!r}.")
    return target.groups(), given, rest.lstrip()


def _assign(
    found: dict[str, Any],
    name: str,
    index: str | None,
    given: str | list[str],
    kind: type,
    values: str,
) -> None:
    if isinstance(given, list):
        if index is not None:
            raise ValueError(f"{name}[{index}] is one value, but is assigned a list in {values!r}.")
        _check_new(name, name in found, values)
        texts = [text for text in re.split("[ ,]", given[0]) if text]
        found[name] = [_parse(name, kind, text, values) for text in texts]
        return
    value = _parse(name, kind, given, values)
    if index is None:
        _check_new(name, name in found, values)
        found[name] = value
        return
    elements = found.setdefault(name, {})
    _check_new(name, not isinstance(elements, dict), values)
    _check_new(f"{name}[{int(index)}]", int(index) in elements, values)
    elements[int(index)] = value


def _parse(name: str, kind: type, text: str, values: str) -> Any:
    try:
        if kind is bool:
            return _BOOLEANS[text] if text in _BOOLEANS else bool(int(text))
        return kind(text)
    except ValueError:
        raise ValueError(
            f"{name!r} takes values of {kind.__name__}, but got {text!r} in {values!r}."
        ) from None


def _check_new(name: str, is_assigned: bool, values: str) -> None:
    if is_assigned:
        raise ValueError(f"{name} is assigned twice in {values!r}.")
