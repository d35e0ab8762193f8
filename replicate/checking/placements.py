"""Checks that each tower computes on its device, and that variables are on the requested devices.

Placements are read from the graphs that TensorFlow ran on each device, after its graph optimizer.
"""

from __future__ import annotations

import collections
import re
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from replicate import devices as devices_lib

# Names of a tower's copies of operations, and of its updates.
_OF_TOWER = re.compile(r"(?:replicate/)?tower_(\d+)(?:_\d+)?/")
_REPLICA = re.compile(r"replicate/tower_(\d+)/(.+)")
_VARIABLES = ("VarHandleOp", "VariableV2", "Variable")
# TensorFlow adds these where a tensor crosses devices, named after the tensor.
_TRANSPORT = ("_Send", "_HostSend", "_Recv", "_HostRecv")
# Names of operations that TensorFlow adds when it partitions a graph. They may be on one device
# although their name is that of a tower on another.
_ADDED = re.compile(r"/_\d+$")
_MOST = 3  # Number of operations that the text of a problem names.


class Node(NamedTuple):
    """An operation as it ran."""

    name: str
    kind: str
    device: str
    """A canonical name."""


class Placements(NamedTuple):
    """Where the operations of a step ran."""

    in_towers: tuple[int, ...]
    """Number of operations that each tower has on its device."""
    variables: dict[str, int]
    """Number of variables on each device, including replicas."""
    on_host: tuple[str, ...]
    """Types of operations of towers on GPUs that run on the host, because the GPU has no kernel."""
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
    """Returns the `Placements` of a step.

    Args:
        nodes: The operations.
        devices: Canonical names of the towers' devices.
        placement: The requested `variable_placement`.
        trained: Names of the trainable variables, in the order of creation.
    """
    in_tower, on_host = [0] * len(devices), set()
    misplaced = []
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
            in_tower[index] += 1
        elif "CPU" in node.device and index < len(devices) and "CPU" not in devices[index]:
            # The GPU has no kernel for it, so TensorFlow runs it on the CPU.
            on_host.add(node.kind)
        else:
            misplaced.append(f"{node.name} on {node.device}")
    problems = [
        f"tower {index} has no operation on {device}"
        for index, device in enumerate(devices)
        if not in_tower[index]
    ]
    if misplaced:
        more = f", and {len(misplaced) - _MOST} more" if len(misplaced) > _MOST else ""
        problems.append(f"not on the device of their tower: {', '.join(misplaced[:_MOST])}{more}")
    problems += _of_variables(where, replicas, devices, placement, trained)
    counts = collections.Counter(where.values())
    for made in replicas.values():
        counts.update(made.values())
    return Placements(tuple(in_tower), dict(counts), tuple(sorted(on_host)), tuple(problems))


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
        # Tower 0 uses the variable itself, the others have replicas.
        for index in range(1, len(devices) if placement == "replicated" else 0):
            wanted[f"{name} of tower {index}"] = devices[index]
            found[f"{name} of tower {index}"] = replicas.get(index, {}).get(name, "no device")
        problems += [
            f"variable {one} must be on {device}, but is on {found[one]}"
            for one, device in wanted.items()
            if found[one] != device
        ]
    return problems
