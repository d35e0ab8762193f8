"""Makes the gradients of tf.distribute replicas alike, and sums them.

A strategy pairs the replicas' gradients by position, and expects one kind of gradient for each
variable. So replicas first agree on an order and on kinds, and fill in gradients that they lack.
"""

from __future__ import annotations

from typing import Any, Iterable, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import distribute, keras
from replicate.engines.per_tower import PerTower
from replicate.graphs import names_in
from replicate.reduction import collectives

_NONE, _SLICES, _DENSE = range(3)


class Kind(NamedTuple):
    """Kind and dtype of a variable's gradient; the dtype is None if there is no gradient."""

    variable: Any
    kind: int
    dtype: Any


def unique(grads_and_vars: Iterable[Any], index: Any) -> list[Any]:
    """Returns one `(gradient, variable)` pair for each variable.

    Args:
        grads_and_vars: Pairs of replica `index`. `tf.trainable_variables()` may hold either the
            strategy's variables or the replica's components of them; both are taken.
        index: Index of the replica.

    Raises:
        TypeError: If a gradient is neither a tensor nor `tf.IndexedSlices` nor None.
    """
    extended = tf.distribute.get_strategy().extended
    by_variable: dict[int, Any] = {}
    for gradient, variable in grads_and_vars:
        variable = extended.value_container(variable)
        _, grads = by_variable.setdefault(id(variable), (variable, []))
        if gradient is not None:
            grads.append(collectives.as_gradient(gradient, variable, index))
    return [
        (collectives.total(grads, variable) if grads else None, variable)
        for variable, grads in by_variable.values()
    ]


def kinds_of(grads_and_vars: Iterable[Any]) -> list[Kind]:
    """Returns the `Kind` of each gradient."""
    return [
        Kind(variable, _NONE, None)
        if gradient is None
        else Kind(
            variable,
            _SLICES if isinstance(gradient, tf.IndexedSlices) else _DENSE,
            gradient.dtype.base_dtype,
        )
        for gradient, variable in grads_and_vars
    ]


def agree(kinds: Sequence[Sequence[Kind]]) -> list[Kind]:
    """Returns the `Kind`s of all variables; a gradient that is dense in one replica is in all.

    Args:
        kinds: The lists of all replicas.

    Raises:
        TypeError: If the replicas' gradients of a variable are of different types.
        ValueError: If there is no gradient at all.
    """
    agreed: dict[int, Kind] = {}
    given: dict[int, Any] = {}  # By `id` of a variable: first replica with a gradient, its dtype.
    for index, kinds_here in enumerate(kinds):
        for one in kinds_here:
            other = agreed.setdefault(id(one.variable), one)
            if one.dtype is not None:
                first, dtype = given.setdefault(id(one.variable), (index, one.dtype))
                collectives.check_types(one.variable, [(first, dtype), (index, one.dtype)])
                agreed[id(one.variable)] = one._replace(kind=max(one.kind, other.kind))
    if not given:
        raise ValueError(
            "At least one variable must have a gradient, but in no replica has one of "
            f"{[one.variable.name for one in agreed.values()]}. Check that the loss depends on "
            "them through differentiable operations."
        )
    return list(agreed.values())


def conform(grads_and_vars: Iterable[Any], kinds: Iterable[Kind]) -> list[Any]:
    """Returns the gradients in the order and of the kinds that were agreed on.

    A gradient that only other replicas have is zero here.
    """
    local = {id(variable): gradient for gradient, variable in grads_and_vars}
    conformed = []
    for variable, kind, dtype in kinds:
        gradient = local.get(id(variable))
        if gradient is None and kind == _DENSE:
            gradient = tf.zeros(variable.shape, dtype)
        elif gradient is None and kind == _SLICES:
            gradient = no_slices(variable, dtype, tf.int32)
        elif kind == _DENSE:
            gradient = collectives.dense(gradient, variable)
        conformed.append((gradient, variable))
    return conformed


def no_slices(variable: Any, dtype: Any, index_dtype: Any) -> Any:
    """Returns a gradient without slices, `tf.IndexedSlices`."""
    return tf.IndexedSlices(
        tf.zeros([0, *variable.shape.as_list()[1:]], dtype),
        tf.zeros([0], index_dtype),
        tf.shape(variable, out_type=index_dtype),
    )


def all_reduce_gradients(grads_and_vars: Sequence[Sequence[Any]]) -> PerTower[Any]:
    """Merge function: returns each replica's pairs with gradients summed over all replicas.

    Args:
        grads_and_vars: The lists of `(gradient, variable)` pairs of all replicas, of one order and
            of the same kinds.
    """
    grads = [[g for g, _ in pairs if g is not None] for pairs in grads_and_vars]
    sums = [iter(totals) for totals in all_reduce(*zip(*grads))]
    return PerTower(
        [(g if g is None else next(totals), variable) for g, variable in pairs]
        for totals, pairs in zip(sums, grads_and_vars)
    )


def all_reduce(*values: Sequence[Any]) -> PerTower[Any]:
    """Merge function that gives every replica the list of sums of its arguments over replicas."""
    strategy = tf.distribute.get_strategy()
    if strategy.num_replicas_in_sync == 1:
        return PerTower([[tensors[0] for tensors in values]])
    by_dtype: dict[Any, list[int]] = {}  # A strategy reduces tensors of one dtype at a time.
    for index, tensors in enumerate(values):
        by_dtype.setdefault(tensors[0].dtype, []).append(index)
    sums: list[Any] = [None] * len(values)
    for indices in by_dtype.values():
        each = [distribute.per_replica(values[index]) for index in indices]
        reduced = strategy.extended.batch_reduce_to(
            tf.distribute.ReduceOp.SUM, [(value, value) for value in each]
        )
        for index, total in zip(indices, reduced):
            sums[index] = strategy.experimental_local_results(total)
    by_replica = list(zip(*sums))
    # A collective operation waits for its counterpart in every replica. It would hang if a session
    # fetched the sum of one replica and pruned the others.
    with tf.control_dependencies(tf.nest.flatten(by_replica, expand_composites=True)):
        return PerTower(
            tf.nest.map_structure(tf.identity, list(totals), expand_composites=True)
            for totals in by_replica
        )


def overrides_apply(optimizer: Any) -> bool:
    """Whether an optimizer may change gradients before it applies them, as TensorFlow's do not."""
    return keras.overrides(optimizer, "apply_gradients")


def applies_once(optimizer: Any) -> bool:
    """Whether a user's `apply_gradients` does not call another `apply_gradients`.

    BERT's is an example: it assigns variables directly. Calls are looked for in the function's code
    and, recursively, in that of the methods it names.
    """
    if not overrides_apply(optimizer):
        return False
    pending, seen = ["apply_gradients"], set()
    while pending:
        name = pending.pop()
        method = getattr(type(optimizer), name, None)
        if name in seen or not callable(method):
            continue
        seen.add(name)
        names = names_in(method)
        if "apply_gradients" in names:
            return False
        pending += names
    return True
