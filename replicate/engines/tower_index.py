"""Represents the index of a tower in a model that is built once for all of them."""

from __future__ import annotations

from typing import Any, Callable

import tensorflow.compat.v1 as tf


class TowerIndex:
    """The result of `tower_index()` in towers: a tensor with a different value in each of them.

    Python builds one model for all towers, so it cannot branch on the index.

    Args:
        tensor: The int32 scalar tensor.
    """

    dtype = tf.int32
    shape = tf.TensorShape([])
    __array_priority__ = 200

    def __init__(self, tensor: tf.Tensor) -> None:
        self.tensor = tensor

    def _refuse(self, *_: Any) -> Any:
        raise TypeError(
            "`model_fn` is called once for all towers, so Python cannot ask for the index of one. "
            "`tower_index()` is a tensor, with a different value in each tower: compute with it, "
            "as in `tf.where(tf.equal(replicate.tower_index(), 0), a, b)`, or use "
            "`replicate.merge_call` for work that happens once."
        )

    __bool__ = __int__ = __index__ = __float__ = __hash__ = __iter__ = __len__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse

    def __neg__(self) -> Any:
        return -self.tensor

    def __format__(self, spec: str) -> str:
        return self._refuse(spec)

    def __repr__(self) -> str:
        return f"tower_index() = {self.tensor!r}"


def _operator(name: str) -> Callable[..., Any]:
    def operate(self: TowerIndex, *others: Any) -> Any:
        return getattr(self.tensor, name)(*others)

    operate.__name__ = name
    return operate


# Arithmetic gives tensors: Python looks operators up on the class, not through `__getattr__`.
for _name in ("add", "sub", "mul", "floordiv", "truediv", "mod", "pow"):
    for _prefix in ("__", "__r"):
        setattr(TowerIndex, f"{_prefix}{_name}__", _operator(f"{_prefix}{_name}__"))


def _convert(
    value: TowerIndex, dtype: Any = None, name: str | None = None, as_ref: bool = False
) -> Any:
    del as_ref
    return tf.convert_to_tensor(value.tensor, dtype, name)


tf.register_tensor_conversion_function(TowerIndex, _convert)
