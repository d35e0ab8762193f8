"""Accumulates the gradients of towers: each on its own device, saved as their sum.

A checkpoint holds what one device would have accumulated by then, under the same names. So it moves
between any numbers of towers.
"""

import functools

import tensorflow.compat.v1 as tf

from replicate.batch import Weights, losses_are_added_up
from replicate.compat import saving
from replicate.gathering import collectives
from replicate.graphs import run_if

_LOCAL = [tf.GraphKeys.LOCAL_VARIABLES]


def make_variables(initial, name, shape=None, towers=(0,), **kwargs):
    """Makes what one tower, or all together, add up in: a variable that is saved.

    Args:
        initial: Function without arguments that returns the initial value.
        name: Name of the variable, whatever name scopes are open.
        shape: Its `tf.TensorShape` where that changes; None where it does not.
        towers: Indices of the towers.
        **kwargs: More arguments of `tf.Variable`.

    Returns:
        The variable of each of `towers`, by index; here all have the same.
    """
    with tf.init_scope(), tf.name_scope(None):
        variable = tf.Variable(
            initial,
            name=name,
            shape=shape,
            validate_shape=shape is None,
            trainable=False,
            use_resource=True,
            **kwargs,
        )
    return dict.fromkeys(towers, variable)


def apply(optimizer, grads_and_vars, group, args, kwargs, own_apply=None):
    """Adds up the gradients of all towers, and applies them after every so many batches.

    Args:
        optimizer: The `TowerOptimizer`, of tower 0.
        grads_and_vars: For each of N towers the list of its `(gradient, variable)` pairs, which
            were weighted in the step that made them: weights are those of a batch.
        group: The `Towers`, in a merge function.
        args: What the wrapped optimizer's `apply_gradients` takes besides.
        kwargs: Likewise.
        own_apply: Function that takes what `apply_gradients` does, in place of that one.

    Returns:
        An operation.
    """
    step = optimizer.step
    given = makes(group, group.devices, step.how)
    accumulation = step.accumulation(grads_and_vars[0], losses_are_added_up(), **given)
    with tf.name_scope("replicate/accumulate/"):
        accumulation.prepare(grads_and_vars)
        added = []
        for index, pairs in enumerate(grads_and_vars):
            with tf.device(group.devices[index]):
                added += accumulation.add(pairs, index)

    def update(count):
        by_tower = []
        for index, device in enumerate(group.devices):
            with tf.device(device), tf.name_scope("replicate/accumulate/"):
                by_tower.append(accumulation.read(count, index))
        ones = Weights([1] * group.size)
        gathered = step.gather(by_tower, group, ones)
        return step.update(gathered, args, kwargs, own_apply)

    def reset(updated):
        zeroed = []
        for index, device in enumerate(group.devices):
            with tf.device(device), tf.name_scope("replicate/accumulate/"):
                zeroed += accumulation.reset(updated, index)
        return zeroed

    return accumulation.every(added, update, reset)


def makes(group, devices, how):
    """Returns the arguments of an `Accumulation` by which it makes variables of towers.

    Args:
        group: The `Towers`, in a merge function.
        devices: Where each of those is whose gradients are added up.
        how: The `Gather`, which says what is packed.
    """
    first = [group.consolidation_device] * len(devices)
    return {
        "make": functools.partial(_make_variables, group, devices),
        "make_counter": functools.partial(_make_variables, group, first),
        "pack": lambda entries: collectives.packs(entries, group, how),
    }


def _make_variables(group, devices, initial, name, shape=None, towers=(0,), parts=None):
    """Makes a variable for each tower, on its device.

    Args:
        group: The `Towers`.
        devices: The device of each.
        initial: As `make_variables` takes it.
        name: Likewise.
        shape: Likewise.
        towers: Likewise.
        parts: If the variable holds a pack, the pairs of name and shape of what checkpoints have
            of it.

    Returns:
        What `make_variables` does.
    """
    by_tower = {}
    for index in towers:
        own = name if index == towers[0] else f"replicate/tower_{index}/{name}"
        with tf.device(group.variables.worker), tf.device(devices[index]):
            by_tower.update(make_variables(initial, own, shape, [index], collections=_LOCAL))
    variables = list(by_tower.values())
    first = variables[0]
    group.variables.accumulated += variables
    with tf.control_dependencies(None), tf.device(group.consolidation_device):
        merge = tf.add_n if shape is None else _concat
        saving.save_as_one(variables, initial, merge, parts)
        # A session initialises its local variables after it has restored a checkpoint.
        is_new = tf.logical_not(first.is_initialized())
        saving.set_initializer(first, run_if(is_new, lambda: first.assign(initial()).op))
    return by_tower


def _concat(values):
    return tf.concat(values, axis=0)
