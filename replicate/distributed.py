"""The engine of a tf.distribute replica: what towers do where they meet, done by the strategy.

A model runs in replicas when its Estimator has `train_distribute` or `eval_distribute`, or in
`strategy.run`. Sums are the strategy's all-reduce; the wrapped optimizer applies gradients as it
does without `TowerOptimizer`, by the strategy. Replicas have shards of equal size.
"""

import tensorflow.compat.v1 as tf

from replicate import gradients
from replicate.compat import distribute
from replicate.compat import graph as graph_lib
from replicate.engine import Engine, PerTower
from replicate.functions import call_site, names_in
from replicate.rendezvous import Call


def engine():
    """Returns the engine of the strategy whose scope is open, None if there is none."""
    if not tf.distribute.has_strategy():
        return None
    strategy = tf.distribute.get_strategy()
    if tf.distribute.in_cross_replica_context():
        return CrossReplicaEngine(strategy)
    return ReplicaEngine(strategy) if strategy.num_replicas_in_sync > 1 else Engine()


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
        return self.meet(_all_reduce, tensors, f"cross-tower sum of {_signature(tensors)}")

    def add_gradients(self, tensors, label):
        """Returns the sums of the gradients: all replicas count alike."""
        del label  # It names a tensor, of which each replica has its own.
        gradients_of = f"gradient of a cross-tower sum of {_signature(tensors)}"
        return self.meet(_all_reduce, tensors, gradients_of)

    def meet(self, fn, args, label):
        """Calls `fn` in the strategy's cross-replica context."""
        call = Call(fn, tuple(args), label, call_site())
        if graph_lib.in_control_flow_v1():
            raise RuntimeError(
                "Towers must not rendezvous in the body of a `tf.cond` or `tf.while_loop`, which "
                f"may run any number of times, but a replica reached {call}. Make the call before "
                "or after the body, on what it takes or returns."
            )
        sealed = _Sealed(call)
        return self._context.merge_call(_merge, args=(sealed,)).value[id(sealed)]

    def compute_gradients(self, compute, loss, args, kwargs):
        """Computes gradients of the loss as it is, which TensorFlow's optimizers divide."""
        with distribute.losses_as_they_are():
            return compute(loss, *args, **kwargs)

    def apply_gradients(self, optimizer, grads_and_vars, args, kwargs):
        """Lets the wrapped optimizer add up and apply the gradients by the strategy."""
        name = type(optimizer.optimizer).__name__
        label = f"apply_gradients of {name} '{optimizer.get_name()}'"
        # `tf.trainable_variables()` may hold the replicas' own parts of a variable.
        extended = tf.distribute.get_strategy().extended
        grads_and_vars = [(g, extended.value_container(v)) for g, v in grads_and_vars]
        kinds = [(variable, _kind(gradient)) for gradient, variable in grads_and_vars]
        # Also the point from which on every replica has computed its gradients.
        first, kinds = self.meet(_agree, (optimizer, kinds), label)
        grads_and_vars = _conform(grads_and_vars, kinds)
        if distribute.losses_are_means():
            distribute.report_mean_loss()
            grads_and_vars = self._divide(grads_and_vars)
        if _assigns_by_itself(optimizer.optimizer):
            given = (optimizer, grads_and_vars, args, kwargs)
            applied = self.meet(_apply_once, given, label)
        else:
            if optimizer.transforms:
                # Gathered in all replicas, whose gradients the wrapped optimizer adds up again.
                grads_and_vars = self._divide(optimizer.transform(self._gather(grads_and_vars)))
            applied = optimizer.optimizer.apply_gradients(grads_and_vars, *args, **kwargs)
        optimizer.answer_as(first)
        return applied

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

    def __init__(self, strategy):
        self.size = strategy.num_replicas_in_sync
        self._name = type(strategy).__name__

    def mean_share(self, value):
        """Returns `value`, which `add` refuses."""
        return value

    def add(self, tensors):
        """Raises: replicas are one here."""
        del tensors
        raise RuntimeError(self._refusal("a cross-tower sum"))

    def meet(self, fn, args, label):
        """Raises: replicas are one here."""
        raise RuntimeError(self._refusal(label))

    def compute_gradients(self, compute, loss, args, kwargs):
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

    def __init__(self, value):
        self.value = value


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
    with tf.device(strategy.extended.worker_devices[0]):
        result = calls[0].fn(*(PerTower(values) for values in zip(*(call.args for call in calls))))
    answers = [result] * len(calls)
    if isinstance(result, PerTower):
        answers = result.of_towers(len(calls))
    return _Sealed({id(one): answer for one, answer in zip(sealed, answers)})


def _signature(tensors):
    return ", ".join(f"{tensor.dtype.name}{tensor.shape}" for tensor in tensors)


def _kind(gradient):
    """Returns 0 for None, 1 for `tf.IndexedSlices` and 2 for a tensor."""
    return 0 if gradient is None else 1 if isinstance(gradient, tf.IndexedSlices) else 2


def _agree(optimizers, kinds):
    """Merge function: the first optimizer, and for each variable the densest kind of gradient."""
    agreed = {}
    for pairs in kinds:
        for variable, kind in pairs:
            _, other = agreed.get(id(variable), (None, 0))
            agreed[id(variable)] = variable, max(kind, other)
    return optimizers[0], list(agreed.values())


def _conform(grads_and_vars, kinds):
    """Returns the gradients in the order and of the kinds that all replicas agreed on.

    Strategies pair gradients by position and take those of a variable to be of one kind. Where
    only other replicas have a gradient, it is zero.
    """
    own = {id(variable): g for g, variable in grads_and_vars if g is not None}
    conformed = []
    for variable, kind in kinds:
        gradient = own.get(id(variable))
        if gradient is None and kind:
            rows = [0] + variable.shape.as_list()[1:] if kind == 1 else variable.shape
            gradient = tf.zeros(rows, variable.dtype.base_dtype)
            if kind == 1:
                no_indices = tf.zeros([0], tf.int32)
                gradient = tf.IndexedSlices(gradient, no_indices, tf.shape(variable))
        elif kind == 2:
            gradient = tf.convert_to_tensor(gradient)
        conformed.append((gradient, variable))
    return conformed


def _assigns_by_itself(optimizer):
    """Whether an optimizer has its own way to apply gradients, that knows nothing of strategies.

    Such as BERT's, which assigns variables in `apply_gradients`; in replicas, each would assign
    what its own gradient says. An `apply_gradients` that calls another one only goes around it.
    """
    function = getattr(type(optimizer), "apply_gradients", None)
    module = getattr(function, "__module__", "").partition(".")[0]
    own = function is not None and module not in ("tensorflow", "keras", "tf_keras")
    return own and "apply_gradients" not in names_in(function)


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


def _all_reduce(*values):
    """Merge function that gives every replica the list of sums of its arguments over replicas."""
    strategy = tf.distribute.get_strategy()
    each = [distribute.per_replica(tensors) for tensors in values]
    sums = strategy.extended.batch_reduce_to(
        tf.distribute.ReduceOp.SUM, [(value, value) for value in each]
    )
    by_replica = list(zip(*map(strategy.experimental_local_results, sums)))
    # A collective operation waits for that of every replica, so it hangs if a session needs the
    # sum of one replica only, and prunes the others.
    with tf.control_dependencies(tf.nest.flatten(by_replica, expand_composites=True)):
        return PerTower(
            tf.nest.map_structure(tf.identity, list(totals), expand_composites=True)
            for totals in by_replica
        )
