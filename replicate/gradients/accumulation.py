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
from replicate.graphs import operations, run_if


class Accumulation:
    """The gradients of the batches since the last update.

    Args:
        steps: How many batches an update takes, an integer.
        summed: Whether losses of batches are added up, instead of averaged.
        make: A function like `make_variables`, for the variables that each tower has of its own.
        make_counter: Likewise, for the one that counts batches.

    Raises:
        ValueError: If the workers of a cluster would add up in the same variables.

    Attributes:
        counter: The variable that counts batches since the last update, an int64 scalar.
        saved: A `tf.Module` of the variables, for object-based checkpoints.
    """

    def __init__(self, steps, summed, make=make_variables, make_counter=None):
        self._steps = steps
        self._summed = summed
        self._make = make
        self._variables = {}  # By their `id`s, in the order in which they come first.
        self._totals = {}
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
        by_variable = {}
        for index, pairs in enumerate(by_tower):
            for gradient, variable in pairs:
                self._variables.setdefault(id(variable), variable)
                if gradient is not None:
                    gradient = collectives.as_gradient(gradient, variable, index)
                    by_variable.setdefault(id(variable), {})[index] = gradient
        for key in self._variables:
            if key in by_variable and key not in self._totals:
                grads = by_variable[key]
                sparse = all(isinstance(gradient, tf.IndexedSlices) for gradient in grads.values())
                kind = _Slices if sparse else _Dense
                self._totals[key] = kind(self._variables[key], grads, self._make)
                self.saved.variables_in_order.extend(self._totals[key].variables)

    def add(self, grads_and_vars, index=0):
        """Returns the operations that add tower `index`'s gradients of one batch."""
        return [
            op
            for gradient, variable in grads_and_vars
            if gradient is not None
            for op in self._totals[id(variable)].add(index, gradient)
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
            key: total.read(index, counts)
            for key, total in self._totals.items()
            if index in total.towers
        }
        return [(read.get(key), variable) for key, variable in self._variables.items()]

    def reset(self, updated=(), index=0):
        """Returns the operations after which tower `index` begins anew.

        Args:
            updated: Operations that take what was accumulated.
            index: The tower.
        """
        totals = [total for total in self._totals.values() if index in total.towers]
        with tf.control_dependencies(updated):
            zeros = functools.lru_cache(maxsize=None)(tf.zeros)
            return [op for total in totals for op in total.reset(index, zeros)]

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


class _Total:
    """What the gradients of one variable add up to, in each tower that has one.

    Args:
        variable: The variable.
        grads: Gradients of one batch, by index of the tower.
        make: A function like `make_variables`.
    """

    def __init__(self, variable, grads, make):
        if not variable.shape.is_fully_defined():
            shape = str(variable.shape).replace("?", "None")  # As TensorFlow 1.15 has it.
            raise ValueError(
                "Gradients are accumulated for variables of static shape, but "
                f"'{variable.name}' has {shape}. Give it one, or leave `accumulate_steps` at 1."
            )
        self.variable = variable
        self.towers = list(grads)
        self._dtype = collectives.check_types(
            variable, [(index, gradient.dtype.base_dtype) for index, gradient in grads.items()]
        )
        self._wide = tf.float32 if self._dtype.size == 2 else self._dtype
        self._shape = variable.shape.as_list()
        name = variable.name.partition(":")[0]
        self._parts = {
            part: make(initial, f"{name}/accumulated_{part}", shape, self.towers)
            for part, initial, shape in self._make_parts(grads)
        }

    @property
    def variables(self):
        """The variables, each once."""
        every = [variable for part in self._parts.values() for variable in part.values()]
        return [one for i, one in enumerate(every) if not any(one is other for other in every[:i])]

    def _finish(self, value, counts):
        """Returns a sum in gradients' type, as a mean over `counts(dtype)` batches if not None."""
        count = counts(value.dtype)
        if count is not None:
            value = value / count
        return tf.cast(value, self._dtype)


class _Dense(_Total):
    """Gradients that are tensors, added up."""

    def _make_parts(self, grads):
        del grads
        yield "gradient", lambda: tf.zeros(self._shape, self._wide), None

    def add(self, index, gradient):
        gradient = collectives.as_gradient(gradient, self.variable, index)
        gradient = tf.cast(collectives.dense(gradient, self.variable), self._wide)
        return [self._parts["gradient"][index].assign_add(gradient, read_value=False)]

    def read(self, index, counts):
        return self._finish(self._parts["gradient"][index].value(), counts)

    def reset(self, index, zeros):
        none = zeros(tuple(self._shape), self._wide)
        return [self._parts["gradient"][index].assign(none, read_value=False)]


class _Slices(_Total):
    """Gradients that are `tf.IndexedSlices`, whose slices are concatenated."""

    def _make_parts(self, grads):
        self._indices = max((g.indices.dtype for g in grads.values()), key=lambda d: d.size)
        yield "rows", lambda: self._none("rows"), tf.TensorShape([None])
        yield "slices", lambda: self._none("slices"), tf.TensorShape([None, *self._shape[1:]])

    def _none(self, part):
        if part == "rows":
            return tf.zeros([0], self._indices)
        return tf.zeros([0, *self._shape[1:]], self._wide)

    def add(self, index, gradient):
        rows, slices = self._parts["rows"][index], self._parts["slices"][index]
        new_rows = tf.cast(gradient.indices, self._indices)
        new_slices = tf.cast(gradient.values, self._wide)
        return [
            rows.assign(tf.concat([rows.read_value(), new_rows], axis=0), read_value=False),
            slices.assign(tf.concat([slices.read_value(), new_slices], axis=0), read_value=False),
        ]

    def read(self, index, counts):
        return tf.IndexedSlices(
            self._finish(self._parts["slices"][index].read_value(), counts),
            self._parts["rows"][index].read_value(),
            tf.constant(self._shape, self._indices),
        )

    def reset(self, index, zeros):
        del zeros
        return [
            by_tower[index].assign(self._none(part), read_value=False)
            for part, by_tower in self._parts.items()
        ]
