"""The engine of towers: where the model of all towers, built once, asks for those of the others."""

import contextlib
import functools

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat import seeds
from replicate.engines import accumulators
from replicate.engines.engine import Engine
from replicate.engines.rendezvous import BEFORE_OR_AFTER, UNDER_ANOTHER
from replicate.gathering import packing
from replicate.graphs import call_site
from replicate.towers import (
    PerTower,
    TowerIndex,
    gathered_gradients,
    hyperparameters,
    whole_gradients,
)


class TowerEngine(Engine):
    """The engine in a model that runs as towers, or in a merge function of it.

    Args:
        towers: The `Towers`.
    """

    checks_gradients = True

    def __init__(self, towers):
        self.size = towers.size
        self._towers = towers

    @property
    def index(self):
        """The index of this tower, which converts to an int32 scalar; 0 in merge functions."""
        return 0 if self._towers.merging else TowerIndex(self._towers.index)

    def mean_share(self, value):
        """Returns `value` times this tower's share of the rows."""
        return value * self._towers.weight(self._towers.row_weights, value.dtype)

    def add(self, tensors, label):
        """Returns sums from the consolidation device."""
        towers = self._towers
        self._check_may_meet(label)
        kind = "cross_tower_sum_grad" if label.startswith("gradient") else label
        scope = kind.replace(" ", "_").replace("-", "_")
        with towers.once(), tf.name_scope(f"replicate/{scope}/"):
            by_tower = []
            for index, own in enumerate(towers.each(tensors)):
                with tf.device(towers.devices[index]):
                    mask = functools.partial(towers.row_weights.mask, index)
                    by_tower.append([mask(tensor, tf.zeros_like(tensor)) for tensor in own])
            sums = [tf.add_n(list(values)) for values in zip(*by_tower)]
        return sums, sums[0].name

    def counted(self, tensor):
        """Returns `tensor`, times 0 where this tower has no rows."""
        return self._towers.weighted(tensor, tensor.dtype, summed=True)

    def pending_weight(self, dtype):
        """Returns the weight of this tower's loss in backward passes that start from 1."""
        towers = self._towers
        if towers.loss_weights.equal is not None or whole_gradients.is_weighted():
            return None
        return towers.weight(towers.loss_weights, dtype)

    def meet(self, fn, args, label):
        """Calls `fn` once, on the consolidation device."""
        towers = self._towers
        self._check_may_meet(label)
        with seeds.uncounted():
            given = [towers.each_structure(arg) for arg in args]
        with towers.once(), towers.in_merge_function(), seeds.counted():
            result = fn(*given)
        if not isinstance(result, PerTower):
            return result
        with seeds.uncounted():
            return self._own_part(result.of_towers(self.size), label)

    def _own_part(self, values, label):
        """Returns tower 0's of N structures, in which copies have theirs."""
        flat = [tf.nest.flatten(value, expand_composites=True) for value in values]
        own = []
        for leaves in zip(*flat):
            if all(tf.is_tensor(leaf) for leaf in leaves):
                own.append(self._towers.own(leaves))
            elif all(leaf is leaves[0] or leaf == leaves[0] for leaf in leaves[1:]):
                own.append(leaves[0])
            else:
                raise ValueError(
                    "What a `PerTower` result holds for each tower must be tensors, since the "
                    f"model is built once for all of them, but {label} returned {leaves!r}. Make "
                    "tensors of them, or return the same for all."
                )
        return tf.nest.pack_sequence_as(values[0], own, expand_composites=True)

    def _check_may_meet(self, label, way_out=BEFORE_OR_AFTER):
        if self._towers.merging:
            raise RuntimeError(
                f"A merge function must not rendezvous, but this one reached {label}, called at "
                f"{call_site()}. It already has the values of all towers: combine them there."
            )
        if graph_lib.in_control_flow(self._towers.graph):
            raise RuntimeError(
                "Towers must not rendezvous in the body of a `tf.cond`, `tf.while_loop` or "
                f"function, which may run any number of times, but this one reached {label}, "
                f"called at {call_site()}. {way_out}"
            )

    def rescale(self, grads, fn):
        """Rescales gradients where they are: with their towers, or once they are gathered."""
        towers = self._towers
        if towers.merging or any(towers.differ(gradient) for gradient in grads):
            return [fn(gradient) for gradient in grads]
        with towers.once():
            rescaled = packing.each(fn, grads)
        for gradient, other in zip(grads, rescaled):
            towers.gathered.follow(gradient, other)
        return rescaled

    def gathers_by(self, step):
        """Gathers gradients that are made by hand from now on as a `TrainingStep` says."""
        self._towers.how = step.how

    def compute_gradients(self, optimizer, loss, args, kwargs):
        """Returns the gradients of the whole batch's loss, gathered where they are made."""
        compute = optimizer.optimizer.compute_gradients
        if self._towers.merging:
            return compute(loss, *args, **kwargs)
        with whole_gradients.gathered_by(optimizer.step):
            return compute(loss, *args, **kwargs)

    def minimizing(self, optimizer):
        """Leaves gradients with their towers if they are accumulated there."""
        if self._towers.merging or not optimizer.step.accumulates:
            return contextlib.nullcontext()
        return whole_gradients.gathered_by(optimizer.step, apart=True)

    def apply_minimized(self, optimizer, grads_and_vars, kwargs):
        """Accumulates gradients tower by tower, so that they cross devices once per update."""
        towers, step = self._towers, optimizer.step
        if towers.merging or not step.accumulates:
            return optimizer.apply_gradients(grads_and_vars, **kwargs)
        self._check_may_apply(optimizer)
        by_tower = gathered_gradients.of_each(towers, grads_and_vars)
        # What is not finite must not be added up either.
        with towers.once(), towers.in_merge_function(), step.checked(by_tower, towers.devices):
            apply = self._apply_in_replicas(optimizer)
            return accumulators.apply(optimizer, by_tower, towers, (), kwargs, apply)

    def applying(self):
        """Lets what is applied with gradients, such as a learning rate, be of all rows."""
        return hyperparameters.of_all_rows(self._towers)

    def apply_gradients(self, optimizer, grads_and_vars, args, kwargs):
        """Applies gradients of the whole batch, after gathering those that were made by hand."""
        towers, step = self._towers, optimizer.step
        if towers.merging:
            with step.checked([grads_and_vars]):
                return step.apply(grads_and_vars, args, kwargs)
        self._check_may_apply(optimizer)
        whole = gathered_gradients.gather_by_hand(towers, grads_and_vars, step)
        with towers.once(), towers.in_merge_function(), seeds.counted():
            apply = self._apply_in_replicas(optimizer)
            with self._checked(optimizer, whole):
                makes = accumulators.makes(towers, [towers.consolidation_device], step.how)
                applied = step.apply(whole, args, kwargs, apply, **makes)
        return applied

    def _check_may_apply(self, optimizer):
        name = type(optimizer.optimizer).__name__
        label = f"apply_gradients of {name} '{optimizer.get_name()}'"
        self._check_may_meet(label, UNDER_ANOTHER)

    def _apply_in_replicas(self, optimizer):
        variables = self._towers.variables
        variables.settle(self._towers)
        if variables.replicas is None:
            return None
        with variables.shared_if_not_followed(self._towers):
            return variables.replicas.apply(optimizer.optimizer, self._towers, optimizer.step.how)
        return None

    def _checked(self, optimizer, pairs):
        """Returns a scope that fails if gradients are not finite, if that is to be checked."""
        towers = self._towers
        by_tower = [[] for _ in towers.devices]
        for gradient, variable in pairs:
            own = towers.gathered.origin(gradient)
            if own is None:  # It was changed since: it is as it is on one device.
                by_tower[0].append((gradient, variable))
            for pairs_of_tower, one in zip(by_tower, own or ()):
                pairs_of_tower.append((one, variable))
        return optimizer.step.checked(by_tower, towers.devices)
