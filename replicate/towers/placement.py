"""On which devices variables are: where users say, or, with `'auto'`, where a step is fastest.

What `benchmarks/links.py` predicts of GPUs that a step of N towers sends to one another is least,
in bytes and in transfers, if each tower has a replica of what is trained and gradients are summed
on the towers in turn, but for models so small that bytes cost nothing beside transfers. Whether
GPUs reach one another or go through the host changes what a byte costs, and not which placement
sends fewer. No GPU then holds more than the first one does by default. Towers on CPU devices have
one memory, in which nothing crosses.
"""

from typing import NamedTuple, Tuple

import tensorflow.compat.v1 as tf

PLACEMENTS = ("consolidation", "round_robin", "replicated", "auto")
AUTO = "auto"
SMALL = 64 * 2**10
"""Bytes of weights that cost their transfers alone: fewest are on the consolidation device."""

OF_HOST = ("CPU",)
"""Types of devices that have the host's memory."""


class Placement(NamedTuple):
    """Where the variables of one model are.

    Attributes:
        where: `'consolidation'`, `'round_robin'` or `'replicated'`.
        devices: Device strings on which variables are placed in turn.
        why: What decided, if users left it open; else empty.
    """

    where: str
    devices: Tuple[str, ...]
    why: str = ""

    @classmethod
    def of(cls, asked, devices, consolidation_device, cluster):
        """Returns the `Placement` that the argument `variable_placement` means.

        Args:
            asked: One of `PLACEMENTS`.
            devices: Device strings of the towers.
            consolidation_device: Device string.
            cluster: The `Cluster`; parameter servers that it has hold the variables.
        """
        shared = cls("consolidation", (consolidation_device,))
        if asked == AUTO:
            if cluster.has_ps:
                return shared._replace(why="since variables are on parameter servers")
            on_cpu = [name for name in devices if _spec(name).device_type in OF_HOST]
            if on_cpu:
                return shared._replace(why=f"since {on_cpu[0]} has the host's memory")
            return cls("replicated", tuple(devices[:1]), "so that no weight crosses between GPUs")
        places = {"round_robin": devices, "replicated": devices[:1]}
        return shared if asked not in places else cls(asked, tuple(places[asked]))

    @property
    def is_auto(self):
        """Whether it was left open."""
        return bool(self.why)

    def has(self, variable):
        """Whether a variable is where this places it, and not where its model wants it."""
        given, places = _spec(variable.device), map(_spec, self.devices)
        return any(
            (given.device_type, given.device_index) == (place.device_type, place.device_index)
            for place in places
        )


def _spec(name):
    return tf.DeviceSpec.from_string(name)
