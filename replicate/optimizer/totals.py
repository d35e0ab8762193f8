"""Sums of a variable's gradients over several batches, kept in variables."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import tensorflow.compat.v1 as tf

from replicate.reduction import collectives


def make_total(
    variable: tf.Variable, grads: Sequence[Any], make: Callable[..., tf.Variable]
) -> Total:
    """Returns the `Total` of the gradients of a variable.

    Args:
        variable: The variable.
        grads: The list of its gradients of one batch, tensors and `tf.IndexedSlices`.
        make: A function like `replicate.engines.make_variable`.

    Raises:
        TypeError: If the gradients have different types.
        ValueError: If the shape of the variable is not static.
    """
    # A sum with one dense gradient is dense.
    are_sparse = all(isinstance(gradient, tf.IndexedSlices) for gradient in grads)
    return (_Slices if are_sparse else _Dense)(variable, grads, make)


class Total:
    """Sum of the gradients of one variable over several batches.

    Args:
        variable: As `make_total` takes it.
        grads: As `make_total` takes them.
        make: As `make_total` takes it.
    """

    def __init__(
        self, variable: tf.Variable, grads: Sequence[Any], make: Callable[..., tf.Variable]
    ) -> None:
        _check_static(variable)
        self._variable = variable
        types = [(0, gradient.dtype.base_dtype) for gradient in grads]
        self._dtype = collectives.check_types(variable, types)
        # In 16 bits, a sum over batches could overflow, or lose small gradients.
        self._wide = tf.float32 if self._dtype.size == 2 else self._dtype
        self._shape = variable.shape.as_list()
        self._parts = self._make_parts(grads, make)

    @property
    def variables(self) -> list[tf.Variable]:
        """The variables that hold the sum."""
        return list(self._parts.values())

    def add(self, grads: Sequence[Any]) -> list[tf.Operation]:
        """Returns operations that add the gradients of one batch, a list of them."""
        raise NotImplementedError

    def read(self, counts: Callable[[tf.DType], Any]) -> Any:
        """Returns the sum or mean as a gradient, a tensor or `tf.IndexedSlices`.

        Args:
            counts: Function of a type that returns the number of batches in it, a scalar tensor
                by which the sum is divided; None for the sum itself.
        """
        raise NotImplementedError

    def reset(self, zeros: Callable[..., tf.Tensor]) -> list[tf.Operation]:
        """Returns operations that reset the sum to zero.

        Args:
            zeros: A function like `tf.zeros` that takes the shape as a tuple.
        """
        raise NotImplementedError

    def _make_parts(self, grads: Sequence[Any], make: Callable[..., tf.Variable]) -> dict[str, Any]:
        """Returns the variables that hold the sum, by name."""
        raise NotImplementedError

    def _name(self, part: str) -> str:
        return f"{self._variable.name.partition(':')[0]}/accumulated_{part}"

    def _zeros(self, zeros: Callable[..., tf.Tensor] = tf.zeros) -> tf.Tensor:
        return zeros(tuple(self._shape), self._wide)

    def _finish(self, value: tf.Tensor, counts: Callable[[tf.DType], Any]) -> tf.Tensor:
        """Returns a sum in the gradients' type, divided by `counts(dtype)` if that is not None."""
        count = counts(value.dtype)
        if count is not None:
            value = value / count
        return tf.cast(value, self._dtype)


class _Dense(Total):
    """Sum of gradients that are tensors."""

    def _make_parts(self, grads: Sequence[Any], make: Callable[..., tf.Variable]) -> dict[str, Any]:
        del grads
        return {"gradient": make(self._zeros, self._name("gradient"))}

    def add(self, grads: Sequence[Any]) -> list[tf.Operation]:
        """Returns operations that add the gradients of one batch, a list of them."""
        total = self._parts["gradient"]
        dense = [collectives.dense(gradient, self._variable) for gradient in grads]
        return [total.assign_add(tf.cast(one, self._wide), read_value=False) for one in dense]

    def read(self, counts: Callable[[tf.DType], Any]) -> tf.Tensor:
        """Returns the sum or mean as a tensor."""
        return self._finish(self._parts["gradient"].value(), counts)

    def reset(self, zeros: Callable[..., tf.Tensor]) -> list[tf.Operation]:
        """Returns an operation that resets the sum to zero."""
        return [self._parts["gradient"].assign(self._zeros(zeros), read_value=False)]


class _Slices(Total):
    """Sum of gradients that are `tf.IndexedSlices`: their slices, concatenated."""

    def _make_parts(self, grads: Sequence[Any], make: Callable[..., tf.Variable]) -> dict[str, Any]:
        # Lookups of one table may use indices of 32 and of 64 bits; the wider type holds all.
        self._indices = max((g.indices.dtype for g in grads), key=lambda dtype: dtype.size)
        shapes = {"rows": [None], "slices": [None, *self._shape[1:]]}
        return {
            part: make(lambda part=part: self._none(part), self._name(part), tf.TensorShape(shape))
            for part, shape in shapes.items()
        }

    def _none(self, part: str) -> tf.Tensor:
        """Returns a part without slices."""
        if part == "rows":
            return tf.zeros([0], self._indices)
        return tf.zeros([0, *self._shape[1:]], self._wide)

    def add(self, grads: Sequence[Any]) -> list[tf.Operation]:
        """Returns operations that append the slices of one batch's gradients, a list of them."""
        rows = [tf.cast(gradient.indices, self._indices) for gradient in grads]
        slices = [tf.cast(gradient.values, self._wide) for gradient in grads]
        new = {"rows": tf.concat(rows, axis=0), "slices": tf.concat(slices, axis=0)}
        return [
            held.assign(tf.concat([held.read_value(), new[part]], axis=0), read_value=False)
            for part, held in self._parts.items()
        ]

    def read(self, counts: Callable[[tf.DType], Any]) -> tf.IndexedSlices:
        """Returns the sum or mean as `tf.IndexedSlices`."""
        return tf.IndexedSlices(
            self._finish(self._parts["slices"].read_value(), counts),
            self._parts["rows"].read_value(),
            tf.constant(self._shape, self._indices),
        )

    def reset(self, zeros: Callable[..., tf.Tensor]) -> list[tf.Operation]:
        """Returns operations that remove all slices."""
        del zeros
        return [
            held.assign(self._none(part), read_value=False) for part, held in self._parts.items()
        ]


def _check_static(variable: tf.Variable) -> None:
    if not variable.shape.is_fully_defined():
        shape = str(variable.shape).replace("?", "None")  # TensorFlow 1.15 prints "?".
        raise ValueError(
            "Gradients are accumulated for variables of static shape, but "
            f"'{variable.name}' has {shape}. Give it one, or leave `accumulate_steps` at 1."
        )
