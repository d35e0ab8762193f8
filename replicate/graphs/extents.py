"""What a value made from rows becomes when the rows are those of all towers.

A value that is reduced over rows is *intensive*, like a mean, or *extensive*, like a sum or a
count. Of all towers' rows, the former is the mean of the towers' values, weighted by rows, the
latter their sum, and a largest value their largest; what is computed from such values alone is
computed from those. So an update like
`moving.assign(0.9 * moving + 0.1 * tf.reduce_mean(x))` becomes that of one device. Anything else is
not known here.
"""

import tensorflow.compat.v1 as tf

from replicate.compat import copying
from replicate.compat.graph import id_of
from replicate.gathering import collectives
from replicate.graphs import row_shapes
from replicate.graphs.reduction_kinds import (
    LARGEST,
    MEAN,
    OF_ALL_ROWS,
    SMALLEST,
    SUM,
    WHOLE,
    axis_of,
)
from replicate.graphs.row_reductions import Reductions

_SCOPE = "replicate/updates/"


class Extents(Reductions):
    """What values become, for the towers of one model; takes what `Reductions` does."""

    def __init__(self, group, loosely=False):
        super().__init__(group, loosely)
        self._merged = {}

    def prepare(self, tensors, later):
        """Merges at once what `merged` of several tensors will need.

        Args:
            tensors: List of tensors.
            later: ids of operations that wait for what takes one of the tensors, so that what they
                give cannot be merged at once with these.
        """
        wanted = {}
        for tensor in tensors:
            for leaf in self._leaves(tensor) or ():
                if self.of(leaf) == MEAN and leaf.dtype.is_floating and id_of(leaf.op) not in later:
                    wanted[id_of(leaf.op), leaf.value_index] = leaf
        leaves = list(wanted.values())
        targets = [_Leaf(leaf) for leaf in leaves]
        with self._group.once(), tf.control_dependencies(None):
            by_tower = [list(zip(own, targets)) for own in self._group.each(leaves)]
            weights = self._group.row_weights
            found = collectives.gather(by_tower, self._group, weights, scope=_SCOPE)
        self._merged.update(zip(wanted, [value for value, _ in found]))

    def _leaves(self, tensor):
        """Returns where a value is merged, None if that is not known."""
        kind, op = self.of(tensor), tensor.op
        if kind == WHOLE:
            return []
        if axis_of(kind) is not None:
            return None
        if self._goes_on(op):
            inner = [self._leaves(given) for given in op.inputs]
            if None not in inner:
                return [leaf for leaves in inner for leaf in leaves]
        return [tensor] if kind in OF_ALL_ROWS else None

    def _goes_on(self, op):
        """Whether an operation is done again, of what its inputs are for all rows."""
        if id_of(op) in self._means:
            return False
        if op.type in ("Sum", "Mean", "Max", "Min", "Prod", "All", "Any"):
            return self.of(op.inputs[0]) in OF_ALL_ROWS
        return op.type in row_shapes.ELEMENTWISE or op.type in row_shapes.SHAPES

    def merged(self, tensor):
        """Returns what a tensor is for the rows of all towers, None if that is not known."""
        key = id_of(tensor.op), tensor.value_index
        if key not in self._merged:
            self._merged[key] = self._merge(tensor)
        return self._merged[key]

    def _merge(self, tensor):
        kind, op = self.of(tensor), tensor.op
        if kind == WHOLE:
            return tensor
        if axis_of(kind) is not None:
            return None
        if self._goes_on(op):
            inputs = [self.merged(given) for given in op.inputs]
            if not any(given is None for given in inputs):
                with tf.name_scope(_SCOPE):
                    return copying.again(op, inputs)[tensor.value_index]
        with tf.name_scope(_SCOPE):
            if kind in (LARGEST, SMALLEST):
                return self._extreme(tensor, kind)
            if kind == SUM or (kind == MEAN and tensor.dtype.is_floating):
                return self._group.total(tensor, averaged=kind == MEAN)
        return None

    def _extreme(self, tensor, kind):
        # A tower without rows computes with one of another's, which changes no largest value.
        values = tf.stack([own for (own,) in self._group.each([tensor])])
        return (tf.reduce_max if kind == LARGEST else tf.reduce_min)(values, axis=0)


class _Leaf:
    """A value that is merged, as `gradients.gather` asks for what a gradient is of."""

    def __init__(self, tensor):
        self.name = tensor.name
        self.device = ""
        self.dtype = tensor.dtype
        self.shape = tensor.shape


def merged(group, value):
    """Returns the value that an update takes for the rows of all towers, None if not known.

    Args:
        group: The `Towers`.
        value: What the operation that updates takes.
    """
    with group.once(), tf.control_dependencies(None):
        return group.extents.merged(value)
