"""The `params` of each tower, and the batch size in them.

TPUEstimator passes `model_fn` the number of rows of its shard in `params["batch_size"]`, and a
`model_fn` that is written for it relies on that. Elsewhere users define the meaning of that key:
many learning-rate schedules read the whole batch's size from it.
"""

from __future__ import annotations

import copy
import numbers
from typing import Any, Callable, NoReturn, Sequence

from replicate.batch import sharding
from replicate.graphs import names_in

_KEY = "batch_size"


def is_for_tpus(model_fn: Callable[..., Any], config: Any) -> bool:
    """Whether `model_fn` is for TPUEstimator: `config` is for it, or the code names its spec."""
    return hasattr(config, "tpu_config") or "TPUEstimatorSpec" in names_in(model_fn)


def params_of_towers(
    params: Any, shards: sharding.Shards, for_tpus: bool, is_per_tower: bool | None
) -> Any:
    """Returns the `params` for building the model, the same for all towers.

    Args:
        params: The Estimator's `params`: a dictionary, an `HParams`, or None.
        shards: The `Shards` of the batch.
        for_tpus: Whether `model_fn` is written for TPUEstimator.
        is_per_tower: Whether `params["batch_size"]` becomes the size of a shard. None: True if
            `for_tpus` and the size is an integer.

    Returns:
        A copy of `params`. If it should hold the size of a shard and shards differ in size,
        reading the size from a dictionary is a ValueError.

    Raises:
        TypeError: If `is_per_tower` is True, and the size is not an integer.
        ValueError: If it should hold the size of a shard, shards differ in size, and `params` is
            not a dictionary.
    """
    copied = _copy(params)
    if not _has_size_per_tower(params, for_tpus, is_per_tower):
        return copied
    sizes = _sizes(_size(params), shards)
    if len(set(sizes)) == 1:
        return _with_size(copied, sizes[0])
    if isinstance(copied, dict):
        return _Uneven(copied, _uneven(sizes))
    raise ValueError(_uneven(sizes))


class _Uneven(dict):
    """Params of towers whose shards differ in size, so that no size is right for all of them.

    Args:
        params: The dictionary.
        message: The error of a model that reads the size.
    """

    def __init__(self, params: dict[Any, Any], message: str) -> None:
        super().__init__(params)
        super().__setitem__(_KEY, _NoSize(message))

    def __getitem__(self, key: Any) -> Any:
        return _read(super().__getitem__(key))

    def get(self, key: Any, default: Any = None) -> Any:
        return _read(super().get(key, default))

    def pop(self, key: Any, *default: Any) -> Any:
        return _read(super().pop(key, *default))


class _NoSize:
    """Stands for the size in copies of such params; computing with it is an error.

    Args:
        message: The error.
    """

    def __init__(self, message: str) -> None:
        self._message = message

    def raise_error(self, *_: Any) -> NoReturn:
        raise ValueError(self._message)

    __int__ = __index__ = __float__ = __array__ = __add__ = __radd__ = __sub__ = raise_error
    __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __floordiv__ = raise_error
    __rfloordiv__ = __mod__ = __rmod__ = __eq__ = __lt__ = __le__ = __gt__ = __ge__ = raise_error
    __hash__ = raise_error

    def __repr__(self) -> str:
        return f"<{self._message}>"


def _read(value: Any) -> Any:
    if isinstance(value, _NoSize):
        value.raise_error()
    return value


def _uneven(sizes: Sequence[int]) -> str:
    return (
        "`params['batch_size']` is the size of a tower's shard if `model_fn` is written for "
        f"TPUs, and the model is built once for all towers, but the shards have {sizes} rows. "
        f"Make the batch a multiple of {len(sizes)} rows, or pass `per_tower_batch_size=False`."
    )


def _has_size_per_tower(params: Any, for_tpus: bool, is_per_tower: bool | None) -> bool:
    size = _size(params)
    if is_per_tower and size is not None and not _is_integer(size):
        raise TypeError(
            "`per_tower_batch_size=True` splits `params['batch_size']`, which must be an integer, "
            f"but is {size!r}. Make it one, or leave `per_tower_batch_size` out."
        )
    wanted = for_tpus if is_per_tower is None else is_per_tower
    return wanted and _is_integer(size)


def _size(params: Any) -> Any:
    return params.get(_KEY) if hasattr(params, "get") else None


def _is_integer(size: Any) -> bool:
    return isinstance(size, numbers.Integral) and not isinstance(size, bool)


def _sizes(size: int, shards: sharding.Shards) -> list[int]:
    """Returns the rows of each shard; if they are unknown, those of a batch of `size` rows."""
    count = len(shards.features)
    total, rows = shards.total, shards.rows
    if not isinstance(total, int):
        total, rows = size, [size // count + (index < size % count) for index in range(count)]
    # A tower without rows computes on a copy of the last row.
    return [max(each, min(total, 1)) for each in rows]


def _with_size(params: Any, size: int) -> Any:
    changed = copy.copy(params)  # A shallow copy, since some values cannot be copied deeply.
    if hasattr(changed, "set_hparam"):
        changed.set_hparam(_KEY, size)
    else:
        changed[_KEY] = size
    return changed


def _copy(params: Any) -> Any:
    """Returns a deep copy, as the Estimator makes one for every call."""
    try:
        return copy.deepcopy(params)
    except Exception:  # An object that cannot be copied may raise any; the towers share it.
        return params
