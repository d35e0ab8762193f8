"""Tells the model where it runs: how many towers there are, which this is, and how they meet.

These functions work on every engine; see `replicate.engines.engine`.
"""

from __future__ import annotations

from typing import Any, Callable, TypeVar, overload

import tensorflow.compat.v1 as tf

from replicate.engines import distributed, tower_engine, tpu
from replicate.engines.engine import Alone, Engine
from replicate.engines.per_tower import PerTower
from replicate.engines.tower_index import TowerIndex
from replicate.graphs import unwrapped
from replicate.partition import current

T = TypeVar("T")


def engine() -> Engine:
    """Returns the `Engine` of the model that is being built here."""
    program = current()
    if program is not None:
        return tower_engine.TowerEngine(program)
    return distributed.engine() or tpu.engine() or Alone()


def num_towers() -> int:
    """Returns N, the number of towers that the model runs as, an integer; 1 outside of them.

    Cores of a TPU and replicas of a tf.distribute strategy count as towers.
    """
    return engine().size


def is_cross_tower() -> bool:
    """Whether code here runs once for all towers: in merge functions and cross-replica contexts."""
    program = current()
    merging = program is not None and program.merging
    return merging or tf.distribute.in_cross_replica_context()


def call_once(fn: Callable[[], T], label: str) -> T:
    """Calls `fn` once for all towers, also from code that runs once already; returns its result.

    Args:
        fn: Function without arguments. It may use only values that are the same in all towers.
        label: Tells calls of different replicas apart, a str.
    """
    return fn() if is_cross_tower() else engine().meet(fn, (), label)


def tower_index() -> int | tf.Tensor | TowerIndex:
    """Returns the index of this tower, 0 to N - 1; 0 outside towers and in merge functions.

    In a TPU replica it is an int32 scalar tensor, because all replicas run one graph. A model that
    runs as towers is also built only once: there the index converts to an int32 scalar tensor with
    a different value in each tower, and a Python branch on it raises a TypeError, which names the
    alternatives.
    """
    return engine().index


@overload
def merge_call(fn: Callable[..., PerTower[T]], *args: Any) -> T: ...


@overload
def merge_call(fn: Callable[..., T], *args: Any) -> T: ...


def merge_call(fn: Callable[..., Any], *args: Any) -> Any:
    """Calls `fn` once for all towers, with the arguments of every tower.

    `fn` runs once, on the consolidation device, in the name and variable scopes that are open here
    and after the open control dependencies. Use it for work that must happen once per step, such as
    updating a running baseline.

        def update(values):
            return baseline.assign(0.9 * baseline + 0.1 * tf.add_n(values) / len(values))

        baseline_now = replicate.merge_call(update, tf.reduce_mean(reward))

    In replicas of tf.distribute, `fn` runs in the cross-replica context, on the first replica's
    device: variables that it assigns change in all replicas. On a TPU, every replica runs `fn` with
    the same values. There, tensors in `args` must be numeric, and a `PerTower` that `fn` returns
    must hold tensors of one shape and dtype.

    Args:
        fn: Function that takes one `PerTower` of N values for each of `args`. It must be the same
            function in every replica of tf.distribute, and must not itself rendezvous.
        *args: This tower's values, of any type; may be None. In towers, a value that is not a
            tensor is the same for all, and a tower without rows passes values computed from a copy
            of the batch's last row.

    Returns:
        The result of `fn`; if that is a `PerTower`, its value at this tower's index. Outside
        towers, `fn` is called with `PerTower`s of one value.

    Raises:
        RuntimeError: If this is in the body of a `tf.cond`, `tf.while_loop` or function, or in a
            merge function, if replicas of tf.distribute meet in different calls, or if they are in
            several processes.
        ValueError: If `fn` returns a `PerTower` whose length is not N, or, in towers, one whose
            values differ and are not tensors.
    """
    fn_or_type = unwrapped(fn)
    # A callable object has no `__qualname__`: its class names it.
    fn_or_type = fn_or_type if hasattr(fn_or_type, "__qualname__") else type(fn)
    code: Any = getattr(fn_or_type, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if hasattr(code, "co_filename") else ""
    label = f"merge_call of {fn_or_type.__qualname__}{where} with {len(args)} arguments"
    here = engine()
    if not here.sees_all:
        raise RuntimeError(
            f"A merge function takes the values of all towers, but of the {here.size} towers of "
            f"{type(tf.distribute.get_strategy()).__name__} this process has only some, for "
            f"{label}. Use `cross_tower_sum` or `cross_tower_mean`, which work across processes; "
            "or train with parameter servers."
        )
    return here.meet(fn, args, label)
