"""Where towers meet: the engine of a model that runs as towers of one graph."""

import contextlib
import functools
import inspect
from typing import Callable, NamedTuple

import tensorflow.compat.v1 as tf

from replicate import gradients, tower_accumulation
from replicate.compat import graph as graph_lib
from replicate.engine import Engine, PerTower
from replicate.functions import call_site, code_of
from replicate.lockstep import running_tower

BEFORE_OR_AFTER = "Make the call before or after the body, on what it takes or returns."
UNDER_ANOTHER = (
    f"{BEFORE_OR_AFTER} Where another optimizer makes the condition, let `TowerOptimizer` wrap "
    "that one; loss scales and accumulation over batches it has itself."
)


class Call(NamedTuple):
    """A rendezvous as one tower reached it."""

    fn: Callable
    args: tuple
    label: str
    site: str  # Where it was called, `file:line`.

    def same_as(self, other):
        """Whether towers at these calls meet."""
        return self.label == other.label and code_of(self.fn) is code_of(other.fn)

    def __str__(self):
        return f"{self.label}, called at {self.site}"


def current():
    """Returns the `Tower` that is being built here, None outside and in merge functions."""
    tower = running_tower()
    return None if tower is None or tower.towers.merging else tower


def merging():
    """Returns the `Towers` whose merge function runs here, None elsewhere."""
    tower = running_tower()
    return tower.towers if tower is not None and tower.towers.merging else None


class TowerEngine(Engine):
    """The engine in a tower, or in a merge function, which runs as tower 0.

    Args:
        tower: The `Tower` that is being built.
    """

    checks_gradients = True

    def __init__(self, tower):
        self.size = tower.towers.size
        self.index = tower.index
        self._tower = tower

    def mean_share(self, value):
        """Returns `value` times this tower's share of the rows."""
        return value * self._tower.towers.row_weights.of(self.index, value.dtype)

    def add(self, tensors):
        """Returns sums from the consolidation device."""
        mask = functools.partial(self._tower.towers.row_weights.mask, self.index)
        own = [mask(tensor, tf.zeros_like(tensor)) for tensor in tensors]
        signature = ", ".join(f"{tensor.dtype.name}{tensor.shape}" for tensor in tensors)
        sums = self.meet(_add, own, f"cross-tower sum of {signature}")
        return sums, sums[0].name  # One tensor for all towers, so its name is the same in each.

    def add_gradients(self, tensors, label):
        """Returns Σⱼ (wⱼ/wᵢ)·dyⱼ, with wⱼ the weight of tower j's loss."""
        return self.meet(_whole_loss_gradient, tensors, label)

    def meet(self, fn, args, label):
        """Waits until all towers are here, and calls `fn` on the consolidation device."""
        towers = self._tower.towers
        call = Call(fn, args, label, call_site())
        if towers.merging:
            raise RuntimeError(
                f"A merge function must not rendezvous, but this one reached {call}. It already "
                "has the values of all towers: combine them there."
            )
        if graph_lib.in_control_flow(towers.graph):
            raise RuntimeError(
                "Towers must not rendezvous in the body of a `tf.cond`, `tf.while_loop` or "
                f"function, which may run any number of times, but tower {self.index} reached "
                f"{call}. {UNDER_ANOTHER if fn is _apply_once else BEFORE_OR_AFTER}"
            )
        return towers.meet(self._tower, call)

    def compute_gradients(self, optimizer, loss, args, kwargs):
        """Computes gradients, without gating where it would only cost operations."""
        compute = optimizer.optimizer.compute_gradients
        signature = inspect.signature(compute)
        if not self._tower.towers.merging and "gate_gradients" in signature.parameters:
            given = signature.bind(loss, *args, **kwargs).arguments
            if "gate_gradients" not in given and _are_snapshots(given.get("var_list")):
                # Gating keeps an update from overtaking gradients that still read the variable.
                # What towers read are snapshots, so it would only cost operations.
                kwargs = dict(kwargs, gate_gradients=tf.train.Optimizer.GATE_NONE)
        return compute(loss, *args, **kwargs)

    def apply_gradients(self, optimizer, grads_and_vars, args, kwargs):
        """Gathers on the consolidation device; tower 0's optimizer applies."""
        if self._tower.towers.merging:  # Gathered already, by an optimizer around this one.
            with optimizer.step.checked([grads_and_vars]):
                return optimizer.step.apply(grads_and_vars, args, kwargs)
        name = type(optimizer.optimizer).__name__
        label = f"apply_gradients of {name} '{optimizer.get_name()}'"
        return self.meet(_apply_once, (optimizer, grads_and_vars, args, kwargs), label)


def _add(*values):
    """Merge function of the sums: one sum for each list of N tensors."""
    with tf.name_scope("replicate/cross_tower_sum/"):
        return [tf.add_n(list(tensors)) for tensors in values]


def _whole_loss_gradient(*values):
    """Merge function of the gradient: Σⱼ (wⱼ/wᵢ)·dyⱼ for each tower i and each sum y."""
    group = merging()
    with tf.name_scope("replicate/cross_tower_sum_grad/"):
        totals = [gradients.weighted_sum(dys, group) for dys in values]
        return PerTower(
            [total / group.loss_weights.of(index, total.dtype) for total in totals]
            for index in range(group.size)
        )


def _apply_once(optimizers, grads_and_vars, args, kwargs):
    """Merge function of `apply_gradients`: tower 0's optimizer applies the gathered gradients."""
    group = merging()
    step, replicas = optimizers[0].step, group.variables.replicas
    apply, scope = None, contextlib.nullcontext()
    if replicas:
        own = [optimizer.optimizer for optimizer in optimizers]
        apply, scope = replicas.apply(own, group, step.how), replicas.updates(group)
        grads_and_vars = [replicas.as_first(pairs) for pairs in grads_and_vars]
    with scope:
        applied = _update(optimizers[0], grads_and_vars, group, args[0], kwargs[0], apply)
    operation = getattr(applied, "op", applied)
    if isinstance(operation, tf.Operation):  # A custom optimizer may return what it likes.
        group.applied.append(operation)
    if not replicas:
        for optimizer in optimizers[1:]:
            optimizer.answer_as(optimizers[0])
    return applied


def _update(optimizer, grads_and_vars, group, args, kwargs, apply):
    """Updates with the gradients of all towers; returns what `apply` does."""
    step = optimizer.step
    if step.accumulates:
        # What is not finite must not be added up either.
        with step.checked(grads_and_vars, group.devices):
            return tower_accumulation.apply(optimizer, grads_and_vars, group, args, kwargs, apply)
    gathered = step.gather(grads_and_vars, group)
    with step.checked(grads_and_vars, group.devices):
        return step.update(gathered, args, kwargs, apply)


def _are_snapshots(variables):
    """Whether reading `variables`, by default all trainable ones, gives values that stay."""
    variables = tf.trainable_variables() if variables is None else tf.nest.flatten(variables)
    return all(hasattr(variable, "handle") for variable in variables)
