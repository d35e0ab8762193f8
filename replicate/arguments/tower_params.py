"""The `params` of each tower, and the batch size in them.

TPUEstimator tells `model_fn` in `params["batch_size"]` how many rows its shard has, and what is
written for it goes by that. Elsewhere that key is the user's own: many a learning-rate schedule
reads the whole batch's size from it.
"""

import copy
import numbers

from replicate.graphs import names_in

_KEY = "batch_size"


def is_for_tpus(model_fn, config):
    """Whether `model_fn` is written for TPUEstimator: it has its `RunConfig`, or names its spec."""
    return hasattr(config, "tpu_config") or "TPUEstimatorSpec" in names_in(model_fn)


def of_tower(params, shards, for_tpus, own_size):
    """Returns the `params` that the model is built with, for all towers.

    Args:
        params: What the Estimator passes: a dictionary, an `HParams`, or None.
        shards: The `Shards` of the batch.
        for_tpus: Whether `model_fn` is written for TPUEstimator.
        own_size: Whether `params["batch_size"]` is the size of a shard. None: if `for_tpus` and the
            size is an integer.

    Returns:
        A copy, so that the caller's stay as they are. If it is the size of a shard and shards
        differ, reading it from a dictionary is a ValueError.

    Raises:
        TypeError: If `own_size` is True, and the size there, but no integer.
        ValueError: If it is the size of a shard, shards differ, and `params` is no dictionary.
    """
    own = _copy(params)
    if not _has_own_size(params, for_tpus, own_size):
        return own
    size = _size(params)
    sizes = _sizes(size, shards)
    if len(set(sizes)) == 1:
        return _with_size(own, sizes[0])
    if isinstance(own, dict):
        return _Uneven(own, _uneven(sizes))
    raise ValueError(_uneven(sizes))


class _Uneven(dict):
    """Params of towers whose shards differ in size: there is no size that a model could read.

    Args:
        params: The dictionary.
        message: The error of a model that reads it.
    """

    def __init__(self, params, message):
        super().__init__(params)
        super().__setitem__(_KEY, _NoSize(message))

    def __getitem__(self, key):
        return _read(super().__getitem__(key))

    def get(self, key, default=None):
        return _read(super().get(key, default))

    def pop(self, key, *default):
        return _read(super().pop(key, *default))


class _NoSize:
    """The size in copies of such params, which nothing can be computed with.

    Args:
        message: The error where it is computed with.
    """

    def __init__(self, message):
        self._message = message

    def raise_error(self, *_):
        raise ValueError(self._message)

    __int__ = __index__ = __float__ = __array__ = __add__ = __radd__ = __sub__ = raise_error
    __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __floordiv__ = raise_error
    __rfloordiv__ = __mod__ = __rmod__ = __eq__ = __lt__ = __le__ = __gt__ = __ge__ = raise_error
    __hash__ = raise_error

    def __repr__(self):
        return f"<{self._message}>"


def _read(value):
    if isinstance(value, _NoSize):
        value.raise_error()
    return value


def _uneven(sizes):
    return (
        "`params['batch_size']` is the size of a tower's shard where `model_fn` is written for "
        f"TPUs, and the model is built once for all of them, but the shards have {sizes} rows. "
        f"Make the batch a multiple of {len(sizes)} rows, or pass `per_tower_batch_size=False`."
    )


def _has_own_size(params, for_tpus, own_size):
    size = _size(params)
    if own_size and size is not None and not _is_integer(size):
        raise TypeError(
            "`per_tower_batch_size=True` splits `params['batch_size']`, which must be an integer, "
            f"but is {size!r}. Make it one, or leave `per_tower_batch_size` out."
        )
    wanted = for_tpus if own_size is None else own_size
    return wanted and _is_integer(size)


def _size(params):
    return params.get(_KEY) if hasattr(params, "get") else None


def _is_integer(size):
    return isinstance(size, numbers.Integral) and not isinstance(size, bool)


def _sizes(size, shards):
    """Returns the rows of each shard; those of a batch of `size` rows if the graph knows none."""
    count = len(shards.features)
    total, rows = shards.total, shards.rows
    if not isinstance(total, int):
        total, rows = size, [size // count + (index < size % count) for index in range(count)]
    # A tower without rows computes on a copy of the last one.
    return [max(own, min(total, 1)) for own in rows]


def _with_size(params, size):
    own = copy.copy(params)  # Towers may share what cannot be copied deeply.
    if hasattr(own, "set_hparam"):
        own.set_hparam(_KEY, size)
    else:
        own[_KEY] = size
    return own


def _copy(params):
    """Returns a copy, as the Estimator makes one for every call."""
    try:
        return copy.deepcopy(params)
    except Exception:  # Whatever an object raises that cannot be copied: the towers share it.
        return params
