"""Where a model runs."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Tuple

from replicate.compat import graph as graph_lib
from replicate.gathering import Gather

Instead = Dict[Any, Tuple[Any, ...]]
"""By references of whole tensors: what each of N towers takes in its place."""


class Placement(NamedTuple):
    """Where things run.

    Attributes:
        devices: Device strings of the towers.
        consolidation: The device string of what runs once.
        gather: The `Gather`: how sums get there.
        replicates: Whether each tower has a replica of what is trained.
    """

    devices: tuple[str, ...]
    consolidation: str
    gather: Gather = Gather()
    replicates: bool = False

    def is_first(self, device: str) -> bool:
        """Whether a device is that of what runs once, or of the first tower; '' is."""
        if not device:
            return True
        firsts = self.consolidation, self.devices[0]
        return any(graph_lib.same_device(device, first) for first in firsts)

    def place_of_sum(self, tensor: Any) -> str:
        """Returns the device on which towers' parts of a tensor are put together."""
        if self.gather.where in ("round_robin", "auto"):
            for taker in tensor.consumers():
                if taker.device in self.devices:
                    return str(taker.device)
        return self.consolidation
