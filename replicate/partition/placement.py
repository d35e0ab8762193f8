"""Places a model: its towers, the operations that run once, and its variables.

With `'auto'`, variables are placed so that a step is fastest. Between GPUs, time mostly depends on
the bytes that are sent. `benchmarks/links.py` predicts the least time if each tower has replicas of
trainable variables, and gradients are summed on the towers in turn; small models send a few more
messages. No GPU then holds more than the first one does by default. Towers on CPU devices share
memory, and nothing is sent.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Sequence, Tuple

import tensorflow.compat.v1 as tf

from replicate.clusters import PS_DEVICE
from replicate.compat import graph as graph_lib
from replicate.reduction import Reduction, transport

PLACEMENTS = ("consolidation", "round_robin", "replicated", "auto")

Instead = Dict[Any, Tuple[Any, ...]]
"""By references of whole tensors: the tensors that N towers take instead."""


class Placement(NamedTuple):
    """The devices of a model.

    Attributes:
        devices: Device strings of the towers.
        consolidation: Device string of operations that run once.
        variables: Device strings of variables, in turn; () for `consolidation`.
        reduction: The `Reduction`: how and where gradients are summed.
        gradient_scale: Factor of gradients while they cross devices in float16, or None.
        replicates: Whether each tower has replicas of trainable variables.
        why: The reason for the place of variables, if users left it open; else "".
    """

    devices: tuple[str, ...]
    consolidation: str
    variables: tuple[str, ...] = ()
    reduction: Reduction = Reduction()
    gradient_scale: Any = None
    replicates: bool = False
    why: str = ""

    @classmethod
    def from_argument(
        cls, asked: str, devices: Sequence[str], consolidation: str, cluster: Any
    ) -> Placement:
        """Returns the placement that the argument `variable_placement` means.

        Args:
            asked: One of `PLACEMENTS`.
            devices: Device strings of the towers.
            consolidation: Device string of operations that run once.
            cluster: The `Cluster`; its parameter servers, if it has any, hold the variables.
        """
        here = cls(
            tuple(f"{cluster.worker}{device}" for device in devices),
            f"{cluster.worker}{consolidation}",
        )
        if cluster.has_ps:
            why = "since variables are on parameter servers" if asked == "auto" else ""
            return here._replace(variables=(PS_DEVICE,), why=why)
        if asked == "auto":
            on_cpu = [name for name in devices if _type_of(name) == "CPU"]
            if on_cpu:
                return here._replace(why=f"since {on_cpu[0]} has the host's memory")
            return here._replace(replicates=True, why="so that no weight crosses between GPUs")
        if asked == "round_robin":
            return here._replace(variables=here.devices)
        # The first tower has the variables themselves, the others replicas.
        first = here.devices[:1] if asked == "replicated" else ()
        return here._replace(variables=first, replicates=asked == "replicated")

    def place_of_copies(self, device: str) -> str:
        """Returns the device string of the towers' copies of an operation on `device`.

        It is '' if each is on its tower's device: if the operation names no device, that of the
        first tower, or the consolidation device.
        """
        firsts = self.consolidation, self.devices[0]
        moves = not device or any(graph_lib.same_device(device, first) for first in firsts)
        return "" if moves else device

    def with_choice(self, choice: Any) -> Placement:
        """Returns this placement with the `Reduction` that optimizers chose, a `Choice`.

        Raises:
            ValueError: If gradients cannot be summed there.
        """
        # If the library placed variables, all of them may be on one device, and so may the sums:
        # `'round_robin'` also counts variables that are not trained.
        may_be_one = self.replicates or bool(self.why or self.variables)
        transport.check(choice.how, choice.variables, self.devices, self.consolidation, may_be_one)
        return self._replace(reduction=choice.how, gradient_scale=choice.scale)

    def places_of_sums(self, tensors: Sequence[Any], are_gradients: Sequence[bool]) -> list[str]:
        """Returns for each tensor the device on which the towers' tensors are joined.

        Args:
            tensors: The tensors.
            are_gradients: For each, whether an optimizer applies it.
        """
        if self.reduction.where not in ("round_robin", "auto"):
            return [self.consolidation] * len(tensors)
        if self.replicates:
            # Every device has each variable, so sums are balanced over them by size.
            in_turn = iter(
                transport.in_turn(
                    [tensor for tensor, is_one in zip(tensors, are_gradients) if is_one],
                    self.devices,
                )
            )
            return [next(in_turn) if is_one else self.consolidation for is_one in are_gradients]
        return [self._place_of_taker(tensor) for tensor in tensors]

    def _place_of_taker(self, tensor: Any) -> str:
        # An update runs where its variable is.
        for taker in tensor.consumers():
            if taker.device in self.devices:
                return str(taker.device)
        return self.consolidation

    def device_function(self, holders: Any) -> Any:
        """Returns the device, or the device function, under which a model is built.

        Args:
            holders: Types of operations that hold variables.
        """
        if not self.variables:
            return self.consolidation
        made: list[str] = []

        def place(operation: Any) -> str:
            if operation.device or operation.type not in holders:
                found = tf.DeviceSpec.from_string(self.consolidation)
                found.merge_from(tf.DeviceSpec.from_string(operation.device or ""))
                return str(found.to_string())  # A device that the model asks for is kept.
            if graph_lib.is_colocating(operation.graph):
                return ""  # A slot is placed with its variable.
            made.append(self.variables[len(made) % len(self.variables)])
            return made[-1]

        return place


def _type_of(device: str) -> Any:
    return tf.DeviceSpec.from_string(device).device_type
