"""Accumulates the gradients of several batches, to apply them like those of one batch.

Slices of sparse gradients are concatenated: an optimizer gets the same rows, with the same
repetitions, as for one batch. Gradients of 16 bits are summed in 32 bits.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, Iterable, List, Optional, Sequence, Tuple, Union

import tensorflow.compat.v1 as tf

from replicate.engines import make_variable
from replicate.faults import COUNTERS
from replicate.graphs import operations, run_if
from replicate.optimizer import totals
from replicate.reduction import collectives

if TYPE_CHECKING:
    Gradient = Union[tf.Tensor, tf.IndexedSlices]
    Pairs = List[Tuple[Optional[Gradient], tf.Variable]]
    Make = Callable[..., tf.Variable]


class Accumulation:
    """The gradients of the batches since the last update.

    Args:
        steps: Number of batches in an update, an integer.
        summed: Whether losses of batches are summed, instead of averaged.
        make: A function like `make_variable` that makes the variables with sums of gradients.
        make_counter: A function like `make_variable` that makes the counter of batches. None:
            `make`.

    Raises:
        ValueError: If the workers of a cluster would accumulate in the same variables.

    Attributes:
        counter: The variable that counts batches since the last update, an int64 scalar.
        saved: A `tf.Module` of the variables, for object-based checkpoints.
    """

    def __init__(
        self,
        steps: int,
        summed: bool,
        make: Make = make_variable,
        make_counter: Make | None = None,
    ) -> None:
        self._steps = steps
        self._summed = summed
        self._make = make
        self._variables: dict[int, tf.Variable] = {}  # By `id`, in order of first appearance.
        self._totals: dict[int, totals.Total] = {}  # By the `id` of the variable.
        make_counter = make if make_counter is None else make_counter
        name = "accumulated_batches"
        self.counter = make_counter(lambda: tf.zeros([], tf.int64), name)
        _check_per_worker(self.counter)
        tf.add_to_collection(COUNTERS, self.counter)
        self.saved = tf.Module()
        self.saved.variables_in_order = [self.counter]

    def prepare(self, grads_and_vars: Pairs) -> None:
        """Makes variables for the sums of gradients that have none yet.

        Args:
            grads_and_vars: The list of `(gradient, variable)` pairs.

        Raises:
            TypeError: If a gradient is neither a tensor nor `tf.IndexedSlices` nor None.
            ValueError: If the shape of a variable is not static.
        """
        grads = _by_variable(grads_and_vars)
        for _, variable in grads_and_vars:
            key = id(variable)
            # Also without a gradient: the optimizer then gets the variable with None.
            self._variables.setdefault(key, variable)
            if key in grads and key not in self._totals:
                total = self._totals[key] = totals.make_total(variable, grads[key], self._make)
                self.saved.variables_in_order.extend(total.variables)

    def add(self, grads_and_vars: Pairs) -> list[tf.Operation]:
        """Returns the operations that add the gradients of one batch to the sums."""
        grads = _by_variable(grads_and_vars)
        return [
            op
            for key, total in self._totals.items()
            if key in grads
            for op in total.add(grads[key])
        ]

    def read(self, count: tf.Tensor) -> Pairs:
        """Returns the sum or mean of the gradients, as `(gradient, variable)` pairs.

        Args:
            count: The number of batches, an int64 scalar tensor.
        """
        # All gradients of one type are divided by the same cast count.
        cached = functools.lru_cache(maxsize=None)
        counts = cached(lambda dtype: None if self._summed else tf.cast(count, dtype))
        read = {key: total.read(counts) for key, total in self._totals.items()}
        return [(read.get(key), variable) for key, variable in self._variables.items()]

    def reset(self, updated: Sequence[Any] = ()) -> list[tf.Operation]:
        """Returns the operations that reset all sums to zero.

        Args:
            updated: Operations that use the sums, and run before.
        """
        with tf.control_dependencies(updated):
            zeros = functools.lru_cache(maxsize=None)(tf.zeros)
            return [op for total in self._totals.values() for op in total.reset(zeros)]

    def every(
        self,
        added: Sequence[Any],
        update: Callable[[tf.Tensor], Any],
        reset: Callable[[Sequence[Any]], Any] | None = None,
    ) -> Any:
        """Runs an update each time that enough batches are accumulated.

        Args:
            added: Operations that add the gradients of a batch.
            update: Function of the number of batches, an int64 scalar tensor.
            reset: Function like `self.reset` that resets the sums afterwards. None: `self.reset`.

        Returns:
            An operation, None in eager mode.
        """
        reset = self.reset if reset is None else reset
        with tf.control_dependencies(added):
            counted = self.counter.assign_add(1, read_value=False)
        # The count includes this batch, so it is read after the increment.
        with tf.control_dependencies(operations([counted])):
            count = tf.identity(self.counter)

        def run() -> Any:
            # A tensor of the branch, so that it crosses devices only in steps that update.
            updated = operations(update(tf.identity(count)))
            with tf.control_dependencies(updated):
                zero = self.counter.assign(tf.zeros([], tf.int64), read_value=False)
            return [reset(updated), zero]

        return run_if(count >= self._steps, run)


def _by_variable(grads_and_vars: Iterable[tuple[Any, tf.Variable]]) -> dict[int, list[Gradient]]:
    """Returns the lists of gradients by the `id`s of their variables, without None."""
    found: dict[int, list[Gradient]] = {}
    for gradient, variable in grads_and_vars:
        if gradient is not None:
            gradient = collectives.as_gradient(gradient, variable, 0)
            # A variable may be in several pairs, each with a gradient.
            found.setdefault(id(variable), []).append(gradient)
    return found


def _check_per_worker(counter: tf.Variable) -> None:
    if "/job:ps" in (counter.device or ""):
        raise ValueError(
            "Each worker of a cluster accumulates its gradients separately, but without "
            "`replicate_model_fn` all workers would accumulate in the same variables, such as "
            f"'{counter.name}' on {counter.device}. Replicate the `model_fn`, if only over one "
            "device, or leave `accumulate_steps` at 1."
        )
