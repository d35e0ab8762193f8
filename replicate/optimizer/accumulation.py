"""Adds up the gradients of several batches, which are then applied as those of one.

Slices of sparse gradients are kept side by side: an optimizer finds the rows, and their
repetitions, that it would find in one batch. Gradients of 16 bits are added up in 32.
"""

import functools

import tensorflow.compat.v1 as tf

from replicate.engines import make_variable
from replicate.faults import COUNTERS
from replicate.graphs import operations, run_if
from replicate.optimizer import totals
from replicate.reduction import collectives


class Accumulation:
    """The gradients of the batches since the last update.

    Args:
        steps: How many batches an update takes, an integer.
        summed: Whether losses of batches are added up, instead of averaged.
        make: A function like `make_variable`, for what gradients are added up in.
        make_counter: Likewise, for the one that counts batches.

    Raises:
        ValueError: If the workers of a cluster would add up in the same variables.

    Attributes:
        counter: The variable that counts batches since the last update, an int64 scalar.
        saved: A `tf.Module` of the variables, for object-based checkpoints.
    """

    def __init__(self, steps, summed, make=make_variable, make_counter=None):
        self._steps = steps
        self._summed = summed
        self._make = make
        self._variables = {}  # By their `id`s, in the order in which they come first.
        self._totals = {}  # By the `id` of a variable: what its gradients add up to.
        make_counter = make if make_counter is None else make_counter
        name = "accumulated_batches"
        self.counter = make_counter(lambda: tf.zeros([], tf.int64), name)
        _check_own(self.counter)
        tf.add_to_collection(COUNTERS, self.counter)
        self.saved = tf.Module()
        self.saved.variables_in_order = [self.counter]

    def prepare(self, grads_and_vars):
        """Makes the variables that gradients are added up in, where there are none yet.

        Args:
            grads_and_vars: The list of `(gradient, variable)` pairs.

        Raises:
            TypeError: If a gradient is neither a tensor nor `tf.IndexedSlices` nor None.
            ValueError: If the shape of a variable is not static.
        """
        grads = _by_variable(grads_and_vars)
        for _, variable in grads_and_vars:
            key = id(variable)
            self._variables.setdefault(key, variable)
            if key in grads and key not in self._totals:
                total = self._totals[key] = totals.make_total(variable, grads[key], self._make)
                self.saved.variables_in_order.extend(total.variables)

    def add(self, grads_and_vars):
        """Returns the operations that add the gradients of one batch."""
        grads = _by_variable(grads_and_vars)
        return [
            op
            for key, total in self._totals.items()
            if key in grads
            for op in total.add(grads[key])
        ]

    def read(self, count):
        """Returns the sum or mean of the gradients, as `(gradient, variable)` pairs.

        Args:
            count: The number of batches, an int64 scalar tensor.
        """
        # What all gradients are divided by is cast once for each type.
        once = functools.lru_cache(maxsize=None)
        counts = once(lambda dtype: None if self._summed else tf.cast(count, dtype))
        read = {key: total.read(counts) for key, total in self._totals.items()}
        return [(read.get(key), variable) for key, variable in self._variables.items()]

    def reset(self, updated=()):
        """Returns the operations after which nothing is added up.

        Args:
            updated: Operations that take what was accumulated.
        """
        with tf.control_dependencies(updated):
            zeros = functools.lru_cache(maxsize=None)(tf.zeros)
            return [op for total in self._totals.values() for op in total.reset(zeros)]

    def every(self, added, update, reset=None):
        """Runs an update once after every so many batches.

        Args:
            added: Operations that add the gradients of a batch.
            update: Function of the number of batches, an int64 scalar tensor.
            reset: What follows it, a function like `reset`, which it is by default.

        Returns:
            An operation, None in eager mode.
        """
        reset = self.reset if reset is None else reset
        with tf.control_dependencies(added):
            counted = self.counter.assign_add(1, read_value=False)
        with tf.control_dependencies(operations([counted])):
            count = tf.identity(self.counter)

        def run():
            # A tensor of the branch, so that it crosses devices in no other step.
            updated = operations(update(tf.identity(count)))
            with tf.control_dependencies(updated):
                zero = self.counter.assign(tf.zeros([], tf.int64), read_value=False)
            return [reset(updated), zero]

        return run_if(count >= self._steps, run)


def _by_variable(grads_and_vars):
    """Returns the lists of gradients by the `id`s of their variables; of None, none."""
    found = {}
    for gradient, variable in grads_and_vars:
        if gradient is not None:
            gradient = collectives.as_gradient(gradient, variable, 0)
            found.setdefault(id(variable), []).append(gradient)
    return found


def _check_own(counter):
    if "/job:ps" in (counter.device or ""):
        raise ValueError(
            "Each worker of a cluster accumulates gradients of its own, but without "
            "`replicate_model_fn` all workers would add up in the same variables, such as "
            f"'{counter.name}' on {counter.device}. Replicate the `model_fn`, over one device "
            "maybe, or leave `accumulate_steps` at 1."
        )
