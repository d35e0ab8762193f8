"""Where gradients are summed, and in which type they get there."""

from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from replicate.gathering import nccl, packing
from replicate.gathering.gather import Gather


class Transport(NamedTuple):
    """What the gradients of towers cross on their way to one device."""

    devices: Any
    """Device strings of the towers."""
    place: str
    """Device string of where they are summed."""
    how: Gather
    scale: Any = None
    """What they are multiplied by meanwhile, a scalar tensor; None: nothing."""

    def by_nccl(self, grads):
        """Whether NCCL adds up gradients, `(tower index, gradient)` pairs: dense ones of all."""
        return (
            self.how.where == "nccl"
            and len(grads) == len(self.devices)
            and all(isinstance(gradient, tf.Tensor) for _, gradient in grads)
        )

    def send(self, gradient, index):
        """Returns tower `index`'s gradient, a tensor or `tf.IndexedSlices`, as it arrives."""
        dtype = gradient.dtype.base_dtype
        if self.devices[index] == self.place or not self.how.narrows(dtype):
            return gradient
        if self.scale is None:
            with tf.device(self.devices[index]):
                sent = narrow(gradient, self.how)
            return widen(sent, gradient)
        with tf.device(self.devices[index]):
            scaled = _with_values(gradient, lambda values: values * tf.cast(self.scale, dtype))
            sent = narrow(scaled, self.how)
        received = widen(sent, gradient)
        return _with_values(received, lambda values: values / tf.cast(self.scale, dtype))


def narrow(gradient, how):
    """Returns a gradient, a tensor or `tf.IndexedSlices`, in the type in which it crosses."""
    if not how.narrows(gradient.dtype.base_dtype):
        return gradient
    return _with_values(gradient, lambda values: tf.cast(values, how.wire_dtype))


def widen(gradient, given):
    """Returns a gradient that has crossed devices in the type of the one that was `given`."""
    if gradient.dtype == given.dtype:
        return gradient
    return _with_values(gradient, lambda values: tf.cast(values, given.dtype.base_dtype))


def arrived(gradient):
    """Returns a gradient as what is on the device that it is taken on."""
    return _with_values(gradient, tf.identity)


def _with_values(gradient, fn):
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(fn(gradient.values), gradient.indices, gradient.dense_shape)
    return fn(gradient)


def places(variables, towers, how):
    """Returns a dictionary of where each variable's gradients are summed, by the variable's `id`.

    Args:
        variables: List of variables.
        towers: The `Towers`.
        how: The `Gather`.

    Raises:
        ValueError: If that is to be where the variables are, and these are elsewhere, or NCCL is to
            add them up, and cannot.
    """
    if how.where == "nccl":
        nccl.check_devices(towers.devices, towers.consolidation_device)
        towers.uses_nccl = True
    where = how.where
    if where in ("round_robin", "auto"):
        where = towers.variables.where_summed(where, towers)
    if where == "in_turn":
        return _in_turn(variables, towers.devices)
    if where != "round_robin":
        return dict.fromkeys(map(id, variables), towers.consolidation_device)
    found = {id(v): v.device or towers.consolidation_device for v in variables}
    others = sorted({place for place in found.values() if "/job:" in place})
    if others and "/job:" not in towers.consolidation_device:
        raise ValueError(
            "With `gather='round_robin'`, gradients are summed where their variables are, which "
            f"must be in this process, but are on {', '.join(others)}. A worker sends one gradient "
            "to parameter servers, not one for each tower: leave `gather` out."
        )
    if how.where == where and len(variables) > 1 and len(set(found.values())) == 1:
        raise ValueError(
            "With `gather='round_robin'`, gradients are summed where their variables are, but all "
            f"{len(variables)} are on {variables[0].device}. Pass `replicate_model_fn` "
            "`variable_placement='round_robin'`, or leave `gather` out."
        )
    return found


def _in_turn(variables, devices):
    """Returns a device for each variable, by its `id`, such that all devices get as many bytes."""
    loads, found = dict.fromkeys(devices, 0), {}
    for variable in variables:
        place = found[id(variable)] = min(devices, key=loads.get)
        loads[place] += packing.size_of_variable(variable)
    return found
