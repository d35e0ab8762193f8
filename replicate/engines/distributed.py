"""The engine of a tf.distribute replica: what towers do where they meet, done by the strategy.

A model runs in replicas when its Estimator has `train_distribute` or `eval_distribute`, or in
`strategy.run`. Sums are the strategy's all-reduce; the wrapped optimizer applies gradients as it
does without `TowerOptimizer`, by the strategy. Replicas have shards of equal size.
"""

import tensorflow.compat.v1 as tf

from replicate.compat import distribute
from replicate.compat import graph as graph_lib
from replicate.engines import replica_gradients, replica_steps
from replicate.engines.engine import Alone, Engine
from replicate.engines.per_tower import PerTower
from replicate.engines.rendezvous import BEFORE_OR_AFTER, UNDER_ANOTHER, Call
from replicate.graphs import call_site
from replicate.reduction import collectives


def engine():
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

    def __init__(self, strategy):
        self.size = strategy.num_replicas_in_sync
        # Of a strategy that spans hosts, each has the replicas of its own.
        self.sees_all = len(strategy.extended.worker_devices) == self.size
        self._context = tf.distribute.get_replica_context()

    @property
    def index(self):
        """The index of this replica, an integer if it is known."""
        index = self._context.replica_id_in_sync_group
        known = tf.get_static_value(index)
        return index if known is None else int(known)

    def mean_share(self, value):
        """Returns `value / N`."""
        # Divided before they are added, as half-precision sums overflow.
        return value / tf.cast(self.size, value.dtype)

    def add(self, tensors, label):
        """Returns the strategy's sums."""
        return self.meet(_add, tensors, f"{label} of {_signature(tensors)}")

    def meet(self, fn, args, label):
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

    def compute_gradients(self, optimizer, loss, args, kwargs):
        """Computes gradients of the loss as it is, which TensorFlow's optimizers divide."""
        optimizer.averages_losses = distribute.losses_are_means()

        def called():
            value = loss()
            optimizer.averages_losses = distribute.take_as_it_is()
            return value

        with distribute.losses_as_they_are():
            given = called if callable(loss) else loss
            return optimizer.optimizer.compute_gradients(given, *args, **kwargs)

    def apply_gradients(self, optimizer, grads_and_vars, args, kwargs):
        """Lets the wrapped optimizer add up and apply the gradients by the strategy."""
        wrapped = optimizer.optimizer
        label = f"apply_gradients of {type(wrapped).__name__} '{optimizer.get_name()}'"
        own = replica_gradients.unique(grads_and_vars, self.index)
        kinds = replica_gradients.kinds_of(own)
        # Also the point from which on every replica has computed its gradients.
        first, kinds = self.meet(_agree, (optimizer, kinds), label)
        own = replica_gradients.conform(own, kinds)
        if self._averages(optimizer):
            distribute.report_mean_loss()
            own = self._divide(own)
        if optimizer.step.accumulates or optimizer.step.may_skip:
            applied = self._apply_sometimes(optimizer, own, args, kwargs, label)
        elif replica_gradients.applies_once(wrapped):
            applied = self.meet(_apply_once, (optimizer, own, args, kwargs), label)
        else:
            applied = self._apply(optimizer, own, lambda: self._gather(own), args, kwargs)
        optimizer.answer_as(first)
        return applied

    def _apply(self, optimizer, own, gather, args, kwargs):
        """Applies gradients in this replica; `gather` returns those of all."""
        step, wrapped = optimizer.step, optimizer.optimizer
        if replica_gradients.has_own_way(wrapped):
            # What it does to gradients it must do to those of the whole batch.
            gathered = step.transform(gather())
            with distribute.gathered_already(self._divide):
                return wrapped.apply_gradients(gathered, *args, **kwargs)
        if step.transforms:
            # Gathered in all replicas, whose gradients the wrapped optimizer adds up again.
            own = self._divide(step.transform(gather()))
        return wrapped.apply_gradients(own, *args, **kwargs)

    def _apply_sometimes(self, optimizer, own, args, kwargs, label):
        """Applies gradients in steps that are not skipped and do not only accumulate."""

        def apply(own, gather):
            return self._apply(optimizer, own, gather, args, kwargs)

        accumulation, added = None, []
        if optimizer.step.accumulates:
            own = self._gather_slices(own)
            summed = distribute.in_estimator() and not self._averages(optimizer)
            given = optimizer, own, summed
            accumulation = self.meet(replica_steps.accumulation, given, label)
            added = accumulation.add(own)
        own = replica_steps.Own(own, apply, self._divide, accumulation, added)
        return self.meet(replica_steps.update, (optimizer, own, args, kwargs), label)

    def _gather_slices(self, own):
        """Returns gradients of which the sparse ones are those of all replicas."""
        slices = [pair for pair in own if isinstance(pair[0], tf.IndexedSlices)]
        gathered = self._gather(slices) if slices else []
        by_variable = {id(variable): gradient for gradient, variable in gathered}
        return [(by_variable.get(id(variable), gradient), variable) for gradient, variable in own]

    def _averages(self, optimizer):
        """Whether the losses are means: when gradients were computed, or now if by hand."""
        if optimizer.averages_losses is None:
            return distribute.losses_are_means()
        return optimizer.averages_losses

    def _divide(self, grads_and_vars):
        """Returns the gradients divided by the number of replicas."""
        return [
            (None if gradient is None else collectives.scale(gradient, 1.0 / self.size), variable)
            for gradient, variable in grads_and_vars
        ]

    def _gather(self, grads_and_vars):
        """Returns the gradients summed over replicas, each in all of them."""
        label = f"gathering of {len(grads_and_vars)} gradients"
        return self.meet(replica_gradients.gather, (grads_and_vars,), label)


class OnlyReplica(Alone):
    """The engine in the replica of a strategy that has one."""

    def apply_gradients(self, optimizer, grads_and_vars, args, kwargs):
        """Applies the gradients; under a condition, from where a strategy lets optimizers meet."""
        engine = Alone()
        if optimizer.step.accumulates or optimizer.step.may_skip:
            engine = ReplicaEngine(tf.distribute.get_strategy())
        return engine.apply_gradients(optimizer, grads_and_vars, args, kwargs)


class CrossReplicaEngine(Engine):
    """The engine in a merge function or another cross-replica context, where replicas are one.

    Args:
        strategy: The `tf.distribute.Strategy`.
    """

    index = 0

    def __init__(self, strategy):
        self.size = strategy.num_replicas_in_sync
        self._name = type(strategy).__name__

    def mean_share(self, value):
        """Raises: replicas are one here."""
        raise RuntimeError(self._refusal("a cross-tower mean"))

    def add(self, tensors, label):
        """Raises: replicas are one here."""
        del tensors, label
        raise RuntimeError(self._refusal("a cross-tower sum"))

    def meet(self, fn, args, label):
        """Raises: replicas are one here."""
        raise RuntimeError(self._refusal(label))

    def compute_gradients(self, optimizer, loss, args, kwargs):
        """Raises: replicas are one here."""
        raise RuntimeError(self._refusal("`compute_gradients`"))

    def apply_gradients(self, optimizer, grads_and_vars, args, kwargs):
        """Raises: replicas are one here."""
        raise RuntimeError(self._refusal("`apply_gradients`"))

    def _refusal(self, what):
        return (
            f"Towers meet in replicas, but {what} was reached in the cross-replica context of "
            f"{self._name}, at {call_site()}: in `strategy.scope()` or a merge function, which has "
            "the values of all replicas already. Call it in what `strategy.run` or the Estimator "
            "runs in each replica."
        )


def _merge(strategy, sealed):
    """Runs the merge function of the replicas' calls; returns the answers by sealed call."""
    sealed = strategy.experimental_local_results(sealed)
    calls, scopes = zip(*(one.value for one in sealed))
    for index, call in enumerate(calls):
        if not calls[0].same_as(call):
            raise RuntimeError(
                "All towers must make the same rendezvous in the same order, but replica 0 is at "
                f"{calls[0]} and replica {index} at {call}. Make these calls in every replica, "
                "whatever `tower_index()` is."
            )
    with tf.device(strategy.extended.worker_devices[0]), tf.name_scope(scopes[0]):
        result = calls[0].fn(*(PerTower(values) for values in zip(*(call.args for call in calls))))
    answers = [result] * len(calls)
    if isinstance(result, PerTower):
        answers = result.of_towers(len(calls))
    return distribute.Sealed({id(one): answer for one, answer in zip(sealed, answers)})


def _signature(tensors):
    return ", ".join(f"{tensor.dtype.name}{tensor.shape}" for tensor in tensors)


def _agree(optimizers, kinds):
    """Merge function: the first optimizer, and the kinds of gradients that all are to have."""
    return optimizers[0], replica_gradients.agree(kinds)


def _apply_once(optimizers, grads_and_vars, args, kwargs):
    """Merge function: the first replica's optimizer applies the gathered gradients, once."""
    gathered = replica_gradients.gather(grads_and_vars)[0]
    return optimizers[0].step.apply_now(gathered, args[0], kwargs[0])


def _add(*values):
    """Merge function of the sums, which are given a name that is the same in all replicas."""
    name = tf.get_default_graph().unique_name("cross_tower_sum")
    return PerTower((sums, name) for sums in replica_gradients.all_reduce(*values))
