"""What the replicas of tf.distribute need and has no public name."""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from typing import Any

import tensorflow.compat.v1 as tf
from tensorflow.python.autograph.core import config as autograph
from tensorflow.python.distribute import values as values_lib

from replicate.compat import environment

# Strategies let AutoGraph rewrite `model_fn` and all that it calls. This library is not to be.
autograph.CONVERSION_RULES = (autograph.DoNotConvert("replicate"), *autograph.CONVERSION_RULES)


class _Undivided(str):
    """A reduction under which optimizers do not divide losses, and that no user has set."""


_UNDIVIDED = _Undivided(tf.losses.Reduction.SUM)

# By graph: how many replicas are in `losses_as_they_are`, and what to go back to.
_inside: weakref.WeakKeyDictionary[tf.Graph, Any] = weakref.WeakKeyDictionary()

_local = threading.local()


def check_version(strategy):
    """Checks that replicas of a strategy can meet on this TensorFlow.

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
    """What a strategy hands over as it is, instead of taking it apart."""

    def __init__(self, value):
        self.value = value


def call_in_replicas(calls, after=()):
    """Calls a function in each replica, from the cross-replica context.

    Args:
        calls: A function without arguments for each replica.
        after: What their operations wait for; they do not see the control dependencies of here.

    Returns:
        List of what they returned.
    """
    strategy = tf.distribute.get_strategy()
    # The strategy of one device takes nothing apart.
    sealed = Sealed(calls[0]) if len(calls) == 1 else per_replica(map(Sealed, calls))

    def run(own):
        with tf.control_dependencies(after):
            return Sealed(own.value())

    done = strategy.extended.call_for_each_replica(run, args=(sealed,))
    return [one.value for one in strategy.experimental_local_results(done)]


def has_parts(variable):
    """Whether the strategy keeps a variable in each replica, instead of one for all."""
    return isinstance(variable, values_lib.DistributedValues)


def in_estimator():
    """Whether an Estimator runs the replicas."""
    return tf.distribute.get_strategy()._scale_loss_for_estimator


def per_replica(values):
    """Returns what a strategy takes for one value per replica."""
    return values_lib.PerReplica(tuple(values))


def losses_are_means():
    """Whether an Estimator's strategy takes the replicas' losses for means; else they add up.

    It goes by the last loss of `tf.losses` or Keras: unless that is a sum, losses are means.
    Outside an Estimator, tf.distribute lets users scale losses.
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
def losses_as_they_are():
    """A scope in which optimizers do not divide a loss by the number of replicas.

    A replica may park in it, when a gradient needs all replicas, and another one enter: what the
    graph knew before is put back when the last of them leaves, unless there is something newer.
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
        graph._is_loss_scaled_by_optimizer |= divided  # Computing gradients has reset it.
        if count > 1:
            _inside[graph] = count - 1, before, divided
        elif graph._last_loss_reduction is _UNDIVIDED:
            graph._last_loss_reduction = before


def take_as_it_is():
    """In `losses_as_they_are`: lets optimizers not divide a loss that was made since, either.

    Returns:
        Whether it is a mean, as `losses_are_means`.
    """
    is_mean = losses_are_means()
    graph = tf.get_default_graph()
    if graph._last_loss_reduction is not _UNDIVIDED:
        count, _, divided = _inside[graph]
        _inside[graph] = count, graph._last_loss_reduction, divided
        graph._last_loss_reduction = _UNDIVIDED
    return is_mean


@contextlib.contextmanager
def gathered_already(divide):
    """A scope in which gradients that reach an optimizer of `tf.train` are sums over all replicas.

    Args:
        divide: Function from `(gradient, variable)` pairs to the parts that it is to add up.
    """
    _teach_optimizers()
    _local.divide = divide
    try:
        yield
    finally:
        _local.divide = None


@functools.lru_cache(maxsize=None)
def _teach_optimizers():
    """Lets `tf.train.Optimizer.apply_gradients` heed `gathered_already`."""
    original = tf.train.Optimizer.apply_gradients

    @functools.wraps(original)
    def apply_gradients(self, grads_and_vars, *args, **kwargs):
        divide = getattr(_local, "divide", None)
        if divide is None:
            return original(self, grads_and_vars, *args, **kwargs)
        _local.divide = None
        try:
            return original(self, divide(grads_and_vars), *args, **kwargs)
        finally:
            _local.divide = divide

    tf.train.Optimizer.apply_gradients = apply_gradients


def report_mean_loss():
    """Lets the Estimator report the mean of the replicas' losses, as if an optimizer divided it."""
    with tf.init_scope():  # Where the loss is, if another optimizer made a condition.
        tf.get_default_graph()._is_loss_scaled_by_optimizer = True
