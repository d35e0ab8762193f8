"""Reads hyperparameters from text, such as `rate=0.1,sizes=[3,4],sizes[1]=5`."""

from __future__ import annotations

import re
from typing import Any

_ASSIGNMENT = re.compile(
    r"(?P<name>[a-zA-Z][\w.]*)(\[\s*(?P<index>\d+)\s*\])?\s*=\s*"
    r"((?P<value>[^,\[]*)|\[(?P<values>[^\]]*)\])($|,\s*)"
)
_BOOLEANS = {"true": True, "True": True, "false": False, "False": False}


def parse_values(
    values: str, type_map: dict[str, type], ignore_unknown: bool = False
) -> dict[str, Any]:
    """Returns what is assigned in text: numbers, strings, lists, and dicts of what has an index.

    >>> parse_values("x=5,l=[1,2],a[1]=3", {"x": int, "l": int, "a": int})
    {'x': 5, 'l': [1, 2], 'a': {1: 3}}

    Args:
        values: Assignments with commas between them. Values of lists have commas or blanks between
            them, and booleans are `true`, `false` or a number.
        type_map: The type of each name's values, or of the values in its list.
        ignore_unknown: Whether names that `type_map` lacks are passed over.

    Raises:
        ValueError: If the text is no assignment, a name or value is not right, or a name or index
            is assigned twice.
    """
    found: dict[str, Any] = {}
    position = 0
    while position < len(values):
        match = _ASSIGNMENT.match(values, position)
        if not match:
            raise ValueError(f"Malformed hyperparameter value: {values[position:]}")
        position = match.end()
        name = match["name"]
        if name in type_map:
            _assign(found, match, type_map[name], values)
        elif not ignore_unknown:
            raise ValueError(f"Unknown hyperparameter type for {name}")
    return found


def _assign(found, match, kind, values):
    name, index = match["name"], match["index"]
    if match["value"] is not None:
        value = _parse(name, kind, match["value"], match["value"], values)
        if not index:
            _check_new(name, name in found, values)
            found[name] = value
            return
        _check_new(name, not isinstance(found.setdefault(name, {}), dict), values)
        _check_new(f"{name}[{int(index)}]", int(index) in found[name], values)
        found[name][int(index)] = value
        return
    if index is not None:
        raise ValueError(
            f"Assignment of a list to a list index: {name}[{index}] in {values}; write one value."
        )
    _check_new(name, name in found, values)
    elements = re.split("[ ,]", match["values"])
    found[name] = [_parse(name, kind, one, match["values"], values) for one in elements if one]


def _parse(name, kind, text, whole, values):
    try:
        if kind is bool:
            return _BOOLEANS[text] if text in _BOOLEANS else bool(int(text))
        return kind(text)
    except ValueError:
        raise ValueError(
            f"Could not parse hparam '{name}' of type '{kind.__name__}' with value '{whole}' in "
            f"{values}"
        ) from None


def _check_new(name, is_assigned, values):
    if is_assigned:
        raise ValueError(f"Multiple assignments to variable '{name}' in {values}")
