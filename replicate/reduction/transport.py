"""How gradients cross to the device that sums them, and which devices sum."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate.reduction import nccl, packing
from replicate.reduction.options import Reduction


class Transport(NamedTuple):
    """The way of the towers' gradients to one device."""

    devices: Any
    """Device strings of the towers."""
    place: str
    """String of the device that sums them."""
    how: Reduction
    scale: Any = None
    """Factor of gradients while they cross, a scalar tensor; None for no factor."""

    def send(self, gradient: Any, index: int) -> Any:
        """Returns the gradient of tower `index`, a tensor, as `place` receives it."""
        dtype = gradient.dtype.base_dtype
        if self.devices[index] == self.place or not self.how.narrows(dtype):
            return gradient
        with tf.device(self.devices[index]):
            if self.scale is not None:
                gradient = gradient * tf.cast(self.scale, dtype)
            sent = tf.cast(gradient, self.how.communication_dtype)
        received = tf.cast(sent, dtype)
        return received if self.scale is None else received / tf.cast(self.scale, dtype)


def check(
    how: Reduction,
    variables: Sequence[Any],
    devices: Sequence[str],
    consolidation: str,
    may_be_one: bool,
) -> None:
    """Raises unless gradients can be summed on the devices that a `Reduction` asks for.

    Args:
        how: The `Reduction`.
        variables: The variables that have gradients.
        devices: Device strings of the towers.
        consolidation: String of the consolidation device.
        may_be_one: Whether all variables may be on one device, as they may be if the library placed
            them.

    Raises:
        ValueError: If `where` is `'nccl'` and a device is not a GPU; or if it is `'round_robin'`
            and variables are in another process, or all on one device.
    """
    if how.where == "nccl":
        nccl.check_devices(devices, consolidation)
    if how.where != "round_robin":
        return
    places = [variable.device or consolidation for variable in variables]
    others = sorted({place for place in places if "/job:" in place})
    if others and "/job:" not in consolidation:
        raise ValueError(
            "With `reduction='round_robin'`, gradients are summed on their variables' devices, "
            f"which must be in this process, but are on {', '.join(others)}. A worker sends one "
            "gradient to parameter servers, not one for each tower: leave `reduction` out."
        )
    if not may_be_one and len(places) > 1 and len(set(places)) == 1:
        raise ValueError(
            "With `reduction='round_robin'`, gradients are summed on their variables' devices, but "
            f"all {len(variables)} variables are on {places[0]}. Pass `replicate_model_fn` "
            "`variable_placement='round_robin'`, or leave `reduction` out."
        )


def in_turn(tensors: Sequence[Any], devices: Sequence[str]) -> list[str]:
    """Returns a device for each tensor, so that devices get about the same number of bytes."""
    loads, found = dict.fromkeys(devices, 0), []
    for tensor in tensors:
        found.append(min(devices, key=loads.__getitem__))
        loads[found[-1]] += packing.size_of(tensor) or 0
    return found
