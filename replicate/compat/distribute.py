"""What the replicas of tf.distribute need and has no public name."""

import contextlib
import weakref

import tensorflow.compat.v1 as tf
from tensorflow.python.autograph.core import config as autograph
from tensorflow.python.distribute import values as values_lib

# Strategies let AutoGraph rewrite `model_fn` and all that it calls. This library is not to be.
autograph.CONVERSION_RULES = (autograph.DoNotConvert("replicate"), *autograph.CONVERSION_RULES)

# By graph: how many replicas are in `losses_as_they_are`, and the reduction to go back to.
_undivided = weakref.WeakKeyDictionary()


def per_replica(values):
    """Returns what a strategy takes for one value per replica."""
    return values_lib.PerReplica(tuple(values))


def losses_are_means():
    """Whether an Estimator's strategy takes the replicas' losses for means; else they add up.

    It goes by the last loss of `tf.losses` or Keras: unless that is a sum, losses are means.
    Outside an Estimator, tf.distribute lets users scale losses.
    """
    return tf.distribute.get_loss_reduction() == tf.distribute.ReduceOp.MEAN


@contextlib.contextmanager
def losses_as_they_are():
    """A scope in which optimizers do not divide a loss by the number of replicas.

    A replica may park in it, when a gradient needs all replicas, and another one enter: what the
    graph knew before is put back when the last of them leaves.
    """
    graph = tf.get_default_graph()
    inside, reduction = _undivided.get(graph, (0, graph._last_loss_reduction))
    _undivided[graph] = inside + 1, reduction
    graph._last_loss_reduction = tf.losses.Reduction.SUM
    try:
        yield
    finally:
        inside, reduction = _undivided.pop(graph)
        if inside > 1:
            _undivided[graph] = inside - 1, reduction
        else:
            graph._last_loss_reduction = reduction


def report_mean_loss():
    """Lets the Estimator report the mean of the replicas' losses, as if an optimizer divided it."""
    tf.get_default_graph()._is_loss_scaled_by_optimizer = True
