"""`HParams` of `tf.contrib.training`: hyperparameters with fixed types, by name."""

from __future__ import annotations

import json
import numbers
from typing import Any

from replicate.migration.contrib.hparam_text import parse_values


class HParams:
    """Hyperparameters, which are attributes.

    >>> hparams = HParams(rate=0.1, sizes=[3, 4], activation="relu")
    >>> hparams.parse("rate=1,sizes=[5]").rate, hparams.sizes
    (1.0, [5])

    Args:
        hparam_def: Must be None: the protocol buffers were removed together with `tf.contrib`.
        model_structure: Any object; `get_model_structure` returns it.
        **kwargs: The hyperparameters: numbers, strings, booleans, None, or lists of one type.

    Raises:
        ValueError: If a name is reserved, or a list empty.
        NotImplementedError: If there is a `hparam_def`.
    """

    _HAS_DYNAMIC_ATTRIBUTES = True  # For pytype.

    def __init__(self, hparam_def: Any = None, model_structure: Any = None, **kwargs: Any) -> None:
        # By name: the type of the value, or of a list's first value, and whether it is a list.
        self._hparam_types: dict[str, tuple[type, bool]] = {}
        self._model_structure = model_structure
        if hparam_def:
            raise NotImplementedError(
                "HParams takes no hparam_def: HParamDef went with tf.contrib. Write "
                f"HParams(**values) of the values of {hparam_def!r}."
            )
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Adds a hyperparameter.

        Args:
            name: Its name, which must not be that of an attribute.
            value: Its first value, which determines the type.

        Raises:
            ValueError: If the name is reserved, or the value an empty list.
        """
        if getattr(self, name, None) is not None:
            raise ValueError(
                f"A hyperparameter must not have the name of an attribute, got {name!r}."
            )
        is_list = isinstance(value, (list, tuple))
        if is_list and not value:
            raise ValueError(
                f"The first value of {name!r} decides on its type, but is an empty list."
            )
        self._hparam_types[name] = type(value[0] if is_list else value), is_list
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Sets a hyperparameter to another value of its type.

        Args:
            name: Name of the hyperparameter.
            value: The value; a list if the first value was one.

        Raises:
            KeyError: If there is no hyperparameter of that name.
            ValueError: If the value is of another type.
        """
        kind, is_list = self._hparam_types[name]
        if isinstance(value, list):
            if not is_list:
                raise ValueError(f"{name!r} has one value, but got the list {value!r}.")
            setattr(self, name, [_cast(name, kind, one) for one in value])
        else:
            if is_list:
                raise ValueError(f"{name!r} has a list of values, but got {value!r}.")
            setattr(self, name, _cast(name, kind, value))

    def del_hparam(self, name: str) -> None:
        """Removes a hyperparameter, if there is one with that name.

        Args:
            name: Name of the hyperparameter.
        """
        if hasattr(self, name):
            delattr(self, name)
            del self._hparam_types[name]

    def parse(self, values: str) -> HParams:
        """Sets hyperparameters to values that are given as text.

        Args:
            values: As for `parse_values`.

        Returns:
            This object.

        Raises:
            ValueError: If the text is malformed, or has an unknown name.
        """
        types = {name: kind for name, (kind, _) in self._hparam_types.items()}
        return self.override_from_dict(parse_values(values, types))

    def override_from_dict(self, values_dict: dict[str, Any]) -> HParams:
        """Sets hyperparameters to the values of a dict.

        Args:
            values_dict: Values by name.

        Returns:
            This object.

        Raises:
            KeyError: If there is no hyperparameter of a name.
            ValueError: If a value is of another type.
        """
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def set_from_map(self, values_map: dict[str, Any]) -> HParams:
        """Does the same as `override_from_dict`.

        Args:
            values_map: Values by name.

        Returns:
            This object.
        """
        return self.override_from_dict(values_map)

    def set_model_structure(self, model_structure: Any) -> None:
        """Stores a model's structure.

        Args:
            model_structure: Anything.
        """
        self._model_structure = model_structure

    def get_model_structure(self) -> Any:
        """Returns the stored structure."""
        return self._model_structure

    def to_json(
        self,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        """Returns all hyperparameters as JSON.

        Args:
            indent: As for `json.dumps`.
            separators: As for `json.dumps`.
            sort_keys: As for `json.dumps`.
        """
        return json.dumps(self.values(), indent=indent, separators=separators, sort_keys=sort_keys)

    def parse_json(self, values_json: str) -> HParams:
        """Sets hyperparameters to the values of a JSON object.

        Args:
            values_json: The object, as text.

        Returns:
            This object.

        Raises:
            KeyError: If there is no hyperparameter of a name.
            ValueError: If the text is not JSON, or a value is of another type.
        """
        return self.override_from_dict(json.loads(values_json))

    def values(self) -> dict[str, Any]:
        """Returns all hyperparameters by name."""
        return {name: getattr(self, name) for name in self._hparam_types}

    def get(self, key: str, default: Any = None) -> Any:
        """Returns a hyperparameter, or a default if there is none with that name.

        Args:
            key: Name of the hyperparameter.
            default: The default, of the hyperparameter's type, or None.

        Raises:
            ValueError: If `default` is of another type than the hyperparameter.
        """
        if key not in self._hparam_types:
            return default
        if default is not None:
            kind, is_list = self._hparam_types[key]
            types = f"a list of {kind.__name__}" if is_list else kind.__name__
            message = f"`default` must be as {key!r} is, {types}, but is {default!r}."
            if is_list != isinstance(default, list):
                raise ValueError(message)
            try:
                for one in default if is_list else [default]:
                    _cast(key, kind, one)
            except ValueError:
                raise ValueError(message) from None
        return getattr(self, key)

    def to_proto(self, export_scope: str | None = None) -> Any:
        """Raises: the protocol buffers were removed together with `tf.contrib`.

        Args:
            export_scope: Ignored.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("HParamDef went with tf.contrib. Write hparams.to_json().")

    @staticmethod
    def from_proto(hparam_def: Any, import_scope: str | None = None) -> HParams:
        """Raises: the protocol buffers were removed together with `tf.contrib`.

        Args:
            hparam_def: Anything.
            import_scope: Ignored.

        Raises:
            NotImplementedError: If `hparam_def` is not empty.
        """
        return HParams(hparam_def=hparam_def)

    def __contains__(self, key: object) -> bool:
        return key in self._hparam_types

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.values().items())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({sorted(self.values().items())})"


def _cast(name: str, kind: Any, value: Any) -> Any:
    """Converts a value to the type of a hyperparameter; raises if that would lose information."""
    if type(value) is kind or issubclass(kind, type(None)):
        return value
    is_text = issubclass(kind, (str, bytes))
    if (
        (is_text and not isinstance(value, (str, bytes)))
        or issubclass(kind, bool) != isinstance(value, bool)
        or (issubclass(kind, numbers.Integral) and not isinstance(value, numbers.Integral))
        or (issubclass(kind, numbers.Number) and not isinstance(value, numbers.Number))
    ):
        raise ValueError(f"{name!r} has values of {kind.__name__}, which {value!r} is not.")
    return kind(value)
