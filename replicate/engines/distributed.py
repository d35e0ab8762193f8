"""Runs towers as replicas of a tf.distribute strategy, which does the communication.

A model runs in replicas if its Estimator has `train_distribute` or `eval_distribute`, or in
`strategy.run`. Sums are the strategy's all-reduce. The wrapped optimizer applies gradients through
the strategy, as it does without `TowerOptimizer`. Replicas have shards of equal size.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, List, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import distribute
from replicate.compat import graph as graph_lib
from replicate.engines import replica_gradients, replica_steps
from replicate.engines.engine import Alone, Engine
from replicate.engines.per_tower import PerTower
from replicate.engines.rendezvous import BEFORE_OR_AFTER, UNDER_ANOTHER, Call
from replicate.graphs import call_site
from replicate.reduction import collectives

Pairs = List[Any]  # Of `(gradient, variable)`; a gradient may be None.


def engine() -> Engine | None:
    """Returns the engine of the strategy whose scope is open, None if there is none."""
    if not tf.distribute.has_strategy():
        return None
    strategy = tf.distribute.get_strategy()
    distribute.check_version(strategy)
    if tf.distribute.in_cross_replica_context():
        return CrossReplicaEngine(strategy)
    return ReplicaEngine(strategy) if strategy.num_replicas_in_sync > 1 else OnlyReplica()


class ReplicaEngine(Engine):
    """The engine in one of several replicas.

    Args:
        strategy: The `tf.distribute.Strategy`.
    """

    def __init__(self, strategy: Any) -> None:
        self.size = strategy.num_replicas_in_sync
        # A strategy that spans hosts lists only the devices of this one.
        self.sees_all = len(strategy.extended.worker_devices) == self.size
        self._context = tf.distribute.get_replica_context()

    @property
    def index(self) -> Any:
        """The index of this replica: an integer if it is known, else a tensor."""
        index = self._context.replica_id_in_sync_group
        known = tf.get_static_value(index)
        return index if known is None else int(known)

    def mean_share(self, value: Any) -> Any:
        """Returns `value / N`."""
        # Divide before adding: a sum in half precision may overflow.
        return value / tf.cast(self.size, value.dtype)

    def add(self, tensors: Sequence[Any], label: str) -> tuple[list[Any], str]:
        """Returns the strategy's sums."""
        return self.meet(_add, tensors, f"{label} of {_signature(tensors)}")

    def meet(self, fn: Callable[..., Any], args: Sequence[Any], label: str) -> Any:
        """Calls `fn` in the strategy's cross-replica context."""
        call = Call(fn, tuple(args), label, call_site())
        if graph_lib.in_control_flow_v1():
            raise RuntimeError(
                "Towers must not rendezvous in the body of a `tf.cond` or `tf.while_loop`, which "
                f"may run any number of times, but a replica reached {call}. "
                f"{UNDER_ANOTHER if fn is _agree else BEFORE_OR_AFTER}"
            )
        scope = tf.get_default_graph().get_name_scope()
        sealed = distribute.Sealed((call, scope + "/" if scope else ""))
        return self._context.merge_call(_merge, args=(sealed,)).value[id(sealed)]

    def compute_gradients(self, optimizer: Any, loss: Any, args: Any, kwargs: Any) -> Any:
        """Computes gradients of the loss as it is; TensorFlow's optimizers would divide it by N."""
        optimizer.averages_losses = distribute.losses_are_means()

        def called() -> Any:
            # The loss function may create another loss, whose reduction counts instead.
            value = loss()
            optimizer.averages_losses = distribute.take_as_it_is()
            return value

        with distribute.losses_as_they_are():
            given = called if callable(loss) else loss
            return optimizer.optimizer.compute_gradients(given, *args, **kwargs)

    def apply_gradients(
        self, optimizer: Any, grads_and_vars: Iterable[Any], args: Any, kwargs: Any
    ) -> Any:
        """Lets the wrapped optimizer add up and apply the gradients through the strategy."""
        wrapped = optimizer.optimizer
        label = f"apply_gradients of {type(wrapped).__name__} '{optimizer.get_name()}'"
        local = replica_gradients.unique(grads_and_vars, self.index)
        kinds = replica_gradients.kinds_of(local)
        # After this rendezvous every replica has computed its gradients.
        first, kinds = self.meet(_agree, (optimizer, kinds), label)
        local = replica_gradients.conform(local, kinds)
        if self._averages(optimizer):
            distribute.report_mean_loss()
            local = self._divide(local)
        if optimizer.step.accumulates or optimizer.step.may_skip:
            # The decision to update is made once, for all replicas.
            applied = self._apply_sometimes(optimizer, local, args, kwargs, label)
        elif replica_gradients.applies_once(wrapped):
            # It assigns variables directly, so that no replica may do it a second time.
            applied = self.meet(_apply_once, (optimizer, local, args, kwargs), label)
        else:
            applied = self._apply(optimizer, local, lambda: self._sum(local), args, kwargs)
        optimizer.answer_as(first)
        return applied

    def _apply(
        self, optimizer: Any, local: Pairs, total: Callable[[], Pairs], args: Any, kwargs: Any
    ) -> Any:
        """Applies gradients in this replica; `total` returns those summed over replicas."""
        step, wrapped = optimizer.step, optimizer.optimizer
        if replica_gradients.overrides_apply(wrapped):
            # Its changes, such as clipping, must see the gradients of the whole batch.
            summed = step.transform(total())
            with distribute.already_summed(self._divide):
                return wrapped.apply_gradients(summed, *args, **kwargs)
        if step.transforms:
            # Every replica has the transformed sums, and the wrapped optimizer adds them up again.
            local = self._divide(step.transform(total()))
        return wrapped.apply_gradients(local, *args, **kwargs)

    def _apply_sometimes(
        self, optimizer: Any, local: Pairs, args: Any, kwargs: Any, label: str
    ) -> Any:
        """Applies gradients, except in steps that are skipped or only accumulate."""

        def apply(local: Pairs, total: Callable[[], Pairs]) -> Any:
            return self._apply(optimizer, local, total, args, kwargs)

        accumulation, added = None, []
        if optimizer.step.accumulates:
            local = self._sum_slices(local)
            summed = distribute.in_estimator() and not self._averages(optimizer)
            given = optimizer, local, summed
            accumulation = self.meet(replica_steps.accumulation, given, label)
            added = accumulation.add(local)
        part = replica_steps.Contribution(local, apply, self._divide, accumulation, added)
        return self.meet(replica_steps.update, (optimizer, part, args, kwargs), label)

    def _sum_slices(self, local: Pairs) -> Pairs:
        """Returns the gradients with sparse ones replaced by those of all replicas."""
        slices = [pair for pair in local if isinstance(pair[0], tf.IndexedSlices)]
        summed = self._sum(slices) if slices else []
        by_variable = {id(variable): gradient for gradient, variable in summed}
        return [(by_variable.get(id(variable), gradient), variable) for gradient, variable in local]

    def _averages(self, optimizer: Any) -> bool:
        """Whether the losses were means when their gradients were computed."""
        if optimizer.averages_losses is None:  # The user computed the gradients.
            return distribute.losses_are_means()
        return optimizer.averages_losses

    def _divide(self, grads_and_vars: Pairs) -> Pairs:
        """Returns the gradients divided by the number of replicas."""
        return [
            (None if gradient is None else collectives.scale(gradient, 1.0 / self.size), variable)
            for gradient, variable in grads_and_vars
        ]

    def _sum(self, grads_and_vars: Pairs) -> Pairs:
        """Returns the gradients summed over replicas, each in all of them."""
        label = f"sum of {len(grads_and_vars)} gradients"
        return self.meet(replica_gradients.all_reduce_gradients, (grads_and_vars,), label)


class OnlyReplica(Alone):
    """The engine in the replica of a strategy with only one replica."""

    def apply_gradients(self, optimizer: Any, grads_and_vars: Any, args: Any, kwargs: Any) -> Any:
        """Applies the gradients."""
        if not (optimizer.step.accumulates or optimizer.step.may_skip):
            return Alone().apply_gradients(optimizer, grads_and_vars, args, kwargs)
        # A conditional update runs in the cross-replica context, where strategies expect it.
        engine = ReplicaEngine(tf.distribute.get_strategy())
        with optimizer.step.checked(grads_and_vars):  # They are those of the whole batch.
            return engine.apply_gradients(optimizer, grads_and_vars, args, kwargs)


class CrossReplicaEngine(Engine):
    """The engine in a merge function or another cross-replica context: all it does is refuse.

    Args:
        strategy: The `tf.distribute.Strategy`.
    """

    index = 0

    def __init__(self, strategy: Any) -> None:
        self.size = strategy.num_replicas_in_sync
        self._name = type(strategy).__name__

    def mean_share(self, value: Any) -> Any:
        """Raises a RuntimeError: here, code runs once for all replicas."""
        raise RuntimeError(self._refusal("a cross-tower mean"))

    def add(self, tensors: Any, label: str) -> Any:
        """Raises a RuntimeError: here, code runs once for all replicas."""
        del tensors, label
        raise RuntimeError(self._refusal("a cross-tower sum"))

    def meet(self, fn: Any, args: Any, label: str) -> Any:
        """Raises a RuntimeError: here, code runs once for all replicas."""
        raise RuntimeError(self._refusal(label))

    def compute_gradients(self, optimizer: Any, loss: Any, args: Any, kwargs: Any) -> Any:
        """Raises a RuntimeError: here, code runs once for all replicas."""
        raise RuntimeError(self._refusal("`compute_gradients`"))

    def apply_gradients(self, optimizer: Any, grads_and_vars: Any, args: Any, kwargs: Any) -> Any:
        """Raises a RuntimeError: here, code runs once for all replicas."""
        raise RuntimeError(self._refusal("`apply_gradients`"))

    def _refusal(self, reached: str) -> str:
        return (
            f"Towers meet in replicas, but {reached} was reached in the cross-replica context of "
            f"{self._name}, at {call_site()}: in `strategy.scope()` or a merge function, which has "
            "the values of all replicas already. Call it in the function that `strategy.run` or "
            "the Estimator runs in each replica."
        )


def _merge(strategy: Any, sealed: Any) -> distribute.Sealed:
    """Runs the merge function of the replicas' calls; returns the results by sealed call."""
    sealed = strategy.experimental_local_results(sealed)
    calls, scopes = zip(*(one.value for one in sealed))
    for index, call in enumerate(calls):
        if not calls[0].same_as(call):
            raise RuntimeError(
                "All towers must make the same rendezvous in the same order, but replica 0 is at "
                f"{calls[0]} and replica {index} at {call}. Make these calls in every replica, "
                "for any `tower_index()`."
            )
    with tf.device(strategy.extended.worker_devices[0]), tf.name_scope(scopes[0]):
        result = calls[0].fn(*(PerTower(values) for values in zip(*(call.args for call in calls))))
    results: Sequence[Any] = [result] * len(calls)
    if isinstance(result, PerTower):
        results = result.of_towers(len(calls))
    return distribute.Sealed({id(one): value for one, value in zip(sealed, results)})


def _signature(tensors: Iterable[Any]) -> str:
    return ", ".join(f"{tensor.dtype.name}{tensor.shape}" for tensor in tensors)


def _agree(optimizers: Sequence[Any], kinds: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Merge function: returns the first optimizer and the `Kind`s that all replicas must use."""
    return optimizers[0], replica_gradients.agree(kinds)


def _apply_once(optimizers: Any, grads_and_vars: Any, args: Any, kwargs: Any) -> Any:
    """Merge function: the first replica's optimizer applies the summed gradients, once."""
    summed = replica_gradients.all_reduce_gradients(grads_and_vars)[0]
    return optimizers[0].step.apply_now(summed, args[0], kwargs[0])


def _add(*values: Sequence[Any]) -> PerTower[Any]:
    """Merge function: sums over replicas, with a name that is the same in all of them."""
    name = tf.get_default_graph().unique_name("cross_tower_sum")
    return PerTower((sums, name) for sums in replica_gradients.all_reduce(*values))
