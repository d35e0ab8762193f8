"""The engine of a tf.distribute replica: what towers do where they meet, done by the strategy.

A model runs in replicas when its Estimator has `train_distribute` or `eval_distribute`, or in
`strategy.run`. Sums are the strategy's all-reduce; the wrapped optimizer applies gradients as it
does without `TowerOptimizer`, by the strategy. Replicas have shards of equal size.
"""

import tensorflow.compat.v1 as tf

from replicate import gradients, replica_gradients
from replicate.compat import distribute
from replicate.compat import graph as graph_lib
from replicate.engine import Alone, Engine, PerTower
from replicate.functions import call_site
from replicate.rendezvous import Call


def engine():
    """Returns the engine of the strategy whose scope is open, None if there is none."""
    if not tf.distribute.has_strategy():
        return None
    strategy = tf.distribute.get_strategy()
    if tf.distribute.in_cross_replica_context():
        return CrossReplicaEngine(strategy)
    return ReplicaEngine(strategy) if strategy.num_replicas_in_sync > 1 else Alone()


class ReplicaEngine(Engine):
    """The engine in one of several replicas.

    Args:
        strategy: The `tf.distribute.Strategy`.
    """

    def __init__(self, strategy):
        self.size = strategy.num_replicas_in_sync
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

    def add(self, tensors):
        """Returns the strategy's sums."""
        return self.meet(_add, tensors, f"cross-tower sum of {_signature(tensors)}")

    def add_gradients(self, tensors, label):
        """Returns the sums of the gradients: all replicas count alike."""
        return self.meet(_all_reduce, tensors, label)

    def meet(self, fn, args, label):
        """Calls `fn` in the strategy's cross-replica context."""
        call = Call(fn, tuple(args), label, call_site())
        if graph_lib.in_control_flow_v1():
            raise RuntimeError(
                "Towers must not rendezvous in the body of a `tf.cond` or `tf.while_loop`, which "
                f"may run any number of times, but a replica reached {call}. Make the call before "
                "or after the body, on what it takes or returns."
            )
        scope = tf.get_default_graph().get_name_scope()
        sealed = _Sealed(call, scope + "/" if scope else "")
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
        if not replica_gradients.has_own_way(wrapped):
            if optimizer.transforms:
                # Gathered in all replicas, whose gradients the wrapped optimizer adds up again.
                own = self._divide(optimizer.transform(self._gather(own)))
            applied = wrapped.apply_gradients(own, *args, **kwargs)
        elif replica_gradients.assigns_by_itself(wrapped):
            applied = self.meet(_apply_once, (optimizer, own, args, kwargs), label)
        else:
            # What it does to gradients it must do to those of the whole batch.
            gathered = optimizer.transform(self._gather(own))
            with distribute.gathered_already(self._divide):
                applied = wrapped.apply_gradients(gathered, *args, **kwargs)
        optimizer.answer_as(first)
        return applied

    def _averages(self, optimizer):
        """Whether the losses are means: when gradients were computed, or now if by hand."""
        if optimizer.averages_losses is None:
            return distribute.losses_are_means()
        return optimizer.averages_losses

    def _divide(self, grads_and_vars):
        """Returns the gradients divided by the number of replicas."""
        return [
            (None if gradient is None else gradients.scale(gradient, 1.0 / self.size), variable)
            for gradient, variable in grads_and_vars
        ]

    def _gather(self, grads_and_vars):
        """Returns the gradients summed over replicas, each in all of them."""
        grads = [gradient for gradient, _ in grads_and_vars if gradient is not None]
        sums = iter(self.meet(_all_reduce, grads, f"gathering of {len(grads)} gradients"))
        return [(g if g is None else next(sums), variable) for g, variable in grads_and_vars]


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

    def add(self, tensors):
        """Raises: replicas are one here."""
        del tensors
        raise RuntimeError(self._refusal("a cross-tower sum"))

    def add_gradients(self, tensors, label):
        """Raises: replicas are one here."""
        raise RuntimeError(self._refusal(label))

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


class _Sealed:
    """What a strategy hands over as it is, instead of taking it apart."""

    def __init__(self, value, scope=""):
        self.value = value
        self.scope = scope


def _merge(strategy, sealed):
    """Runs the merge function of the replicas' calls; returns the answers by sealed call."""
    sealed = strategy.experimental_local_results(sealed)
    calls = [one.value for one in sealed]
    for index, call in enumerate(calls):
        if not calls[0].same_as(call):
            raise RuntimeError(
                "All towers must make the same rendezvous in the same order, but replica 0 is at "
                f"{calls[0]} and replica {index} at {call}. Make these calls in every replica, "
                "whatever `tower_index()` is."
            )
    with tf.device(strategy.extended.worker_devices[0]), tf.name_scope(sealed[0].scope):
        result = calls[0].fn(*(PerTower(values) for values in zip(*(call.args for call in calls))))
    answers = [result] * len(calls)
    if isinstance(result, PerTower):
        answers = result.of_towers(len(calls))
    return _Sealed({id(one): answer for one, answer in zip(sealed, answers)})


def _signature(tensors):
    return ", ".join(f"{tensor.dtype.name}{tensor.shape}" for tensor in tensors)


def _agree(optimizers, kinds):
    """Merge function: the first optimizer, and the kinds of gradients that all are to have."""
    return optimizers[0], replica_gradients.agree(kinds)


def _apply_once(optimizers, grads_and_vars, args, kwargs):
    """Merge function: the first replica's optimizer applies the gathered gradients, once."""
    by_variable = [
        [gradient for gradient, _ in pairs if gradient is not None]
        for pairs in zip(*grads_and_vars)
    ]
    sums = iter(_all_reduce(*(grads for grads in by_variable if grads))[0])
    gathered = [
        (next(sums) if grads else None, variable)
        for grads, (_, variable) in zip(by_variable, grads_and_vars[0])
    ]
    return optimizers[0].apply_gathered(gathered, args[0], kwargs[0])


def _add(*values):
    """Merge function of the sums, which are given a name that is the same in all replicas."""
    name = tf.get_default_graph().unique_name("cross_tower_sum")
    return PerTower((sums, name) for sums in _all_reduce(*values))


def _all_reduce(*values):
    """Merge function that gives every replica the list of sums of its arguments over replicas."""
    strategy = tf.distribute.get_strategy()
    by_dtype = {}  # Of which strategies take one at a time.
    for index, tensors in enumerate(values):
        by_dtype.setdefault(tensors[0].dtype, []).append(index)
    sums = [None] * len(values)
    for indices in by_dtype.values():
        each = [distribute.per_replica(values[index]) for index in indices]
        reduced = strategy.extended.batch_reduce_to(
            tf.distribute.ReduceOp.SUM, [(value, value) for value in each]
        )
        for index, total in zip(indices, reduced):
            sums[index] = strategy.experimental_local_results(total)
    by_replica = list(zip(*sums))
    # A collective operation waits for that of every replica, so it hangs if a session needs the
    # sum of one replica only, and prunes the others.
    with tf.control_dependencies(tf.nest.flatten(by_replica, expand_composites=True)):
        return PerTower(
            tf.nest.map_structure(tf.identity, list(totals), expand_composites=True)
            for totals in by_replica
        )
