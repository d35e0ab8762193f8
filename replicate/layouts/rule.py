"""The table of rules, and the view of an operation that a rule gets."""

from __future__ import annotations

import fnmatch
from typing import Any, Callable, Optional, Sequence

import numpy as np

from replicate.layouts.dims import Dim, over
from replicate.layouts.layout import Layout, Strategy


class Op:
    """An operation as rules see it: its type, attributes, and the facts about its inputs.

    Args:
        operation: The `tf.Operation`.
        dims: Function of a tensor that returns its shape as a tuple of `Dim`s, None if its rank is
            not known. Every axis has a size; an unknown one is a new symbol.
        value: Function of a tensor that returns its integers as an array of `Dim`s, None if they
            are not known.
        rows: n, the number of rows of the batch; or the number of another unit, if the rule is
            applied to that.
        entry: Function of a tensor that is a shape, and of an index, that returns the entry there
            as a symbol.
        rest: Function of two sizes that returns their difference, None if it is not a size that
            can be represented.
    """

    def __init__(
        self,
        operation: Any,
        dims: Callable[[Any], tuple[Dim, ...] | None],
        value: Callable[[Any], np.ndarray[Any, Any] | None],
        rows: Dim,
        entry: Callable[[Any, int], Dim],
        rest: Callable[[Dim, Dim], Dim | None],
    ) -> None:
        self.operation = operation
        self.type: str = operation.type
        self.inputs: tuple[Any, ...] = tuple(operation.inputs)
        self.outputs: tuple[Any, ...] = tuple(operation.outputs)
        self.rows = rows
        self._dims = dims
        self._value = value
        self.entry_of = entry
        self.rest = rest

    def beside(
        self, operation: Any, value: Callable[[Any], np.ndarray[Any, Any] | None] | None = None
    ) -> Op:
        """Returns the view of another operation; `value` may replace the function for integers."""
        known = self._value if value is None else value
        return Op(operation, self._dims, known, self.rows, self.entry_of, self.rest)

    def dims_of(self, tensor: Any) -> tuple[Dim, ...] | None:
        """Returns the shape of any tensor; see the class."""
        return self._dims(tensor)

    def value_of(self, tensor: Any) -> np.ndarray[Any, Any] | None:
        """Returns the integers of any tensor; see the class."""
        return self._value(tensor)

    def attr(self, name: str, otherwise: Any = None) -> Any:
        """Returns an attribute, `otherwise` if the operation has none of that name."""
        try:
            return self.operation.get_attr(name)
        except ValueError:
            return otherwise

    def dims(self, index: int) -> tuple[Dim, ...] | None:
        """Returns the shape of an input; see the class."""
        return self._dims(self.inputs[index])

    def rank(self, index: int) -> int | None:
        """Returns the rank of an input, None if it is not known."""
        return _rank(self.dims(index))

    def out_rank(self, index: int = 0) -> int | None:
        """Returns the rank of an output, None if it is not known."""
        return _rank(self._dims(self.outputs[index]))

    def value(self, index: int) -> np.ndarray[Any, Any] | None:
        """Returns the integers of an input; see the class."""
        return self._value(self.inputs[index])

    def ints(self, index: int) -> tuple[int, ...] | None:
        """Returns the integers of an input, flat, None unless all are known numbers."""
        value = self.value(index)
        if value is None:
            return None
        flat = tuple(np.ravel(value))
        if not all(isinstance(entry, (int, np.integer)) for entry in flat):
            return None
        return tuple(int(entry) for entry in flat)

    def per_row(self, index: int, axis: int) -> Dim | None:
        """Returns how many entries of an input's axis each row has, None if it is no multiple."""
        dims = self.dims(index)
        return None if dims is None else over(dims[axis], self.rows)


def _rank(dims: tuple[Dim, ...] | None) -> int | None:
    return None if dims is None else len(dims)


Rule = Callable[[Op, Sequence[Layout]], Optional[Strategy]]

_rules: dict[str, Rule] = {}
_pointing: dict[str, Rule] = {}
_whole: dict[str, str] = {}


def rule(*types: str) -> Callable[[Rule], Rule]:
    """Registers a function as the rule of types of operations.

    A rule is called with an `Op` and the layouts of its inputs. At least one of them is not
    `Whole`, except for types in `kinds.SOURCES`. None is `Size`: `Op.value` has the integers of
    such an input. A rule returns the `Strategy` by which towers run the operation, or None if there
    is none: then it runs once.

    Raises:
        ValueError: If a type has a rule or a reason already.
    """

    def enter(function: Rule) -> Rule:
        for name in types:
            _check_is_new(name)
            _rules[name] = function
        return function

    return enter


def pointing(*types: str) -> Callable[[Rule], Rule]:
    """Registers a function as the rule for inputs with `Indices`, or with several units.

    It is called like one of `rule`, and takes precedence over it if an input has such a layout.

    Raises:
        ValueError: If a type has such a rule already.
    """

    def enter(function: Rule) -> Rule:
        for name in types:
            if name in _pointing:
                raise ValueError(f"The table of pointing rules has one of {name!r} already.")
            _pointing[name] = function
        return function

    return enter


def whole_on_purpose(reason: str, *types: str) -> None:
    """Registers why types of operations run once.

    A `*` in a type stands for any letters. A rule takes precedence, and then the first pattern.

    Raises:
        ValueError: If a type has a rule or a reason already.
    """
    for name in types:
        _check_is_new(name)
        _whole[name] = reason


def _check_is_new(name: str) -> None:
    if name in _rules or name in _whole:
        raise ValueError(f"The table has a rule of {name!r} already.")


def rule_of(name: str) -> Rule | None:
    """Returns the rule of a type of operation, None if it has none."""
    return _rules.get(name)


def pointing_rule_of(name: str) -> Rule | None:
    """Returns the rule of a type of operation that knows `Indices`, None if it has none."""
    return _pointing.get(name)


def pointing_rules() -> dict[str, Rule]:
    """Returns the table of rules that know `Indices`, by type of operation."""
    return dict(_pointing)


def rules() -> dict[str, Rule]:
    """Returns the table of rules, by type of operation."""
    return dict(_rules)


def reason_of(name: str) -> str | None:
    """Returns why a type of operation runs once on purpose, None if no reason is registered."""
    if name in _whole:
        return _whole[name]
    return next((_whole[one] for one in _whole if fnmatch.fnmatchcase(name, one)), None)


def reasons() -> dict[str, str]:
    """Returns why types of operations run once, by type or pattern."""
    return dict(_whole)
