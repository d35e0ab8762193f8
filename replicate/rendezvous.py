"""Where towers meet: `merge_call`, and what a tower knows of itself.

Outside towers, the model is the only tower there is: N is 1, and a merge function gets one value.
In a TPU replica, replicas stand for towers; see `replicate.tpu`.
"""

import functools
import re
import sys
from typing import Callable, NamedTuple

from replicate import tpu
from replicate.compat import graph as graph_lib
from replicate.lockstep import running_tower

# Modules whose lines tell users nothing about where they made a call.
_LIBRARY = re.compile(r"(replicate|tensorflow|keras|tf_keras|contextlib)(\.|$)")


class PerTower(tuple):
    """One value for each tower, in tower order; what a merge function takes, and may return."""


class Call(NamedTuple):
    """A rendezvous as one tower reached it."""

    fn: Callable
    args: tuple
    label: str
    site: str  # Where it was called, `file:line`.

    def same_as(self, other):
        """Whether towers at these calls meet."""
        return self.label == other.label and _code(self.fn) is _code(other.fn)

    def __str__(self):
        return f"{self.label}, called at {self.site}"


def current():
    """Returns the `Tower` that is being built here, None outside and in merge functions."""
    tower = running_tower()
    return None if tower is None or tower.towers.merging else tower


def merging():
    """Returns the `Towers` whose merge function runs here, None elsewhere."""
    tower = running_tower()
    return tower.towers if tower is not None and tower.towers.merging else None


def num_towers():
    """Returns N, the number of towers or TPU replicas that the model runs as; else 1."""
    tower = running_tower()
    return tower.towers.size if tower is not None else tpu.number_of_shards() or 1


def tower_index():
    """Returns the index of this tower, 0 to N - 1; 0 outside towers and in merge functions.

    In a TPU replica, whose graph is the same for all, it is an int32 scalar tensor.
    """
    tower = running_tower()
    if tower is None:
        return tpu.replica_id() if tpu.number_of_shards() else 0
    return tower.index


def merge_call(fn, *args):
    """Calls `fn` once for all towers, with the arguments of every tower.

    All towers wait for one another here. `fn` runs once, on the consolidation device, in tower 0's
    name and variable scopes, and after the control dependencies that are open in any tower: the
    place for what must happen once per step, such as updating a running baseline.

        def update(values):
            return baseline.assign(0.9 * baseline + 0.1 * tf.add_n(values) / len(values))

        baseline_now = replicate.merge_call(update, tf.reduce_mean(reward))

    Args:
        fn: Function that takes one `PerTower` of N values for each of `args`. It must be the same
            function in every tower, and must not itself rendezvous.
        *args: This tower's values, of any type, None included.

    Returns:
        What `fn` returns; of a `PerTower`, the value at this tower's index. Outside towers, `fn`
        is called with `PerTower`s of one value. In a TPU replica, every replica does what `fn`
        does, with the same values; tensors in `args` must be numeric, and in a `PerTower` that
        `fn` returns, all must be tensors of one shape and dtype.

    Raises:
        RuntimeError: If the towers meet in different calls, or in the body of a `tf.cond` or
            `tf.while_loop`.
        ValueError: If `fn` returns a `PerTower` of another length than N.
    """
    fn_or_type = _unwrapped(fn) if hasattr(_unwrapped(fn), "__qualname__") else type(fn)
    code = getattr(fn_or_type, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if hasattr(code, "co_filename") else ""
    return meet(
        fn, args, f"merge_call of {fn_or_type.__qualname__}{where} with {len(args)} arguments"
    )


def meet(fn, args, label):
    """`merge_call` under a label of its own, by which the towers' calls are told apart."""
    tower = running_tower()
    if tower is None:
        return _meet_alone(fn, args) if tpu.number_of_shards() is None else _meet_replicas(fn, args)
    call = Call(fn, args, label, _call_site())
    if tower.towers.merging:
        raise RuntimeError(
            f"A merge function must not rendezvous, but this one reached {call}. It already has "
            "the values of all towers: combine them there."
        )
    if graph_lib.in_control_flow(tower.towers.graph):
        raise RuntimeError(
            "Towers must not rendezvous in the body of a `tf.cond`, `tf.while_loop` or function, "
            f"which may run any number of times, but tower {tower.index} reached {call}. Make the "
            "call before or after the body, on what it takes or returns."
        )
    return tower.towers.meet(tower, call)


def _meet_alone(fn, args):
    result = fn(*(PerTower([arg]) for arg in args))
    return result[0] if isinstance(result, PerTower) else result


def _meet_replicas(fn, args):
    result = fn(*(PerTower(tpu.all_replicas(arg)) for arg in args))
    return tpu.of_replica(result) if isinstance(result, PerTower) else result


def _unwrapped(fn):
    """Returns the function below partial applications."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn


def _code(fn):
    """Returns what functions that each tower defines anew have in common."""
    return getattr(_unwrapped(fn), "__code__", type(fn))


def _call_site():
    """Returns `file:line` of the nearest caller outside this package and TensorFlow."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _LIBRARY.match(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
