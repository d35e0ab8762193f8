"""The index of a tower in a model that is built once for all of them."""

from __future__ import annotations

import tensorflow.compat.v1 as tf


class TowerIndex:
    """What `tower_index()` gives in towers: a tensor that has another value in each of them.

    Python sees one model, for all towers, so it cannot branch on the index.

    Args:
        tensor: The int32 scalar tensor.
    """

    dtype = tf.int32
    shape = tf.TensorShape([])
    __array_priority__ = 200

    def __init__(self, tensor: tf.Tensor) -> None:
        self.tensor = tensor

    def _refuse(self, *_):
        raise TypeError(
            "`model_fn` is called once for all towers, so Python cannot ask for the index of one. "
            "`tower_index()` is a tensor there, with another value in each tower: compute with it, "
            "as in `tf.where(tf.equal(replicate.tower_index(), 0), a, b)`, or use "
            "`replicate.merge_call` for what happens once."
        )

    __bool__ = __int__ = __index__ = __float__ = __hash__ = __iter__ = __len__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse

    def __neg__(self):
        return -self.tensor

    def __format__(self, spec):
        return self._refuse(spec)

    def __repr__(self):
        return f"tower_index() = {self.tensor!r}"


def _operator(name):
    def operate(self, *others):
        return getattr(self.tensor, name)(*others)

    operate.__name__ = name
    return operate


for _name in ("add", "sub", "mul", "floordiv", "truediv", "mod", "pow"):
    for _prefix in ("__", "__r"):
        setattr(TowerIndex, f"{_prefix}{_name}__", _operator(f"{_prefix}{_name}__"))


def _convert(value, dtype=None, name=None, as_ref=False):
    del as_ref
    return tf.convert_to_tensor(value.tensor, dtype, name)


tf.register_tensor_conversion_function(TowerIndex, _convert)
