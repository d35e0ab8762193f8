"""The gradients of tf.distribute replicas, made alike.

A strategy pairs the replicas' gradients by position, and takes those of a variable to be of one
kind. So the replicas agree on an order and on kinds first, and fill in what they lack.
"""

from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from replicate.compat import distribute
from replicate.engines.per_tower import PerTower
from replicate.graphs import names_in
from replicate.reduction import collectives

_NONE, _SLICES, _DENSE = range(3)

# `replicate` itself only goes around Keras' optimizers.
_LIBRARIES = ("tensorflow", "keras", "tf_keras", "replicate")


class Kind(NamedTuple):
    """What gradient a variable has: its kind and type, None if there is no gradient."""

    variable: Any
    kind: int
    dtype: Any


def unique(grads_and_vars, index):
    """Returns one `(gradient, variable)` pair for each variable.

    Args:
        grads_and_vars: Pairs of replica `index`, with variables or the replica's own parts of them,
            as `tf.trainable_variables()` may hold.
        index: Index of the replica.

    Raises:
        TypeError: If a gradient is neither a tensor nor `tf.IndexedSlices` nor None.
    """
    extended = tf.distribute.get_strategy().extended
    by_variable = {}
    for gradient, variable in grads_and_vars:
        variable = extended.value_container(variable)
        _, grads = by_variable.setdefault(id(variable), (variable, []))
        if gradient is not None:
            grads.append(collectives.as_gradient(gradient, variable, index))
    return [
        (collectives.total(grads, variable) if grads else None, variable)
        for variable, grads in by_variable.values()
    ]


def kinds_of(grads_and_vars):
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


def agree(kinds):
    """Returns the `Kind`s of all variables, dense where one replica's gradient is.

    Args:
        kinds: The lists of all replicas.

    Raises:
        TypeError: If the replicas' gradients of a variable are of different types.
        ValueError: If there is no gradient at all.
    """
    agreed, given = {}, {}
    for index, own in enumerate(kinds):
        for one in own:
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


def conform(grads_and_vars, kinds):
    """Returns the gradients in the order and of the kinds that were agreed on.

    Where only other replicas have a gradient, it is zero.
    """
    own = {id(variable): gradient for gradient, variable in grads_and_vars}
    conformed = []
    for variable, kind, dtype in kinds:
        gradient = own.get(id(variable))
        if gradient is None and kind == _DENSE:
            gradient = tf.zeros(variable.shape, dtype)
        elif gradient is None and kind == _SLICES:
            gradient = no_slices(variable, dtype, tf.int32)
        elif kind == _DENSE:
            gradient = collectives.dense(gradient, variable)
        conformed.append((gradient, variable))
    return conformed


def no_slices(variable, dtype, index_dtype):
    """Returns a gradient without slices, `tf.IndexedSlices`."""
    return tf.IndexedSlices(
        tf.zeros([0, *variable.shape.as_list()[1:]], dtype),
        tf.zeros([0], index_dtype),
        tf.shape(variable, out_type=index_dtype),
    )


def gather(grads_and_vars):
    """Merge function of gathering: for each replica its pairs, with gradients added up over all.

    Args:
        grads_and_vars: The lists of `(gradient, variable)` pairs of all replicas, of one order and
            of the same kinds.
    """
    own = [[g for g, _ in pairs if g is not None] for pairs in grads_and_vars]
    sums = [iter(totals) for totals in all_reduce(*zip(*own))]
    return PerTower(
        [(g if g is None else next(totals), variable) for g, variable in pairs]
        for totals, pairs in zip(sums, grads_and_vars)
    )


def all_reduce(*values):
    """Merge function that gives every replica the list of sums of its arguments over replicas."""
    strategy = tf.distribute.get_strategy()
    if strategy.num_replicas_in_sync == 1:
        return PerTower([[tensors[0] for tensors in values]])
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


def has_own_way(optimizer):
    """Whether an optimizer's `apply_gradients` is neither TensorFlow's nor Keras' own."""
    function = getattr(type(optimizer), "apply_gradients", None)
    module = getattr(function, "__module__", "").partition(".")[0]
    return function is not None and module not in _LIBRARIES


def applies_once(optimizer):
    """Whether an optimizer's own `apply_gradients` does not go on to another one.

    BERT's is such: it assigns variables. What it calls is looked for in its code, and in that of
    the methods it names.
    """
    if not has_own_way(optimizer):
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
