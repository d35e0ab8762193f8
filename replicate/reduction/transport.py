"""Where gradients are summed, and in which type they get there."""

from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from replicate.reduction import nccl, packing
from replicate.reduction.gather import Gather


class Transport(NamedTuple):
    """What the gradients of towers cross on their way to one device."""

    devices: Any
    """Device strings of the towers."""
    place: str
    """Device string of where they are summed."""
    how: Gather
    scale: Any = None
    """What they are multiplied by meanwhile, a scalar tensor; None: nothing."""

    def send(self, gradient, index):
        """Returns tower `index`'s gradient, a tensor, as it arrives."""
        dtype = gradient.dtype.base_dtype
        if self.devices[index] == self.place or not self.how.narrows(dtype):
            return gradient
        with tf.device(self.devices[index]):
            if self.scale is not None:
                gradient = gradient * tf.cast(self.scale, dtype)
            sent = tf.cast(gradient, self.how.wire_dtype)
        received = tf.cast(sent, dtype)
        return received if self.scale is None else received / tf.cast(self.scale, dtype)


def check(how, variables, devices, consolidation, may_be_one):
    """Raises a ValueError if gradients cannot be summed where a `Gather` says.

    Args:
        how: The `Gather`.
        variables: The variables that gradients are of.
        devices: Device strings of the towers.
        consolidation: The device string of what runs once.
        may_be_one: Whether variables may be in one place, as what users did not choose may.
    """
    if how.where == "nccl":
        nccl.check_devices(devices, consolidation)
    if how.where != "round_robin":
        return
    places = [variable.device or consolidation for variable in variables]
    others = sorted({place for place in places if "/job:" in place})
    if others and "/job:" not in consolidation:
        raise ValueError(
            "With `gather='round_robin'`, gradients are summed where their variables are, which "
            f"must be in this process, but are on {', '.join(others)}. A worker sends one gradient "
            "to parameter servers, not one for each tower: leave `gather` out."
        )
    if not may_be_one and len(places) > 1 and len(set(places)) == 1:
        raise ValueError(
            "With `gather='round_robin'`, gradients are summed where their variables are, but all "
            f"{len(variables)} are on {places[0]}. Pass `replicate_model_fn` "
            "`variable_placement='round_robin'`, or leave `gather` out."
        )


def in_turn(tensors, devices):
    """Returns a device for each of some tensors such that all devices get as many bytes."""
    loads, found = dict.fromkeys(devices, 0), []
    for tensor in tensors:
        found.append(min(devices, key=loads.get))
        loads[found[-1]] += packing.size_of(tensor) or 0
    return found
