"""A loss as a sum of terms, so that those that no row enters count once when losses add up."""

from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from replicate import state

_SUMS = ("Add", "AddV2", "AddN")
_SAME = ("Identity", "EnsureShape", "CheckNumerics", "Reshape", "Squeeze", "ExpandDims")


class Term(NamedTuple):
    """What adds up to a loss when it is multiplied by its factor."""

    tensor: Any
    factor: Any  # A scalar tensor that leads to no variable, None for 1.
    is_new: bool = False  # Whether the tensor was made here, so that no tape has seen it.


def terms(loss, depends, of_gradients=True):
    """Returns the `Term`s of a scalar loss.

    It is taken apart as far as some of its terms depend on rows and others do not.

    Args:
        loss: Scalar tensor.
        depends: Function of a tensor that says whether it depends on rows.
        of_gradients: Whether gradients flow to the terms, as they do to the loss.
    """
    found = _Terms(depends, of_gradients).of(loss)
    return found if any(not depends(term.tensor) for term in found) else [Term(loss, None)]


class _Terms:
    def __init__(self, depends, of_gradients):
        self._depends = depends
        self._of_gradients = of_gradients

    def of(self, tensor):
        """Returns the terms of a tensor, itself if it has no other."""
        inner = self._taken_apart(tensor) if self._depends(tensor) else None
        if inner is None or all(self._depends(term.tensor) for term in inner):
            return [Term(tensor, None)]
        return inner

    def _taken_apart(self, tensor):
        op = tensor.op
        if not tensor.dtype.is_floating or not op.inputs or not _is_scalar(op.outputs[0]):
            return None
        first, kind = op.inputs[0], op.type
        if kind == "StopGradient" and not self._of_gradients:
            return self.of(first) if _is_scalar(first) else None
        if kind in _SAME and _is_scalar(first):
            return self.of(first)
        if kind == "Cast" and _is_scalar(first) and first.dtype.is_floating:
            return self._times(self.of(first), None)
        if kind == "Neg":
            return self._times(self.of(first), tf.constant(-1, tensor.dtype))
        if kind in ("Sum", "Mean") and first.op.type == "Pack":
            parts = first.op.inputs
            if not all(map(_is_scalar, parts)):
                return None
            found = [term for part in parts for term in self.of(part)]
            count = tf.constant(1.0 / len(parts), tensor.dtype)
            return found if kind == "Sum" else self._times(found, count)
        if not all(map(_is_scalar, op.inputs)):
            return None
        if kind in _SUMS:
            return [term for each in op.inputs for term in self.of(each)]
        if kind == "Sub":
            minus = tf.constant(-1, tensor.dtype)
            return self.of(first) + self._times(self.of(op.inputs[1]), minus)
        if kind in ("Mul", "RealDiv"):
            second = op.inputs[1]
            if not self._depends(second):
                return self._scaled(first, second if kind == "Mul" else 1 / second)
            if kind == "Mul" and not self._depends(first):
                return self._scaled(second, first)
        return None

    def _scaled(self, tensor, factor):
        """Returns the terms of a tensor times a factor that no row enters."""
        inner = self.of(tensor)
        if self._of_gradients and _reads_state(factor):
            # The factor has a gradient as well.
            return [Term(_product(term.tensor, term.factor) * factor, None, True) for term in inner]
        return self._times(inner, factor)

    @staticmethod
    def _times(found, factor):
        return [
            term._replace(factor=_product(tf.cast(factor, term.tensor.dtype), term.factor))
            if factor is not None
            else term
            for term in found
        ]


def _product(tensor, factor):
    return tensor if factor is None else tensor * factor


def _is_scalar(tensor):
    return tensor.shape.rank == 0


def _reads_state(tensor):
    """Whether a tensor is computed from a variable."""
    pending, seen = [tensor.op], set()
    while pending:
        op = pending.pop()
        if op in seen:
            continue
        seen.add(op)
        if state.handles(op):
            return True
        pending += [given.op for given in op.inputs]
    return False
