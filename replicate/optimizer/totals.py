"""Sums of a variable's gradients over several batches, kept in variables."""

import tensorflow.compat.v1 as tf

from replicate.reduction import collectives


def make_total(variable, grads, make):
    """Returns the sum that gradients of a variable are added to.

    Args:
        variable: The variable.
        grads: The list of its gradients of one batch, tensors and `tf.IndexedSlices`.
        make: A function like `replicate.engines.make_variable`.

    Raises:
        TypeError: If the gradients are of several types.
        ValueError: If the shape of the variable is not static.
    """
    are_sparse = all(isinstance(gradient, tf.IndexedSlices) for gradient in grads)
    return (_Slices if are_sparse else _Dense)(variable, grads, make)


class _Total:
    """Sum of the gradients of one variable.

    Args:
        variable: As `make_total` takes it.
        grads: Likewise.
        make: Likewise.
    """

    def __init__(self, variable, grads, make):
        _check_static(variable)
        self._variable = variable
        types = [(0, gradient.dtype.base_dtype) for gradient in grads]
        self._dtype = collectives.check_types(variable, types)
        self._wide = tf.float32 if self._dtype.size == 2 else self._dtype
        self._shape = variable.shape.as_list()
        self._parts = self._make_parts(grads, make)

    @property
    def variables(self):
        """The variables that it is in."""
        return list(self._parts.values())

    def _name(self, part):
        return f"{self._variable.name.partition(':')[0]}/accumulated_{part}"

    def _zeros(self, zeros=tf.zeros):
        return zeros(tuple(self._shape), self._wide)

    def _finish(self, value, counts):
        """Returns a sum in gradients' type, as a mean over `counts(dtype)` batches if not None."""
        count = counts(value.dtype)
        if count is not None:
            value = value / count
        return tf.cast(value, self._dtype)


class _Dense(_Total):
    """Gradients that are tensors, added up."""

    def _make_parts(self, grads, make):
        del grads
        return {"gradient": make(self._zeros, self._name("gradient"))}

    def add(self, grads):
        """Returns operations that add the gradients of one batch, a list of them."""
        total = self._parts["gradient"]
        dense = [collectives.dense(gradient, self._variable) for gradient in grads]
        return [total.assign_add(tf.cast(one, self._wide), read_value=False) for one in dense]

    def read(self, counts):
        """Returns the gradient of what was added up."""
        return self._finish(self._parts["gradient"].value(), counts)

    def reset(self, zeros):
        """Returns operations after which nothing is added up.

        Args:
            zeros: A function like `tf.zeros` that takes a tuple.
        """
        return [self._parts["gradient"].assign(self._zeros(zeros), read_value=False)]


class _Slices(_Total):
    """Gradients that are `tf.IndexedSlices`, whose slices are concatenated."""

    def _make_parts(self, grads, make):
        self._indices = max((g.indices.dtype for g in grads), key=lambda dtype: dtype.size)
        shapes = {"rows": [None], "slices": [None, *self._shape[1:]]}
        return {
            part: make(lambda part=part: self._none(part), self._name(part), tf.TensorShape(shape))
            for part, shape in shapes.items()
        }

    def _none(self, part):
        if part == "rows":
            return tf.zeros([0], self._indices)
        return tf.zeros([0, *self._shape[1:]], self._wide)

    def add(self, grads):
        """Returns operations that add the gradients of one batch, a list of them."""
        rows = [tf.cast(gradient.indices, self._indices) for gradient in grads]
        slices = [tf.cast(gradient.values, self._wide) for gradient in grads]
        new = {"rows": tf.concat(rows, axis=0), "slices": tf.concat(slices, axis=0)}
        return [
            held.assign(tf.concat([held.read_value(), new[part]], axis=0), read_value=False)
            for part, held in self._parts.items()
        ]

    def read(self, counts):
        """Returns the gradient of what was added up."""
        return tf.IndexedSlices(
            self._finish(self._parts["slices"].read_value(), counts),
            self._parts["rows"].read_value(),
            tf.constant(self._shape, self._indices),
        )

    def reset(self, zeros):
        """Returns operations after which nothing is added up."""
        del zeros
        return [
            held.assign(self._none(part), read_value=False) for part, held in self._parts.items()
        ]


def _check_static(variable):
    if not variable.shape.is_fully_defined():
        shape = str(variable.shape).replace("?", "None")  # As TensorFlow 1.15 has it.
        raise ValueError(
            "Gradients are accumulated for variables of static shape, but "
            f"'{variable.name}' has {shape}. Give it one, or leave `accumulate_steps` at 1."
        )
