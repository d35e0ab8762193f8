"""Adds up the gradients of several batches, which are then applied as those of one.

Each tower adds up its own, so that gradients cross devices once per update. Of sparse gradients the
slices are kept side by side: an optimizer finds the rows, and their repetitions, that it would find
in one batch. Gradients of 16 bits are added up in 32.
"""

import functools

import tensorflow.compat.v1 as tf

from replicate.engines import make_variables
from replicate.faults import COUNTERS
from replicate.gathering import collectives
from replicate.gradients import totals
from replicate.graphs import operations, run_if


class Accumulation:
    """The gradients of the batches since the last update.

    Args:
        steps: How many batches an update takes, an integer.
        summed: Whether losses of batches are added up, instead of averaged.
        make: A function like `make_variables`, for the variables that each tower has of its own.
        make_counter: Likewise, for the one that counts batches.
        pack: Function that parts a list of entries, as `totals.make_total` takes it, into lists of
            those that are added up together; by default, each is by itself.

    Raises:
        ValueError: If the workers of a cluster would add up in the same variables.

    Attributes:
        counter: The variable that counts batches since the last update, an int64 scalar.
        saved: A `tf.Module` of the variables, for object-based checkpoints.
    """

    def __init__(self, steps, summed, make=make_variables, make_counter=None, pack=None):
        self._steps = steps
        self._summed = summed
        self._make = make
        self._pack = pack or (lambda entries: ([entry] for entry in entries))
        self._variables = {}  # By their `id`s, in the order in which they come first.
        self._totals = []  # Pairs of `id`s and of what these variables' gradients add up to.
        make_counter = make if make_counter is None else make_counter
        name = "accumulated_batches"
        self.counter = make_counter(lambda: tf.zeros([], tf.int64), name)[0]
        _check_own(self.counter)
        tf.add_to_collection(COUNTERS, self.counter)
        self.saved = tf.Module()
        self.saved.variables_in_order = [self.counter]

    def prepare(self, by_tower):
        """Makes the variables that gradients are added up in, where there are none yet.

        Args:
            by_tower: For each tower the list of its `(gradient, variable)` pairs.

        Raises:
            TypeError: If a gradient is neither a tensor nor `tf.IndexedSlices` nor None.
            ValueError: If the shape of a variable is not static.
        """
        by_variable, several = {}, set()
        for index, pairs in enumerate(by_tower):
            for gradient, variable in pairs:
                key = id(variable)
                self._variables.setdefault(key, variable)
                if gradient is not None:
                    gradient = collectives.as_gradient(gradient, variable, index)
                    grads = by_variable.setdefault(key, {})
                    if index in grads:
                        several.add(key)
                    grads[index] = gradient
        known = {key for keys, _ in self._totals for key in keys}
        entries = {
            key: (variable, list(by_variable[key].items()))
            for key, variable in self._variables.items()
            if key in by_variable and key not in known
        }
        # A pack has one gradient of each variable.
        packs = self._pack([entry for key, entry in entries.items() if key not in several])
        for pack in [*packs, *([entries[key]] for key in entries if key in several)]:
            total = totals.make_total(pack, self._make)
            self._totals.append(([id(variable) for variable, _ in pack], total))
            self.saved.variables_in_order.extend(total.variables)

    def add(self, grads_and_vars, index=0):
        """Returns the operations that add tower `index`'s gradients of one batch."""
        grads = {}
        for gradient, variable in grads_and_vars:
            if gradient is not None:
                gradient = collectives.as_gradient(gradient, variable, index)
                grads.setdefault(id(variable), []).append(gradient)
        return [
            op
            for keys, total in self._totals
            if keys[0] in grads
            for op in total.add(index, [gradient for key in keys for gradient in grads[key]])
        ]

    def read(self, count, index=0):
        """Returns the sum or mean of tower `index`'s gradients, as `(gradient, variable)` pairs.

        Args:
            count: The number of batches, an int64 scalar tensor.
            index: The tower.
        """
        # What all gradients are divided by is cast once for each type.
        once = functools.lru_cache(maxsize=None)
        counts = once(lambda dtype: None if self._summed else tf.cast(count, dtype))
        read = {
            key: gradient
            for keys, total in self._totals
            if index in total.towers
            for key, gradient in zip(keys, total.read(index, counts))
        }
        return [(read.get(key), variable) for key, variable in self._variables.items()]

    def reset(self, updated=(), index=0):
        """Returns the operations after which tower `index` begins anew.

        Args:
            updated: Operations that take what was accumulated.
            index: The tower.
        """
        with tf.control_dependencies(updated):
            zeros = functools.lru_cache(maxsize=None)(tf.zeros)
            return [
                op
                for _, total in self._totals
                if index in total.towers
                for op in total.reset(index, zeros)
            ]

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


def _check_own(counter):
    if "/job:ps" in (counter.device or ""):
        raise ValueError(
            "Each worker of a cluster accumulates gradients of its own, which takes towers, but "
            "without them all workers would add up in the same variables, such as "
            f"'{counter.name}' on {counter.device}. Give every worker two or more `devices`, or "
            "leave `accumulate_steps` at 1."
        )
