"""Whether each tower computes on its own device, and variables are where they were asked for.

It is read from the graphs that TensorFlow made for each device and ran, after its optimizer.
"""

from __future__ import annotations

import collections
import re
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from replicate import devices as devices_lib

# The library puts the copies of a tower, and what it updates, under such names.
_OF_TOWER = re.compile(r"(?:replicate/)?tower_(\d+)(?:_\d+)?/")
_REPLICA = re.compile(r"replicate/tower_(\d+)/(.+)")
_VARIABLES = ("VarHandleOp", "VariableV2", "Variable")
# They stand on both sides of what crosses, under the name of what is sent.
_TRANSPORT = ("_Send", "_HostSend", "_Recv", "_HostRecv")
# What TensorFlow adds when it cuts a graph, on one device for a tower on another.
_ADDED = re.compile(r"/_\d+$")
_MOST = 3  # Operations that a problem names.


class Node(NamedTuple):
    """An operation as it ran."""

    name: str
    kind: str
    device: str
    """A canonical name."""


class Placements(NamedTuple):
    """Where the operations of a step ran."""

    in_towers: tuple[int, ...]
    """How many operations each tower has on its own device."""
    variables: dict[str, int]
    """How many variables there are on each device, replicas included."""
    on_host: tuple[str, ...]
    """Types of operations that towers on GPUs have on the host, for which the GPU has no kernel."""
    problems: tuple[str, ...]
    """A sentence for each operation or variable on a wrong device."""


def nodes_of(metadata: Any) -> list[Node]:
    """Returns the operations of a step that ran with `output_partition_graphs`."""
    return [
        Node(node.name, node.op, devices_lib.canonical(node.device))
        for graph in metadata.partition_graphs
        for node in graph.node
        if node.device and node.op not in _TRANSPORT and not _ADDED.search(node.name)
    ]


def look(
    nodes: Iterable[Node], devices: Sequence[str], placement: str, trained: Sequence[str]
) -> Placements:
    """Returns where the operations of a step were.

    Args:
        nodes: The operations.
        devices: Canonical names of the towers' devices.
        placement: The `variable_placement` that was asked for.
        trained: Names of the variables that are trained, in the order in which they were made.
    """
    own, on_host = [0] * len(devices), set()
    strangers = []
    where: dict[str, str] = {}
    replicas: dict[int, dict[str, str]] = collections.defaultdict(dict)
    for node in nodes:
        tower = _OF_TOWER.match(node.name)
        replica = _REPLICA.match(node.name)
        if node.kind in _VARIABLES:
            if replica:
                replicas[int(replica[1])][replica[2]] = node.device
            else:
                where[node.name] = node.device
        if not tower:
            continue
        index = int(tower[1])
        if index < len(devices) and node.device == devices[index]:
            own[index] += 1
        elif "CPU" in node.device and index < len(devices) and "CPU" not in devices[index]:
            # The GPU has no kernel for it. Another tower may be the CPU, but it is none of its own.
            on_host.add(node.kind)
        else:
            strangers.append(f"{node.name} on {node.device}")
    problems = [
        f"tower {index} has no operation on {device}"
        for index, device in enumerate(devices)
        if not own[index]
    ]
    if strangers:
        more = f", and {len(strangers) - _MOST} more" if len(strangers) > _MOST else ""
        problems.append(f"not on the device of their tower: {', '.join(strangers[:_MOST])}{more}")
    problems += _of_variables(where, replicas, devices, placement, trained)
    counts = collections.Counter(where.values())
    for made in replicas.values():
        counts.update(made.values())
    return Placements(tuple(own), dict(counts), tuple(sorted(on_host)), tuple(problems))


def _of_variables(
    where: Mapping[str, str],
    replicas: Mapping[int, Mapping[str, str]],
    devices: Sequence[str],
    placement: str,
    trained: Sequence[str],
) -> list[str]:
    """Returns sentences on variables that are not where `placement` says."""
    problems = []
    for position, name in enumerate(trained):
        turn = position % len(devices) if placement == "round_robin" else 0
        wanted = {name: devices[turn]}
        found = {name: where.get(name, "no device")}
        # Tower 0 has the variable itself.
        for index in range(1, len(devices) if placement == "replicated" else 0):
            wanted[f"{name} of tower {index}"] = devices[index]
            found[f"{name} of tower {index}"] = replicas.get(index, {}).get(name, "no device")
        problems += [
            f"variable {one} must be on {device}, but is on {found[one]}"
            for one, device in wanted.items()
            if found[one] != device
        ]
    return problems
