"""Where a model runs: its towers, what runs once, and its variables.

With `'auto'`, variables are where a step is fastest. `benchmarks/links.py` predicts the least time
between GPUs, where that goes by bytes, if each tower has a replica of what is trained and gradients
are summed on the towers in turn; small models send a few messages more. No GPU then holds more than
the first one does by default. Towers on CPU devices have one memory, in which nothing crosses.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Sequence, Tuple

import tensorflow.compat.v1 as tf

from replicate.clusters import PS_DEVICE
from replicate.compat import graph as graph_lib
from replicate.reduction import Reduction, transport

PLACEMENTS = ("consolidation", "round_robin", "replicated", "auto")

Instead = Dict[Any, Tuple[Any, ...]]
"""By references of whole tensors: what each of N towers takes in its place."""


class Placement(NamedTuple):
    """Where things run.

    Attributes:
        devices: Device strings of the towers.
        consolidation: The device string of what runs once.
        variables: Device strings of variables, in turn; () if that of what runs once.
        gather: The `Reduction`: how sums get there.
        gradient_scale: Factor of gradients while they cross devices in float16, or None.
        replicates: Whether each tower has a replica of what is trained.
        why: What decided where variables are, if users left it open; else empty.
    """

    devices: tuple[str, ...]
    consolidation: str
    variables: tuple[str, ...] = ()
    gather: Reduction = Reduction()
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
            consolidation: The device string of what runs once.
            cluster: The `Cluster`; parameter servers that it has hold the variables.
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
        # The first tower has the variables themselves.
        first = here.devices[:1] if asked == "replicated" else ()
        return here._replace(variables=first, replicates=asked == "replicated")

    def is_first(self, device: str) -> bool:
        """Whether a device is that of what runs once, or of the first tower; '' is."""
        if not device:
            return True
        firsts = self.consolidation, self.devices[0]
        return any(graph_lib.same_device(device, first) for first in firsts)

    def gathering(self, choice: Any) -> Placement:
        """Returns this placement with the `Reduction` that optimizers chose, a `Choice`.

        Raises:
            ValueError: If gradients cannot be summed there.
        """
        # Variables that the library placed may all be in one place: then sums are there.
        may_be_one = self.replicates or bool(self.why)
        transport.check(choice.how, choice.variables, self.devices, self.consolidation, may_be_one)
        return self._replace(gather=choice.how, gradient_scale=choice.scale)

    def places_of_sums(self, tensors: Sequence[Any], are_gradients: Sequence[bool]) -> list[str]:
        """Returns the device on which towers' parts of each of some tensors are put together.

        Args:
            tensors: The tensors.
            are_gradients: Of each, whether an optimizer applies it.
        """
        if self.gather.where not in ("round_robin", "auto"):
            return [self.consolidation] * len(tensors)
        if self.replicates:
            in_turn = iter(
                transport.in_turn(
                    [tensor for tensor, is_one in zip(tensors, are_gradients) if is_one],
                    self.devices,
                )
            )
            return [next(in_turn) if is_one else self.consolidation for is_one in are_gradients]
        return [self._place_of_taker(tensor) for tensor in tensors]

    def _place_of_taker(self, tensor: Any) -> str:
        for taker in tensor.consumers():
            if taker.device in self.devices:
                return str(taker.device)
        return self.consolidation

    def device_function(self, holders: Any) -> Any:
        """Returns the device, or the function of operations, by which a model is placed.

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
                return str(found.to_string())  # Where the model says, if it does.
            if graph_lib.is_colocating(operation.graph):
                return ""  # A slot is where its variable is, wherever that is.
            made.append(self.variables[len(made) % len(self.variables)])
            return made[-1]

        return place


def _type_of(device: str) -> Any:
    return tf.DeviceSpec.from_string(device).device_type
