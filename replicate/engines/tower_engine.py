"""Lets the program of one tower communicate with those of the others."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.engines.engine import Engine
from replicate.engines.per_tower import PerTower
from replicate.engines.rendezvous import BEFORE_OR_AFTER, UNDER_ANOTHER
from replicate.engines.tower_index import TowerIndex
from replicate.graphs import call_site
from replicate.partition import Program
from replicate.reduction import chosen, collectives


class TowerEngine(Engine):
    """The engine in the program of one tower, or in a merge function of it.

    Args:
        program: The `Program`.
    """

    checks_gradients = True

    def __init__(self, program: Program) -> None:
        self.size = program.size
        self._program = program

    @property
    def index(self) -> Any:
        """The index of this tower, which converts to an int32 scalar; 0 in merge functions."""
        return 0 if self._program.merging else TowerIndex(self._program.index)

    def mean_share(self, value: Any) -> Any:
        """Returns `value` times this tower's share of the batch's rows."""
        share = self._program.share(value.dtype)
        return value / self.size if share is None else value * share

    def add(self, tensors: Sequence[Any], label: str) -> tuple[list[Any], str]:
        """Returns sums that are computed on the consolidation device."""
        self._check_may_meet(label)
        sums = [self._program.sum(tensor) for tensor in tensors]
        return sums, sums[0].name

    def counted(self, tensor: Any) -> Any:
        """Returns `tensor`, or zeros if this tower has no rows."""
        rows = self._program.rows
        if rows.are_known and all(rows.counts):  # No tower is empty: save the multiplication.
            return tensor
        share = self._program.share(tensor.dtype.real_dtype)
        return tensor * tf.cast(share > 0, tensor.dtype)

    def loss_weight(self, dtype: Any) -> Any:
        """Returns the weight of this tower's loss; None if all losses have equal weight."""
        return None if self._program.summed else self._program.share(dtype)

    def meet(self, fn: Callable[..., Any], args: Sequence[Any], label: str) -> Any:
        """Calls `fn` once, on the consolidation device."""
        self._check_may_meet(label)
        given = [self._of_each(arg) for arg in args]
        with self._program.in_merge_function():
            result = fn(*given)
        if not isinstance(result, PerTower):
            return result
        return self._own_part(result.of_towers(self.size), label)

    def apply_gradients(
        self, optimizer: Any, grads_and_vars: Sequence[Any], args: Any, kwargs: Any
    ) -> Any:
        """Sums the towers' gradients, and applies them once."""
        program, step = self._program, optimizer.step
        pairs = list(grads_and_vars)
        if not program.merging:  # A merge function has the gradients of all towers already.
            name = type(optimizer.optimizer).__name__
            label = f"apply_gradients of {name} '{optimizer.get_name()}'"
            self._check_may_meet(label, UNDER_ANOTHER)
            pairs = [(self._whole_gradient(*pair), pair[1]) for pair in pairs]
        chosen.say(step.how, pairs, step.communication_scale())
        with program.in_merge_function(), step.checked(pairs):
            return step.apply(pairs, args, kwargs)

    def _whole_gradient(self, gradient: Any, variable: Any) -> Any:
        """Returns the gradient of the batch's loss, from those of the towers' losses."""
        program = self._program
        if gradient is None:
            return None
        gradient = collectives.as_gradient(gradient, variable, 0)
        if isinstance(gradient, tf.IndexedSlices):
            values = gradient.values if program.summed else self.mean_share(gradient.values)
            return tf.IndexedSlices(
                program.concatenated(self.counted(values)),
                program.concatenated(gradient.indices),
                gradient.dense_shape,
            )
        return program.whole(gradient, program.loss_layout)

    def _of_each(self, value: Any) -> PerTower[Any]:
        """Returns the values of all towers; a value that is not a tensor is the same in all."""
        leaves = tf.nest.flatten(value, expand_composites=True)
        leaves = [leaf.tensor if isinstance(leaf, TowerIndex) else leaf for leaf in leaves]
        by_leaf = [
            self._program.each(leaf) if isinstance(leaf, tf.Tensor) else [leaf] * self.size
            for leaf in leaves
        ]
        by_tower = zip(*by_leaf) if leaves else [()] * self.size
        return PerTower(
            [tf.nest.pack_sequence_as(value, one, expand_composites=True) for one in by_tower]
        )

    def _own_part(self, values: Sequence[Any], label: str) -> Any:
        """Returns one structure that stands for N: in each tower, it has that tower's value."""
        flat = [tf.nest.flatten(value, expand_composites=True) for value in values]
        parts = []
        for leaves in zip(*flat):
            if all(tf.is_tensor(leaf) for leaf in leaves):
                parts.append(self._program.tower_has(leaves))
            elif all(leaf is leaves[0] or leaf == leaves[0] for leaf in leaves[1:]):
                parts.append(leaves[0])
            else:
                raise ValueError(
                    "Values of a `PerTower` result that differ between towers must be tensors, "
                    f"because the model is built once for all towers, but {label} returned "
                    f"{leaves!r}. Make tensors of them, or return the same for all."
                )
        return tf.nest.pack_sequence_as(values[0], parts, expand_composites=True)

    def _check_may_meet(self, label: str, way_out: str = BEFORE_OR_AFTER) -> None:
        if self._program.merging:
            raise RuntimeError(
                f"A merge function must not rendezvous, but this one reached {label}, called at "
                f"{call_site()}. It already has the values of all towers: combine them there."
            )
        if graph_lib.in_control_flow(self._program.graph):
            raise RuntimeError(
                "Towers must not rendezvous in the body of a `tf.cond`, `tf.while_loop` or "
                f"function, which may run any number of times, but this one reached {label}, "
                f"called at {call_site()}. {way_out}"
            )
