"""Functions for replicas of tf.distribute that have no public name."""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from typing import Any, Callable, Iterable, Iterator, Sequence

import tensorflow.compat.v1 as tf
from tensorflow.python.autograph.core import config as autograph
from tensorflow.python.distribute import values as values_lib

from replicate.compat import environment

# Strategies let AutoGraph rewrite `model_fn` and all functions that it calls. It must not rewrite
# this library.
autograph.CONVERSION_RULES = (autograph.DoNotConvert("replicate"), *autograph.CONVERSION_RULES)


class _Undivided(str):
    """A reduction with which optimizers do not divide losses, distinct from any that users set."""


_UNDIVIDED = _Undivided(tf.losses.Reduction.SUM)

# By graph: the number of replicas in `losses_as_they_are`, and the values to restore.
_inside: weakref.WeakKeyDictionary[tf.Graph, Any] = weakref.WeakKeyDictionary()

_local = threading.local()


def check_version(strategy: tf.distribute.Strategy) -> None:
    """Checks that replicas of a strategy can communicate on this TensorFlow.

    Raises:
        NotImplementedError: If there are several, and it is TensorFlow 1.15.
    """
    if environment.is_1(tf.__version__) and strategy.num_replicas_in_sync > 1:
        raise NotImplementedError(
            "Replicas of tf.distribute meet on TensorFlow 2 only, but this is "
            f"{type(strategy).__name__} on {tf.__version__}. Train towers: drop `train_distribute` "
            "and `eval_distribute` from the `RunConfig`, and use `replicate_model_fn`."
        )


class Sealed:
    """Holds a value that a strategy must pass on as it is, instead of splitting it by replica."""

    def __init__(self, value: Any) -> None:
        self.value = value


def call_in_replicas(
    calls: Sequence[Callable[[], Any]], after: Sequence[tf.Operation] = ()
) -> list[Any]:
    """Calls a function in each replica, from the cross-replica context.

    Args:
        calls: A function without arguments for each replica.
        after: Operations that those of the functions wait for; control dependencies that are open
            here do not apply in replicas.

    Returns:
        List of the results.
    """
    strategy = tf.distribute.get_strategy()
    # The strategy of one device does not split values by replica.
    sealed = Sealed(calls[0]) if len(calls) == 1 else per_replica(map(Sealed, calls))

    def run(call: Sealed) -> Sealed:
        with tf.control_dependencies(after):
            return Sealed(call.value())

    done = strategy.extended.call_for_each_replica(run, args=(sealed,))
    return [one.value for one in strategy.experimental_local_results(done)]


def has_parts(variable: Any) -> bool:
    """Whether a variable has a component in each replica, instead of one for all."""
    return isinstance(variable, values_lib.DistributedValues)


def in_estimator() -> bool:
    """Whether an Estimator runs the replicas."""
    return tf.distribute.get_strategy()._scale_loss_for_estimator


def per_replica(values: Iterable[Any]) -> Any:
    """Returns a strategy's object for one value per replica."""
    return values_lib.PerReplica(tuple(values))


def losses_are_means() -> bool:
    """Whether an Estimator's strategy averages the replicas' losses; else it adds them up.

    The last loss of `tf.losses` or Keras decides: unless it is a sum, losses are means. Outside an
    Estimator, tf.distribute lets users scale losses.
    """
    graph = tf.get_default_graph()
    found = graph._last_loss_reduction
    if found is _UNDIVIDED:  # Another replica is computing gradients.
        graph._last_loss_reduction = _inside[graph][1]
    try:
        return tf.distribute.get_loss_reduction() == tf.distribute.ReduceOp.MEAN
    finally:
        graph._last_loss_reduction = found


@contextlib.contextmanager
def losses_as_they_are() -> Iterator[None]:
    """A scope in which optimizers do not divide a loss by the number of replicas.

    If a gradient needs all replicas, a replica waits in this scope while another one enters it. The
    graph's former reduction is restored when the last of them leaves, unless a newer one is set.
    """
    graph = tf.get_default_graph()
    found = graph._last_loss_reduction
    count, before, divided = _inside.get(graph, (0, None, graph._is_loss_scaled_by_optimizer))
    _inside[graph] = count + 1, before if found is _UNDIVIDED else found, divided
    graph._last_loss_reduction = _UNDIVIDED
    try:
        yield
    finally:
        count, before, divided = _inside.pop(graph)
        graph._is_loss_scaled_by_optimizer |= divided  # Computing gradients resets it.
        if count > 1:
            _inside[graph] = count - 1, before, divided
        elif graph._last_loss_reduction is _UNDIVIDED:
            graph._last_loss_reduction = before


def take_as_it_is() -> bool:
    """Inside `losses_as_they_are`: keeps optimizers from dividing a loss that was made since.

    Returns:
        Whether that loss is a mean, as `losses_are_means` tells.
    """
    is_mean = losses_are_means()
    graph = tf.get_default_graph()
    if graph._last_loss_reduction is not _UNDIVIDED:
        count, _, divided = _inside[graph]
        _inside[graph] = count, graph._last_loss_reduction, divided
        graph._last_loss_reduction = _UNDIVIDED
    return is_mean


@contextlib.contextmanager
def already_summed(divide: Callable[[Any], list[Any]]) -> Iterator[None]:
    """A scope in which gradients that reach an optimizer of `tf.train` are sums over all replicas.

    Args:
        divide: Function from `(gradient, variable)` pairs to the parts that the optimizer adds up.
    """
    _teach_optimizers()
    _local.divide = divide
    try:
        yield
    finally:
        _local.divide = None


@functools.lru_cache(maxsize=None)
def _teach_optimizers() -> None:
    """Makes `tf.train.Optimizer.apply_gradients` respect `already_summed`."""
    original = tf.train.Optimizer.apply_gradients

    @functools.wraps(original)
    def apply_gradients(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        divide = getattr(_local, "divide", None)
        if divide is None:
            return original(self, grads_and_vars, *args, **kwargs)
        _local.divide = None  # Divide only once if an optimizer calls another one.
        try:
            return original(self, divide(grads_and_vars), *args, **kwargs)
        finally:
            _local.divide = divide

    tf.train.Optimizer.apply_gradients = apply_gradients


def report_mean_loss() -> None:
    """Lets the Estimator report the mean of the replicas' losses, as if an optimizer divided it."""
    with tf.init_scope():  # The loss's graph, also inside another optimizer's condition.
        tf.get_default_graph()._is_loss_scaled_by_optimizer = True
