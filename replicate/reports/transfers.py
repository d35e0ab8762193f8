"""Counts tensors that cross devices when a graph runs, as TensorFlow partitions it.

If an operation takes a tensor from another device, TensorFlow sends the tensor, once to each device
that takes it. Graphs are counted as they are built: later changes by the graph optimizer of a
session are not known here.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate.batch import PREFETCH_SCOPE, SHARD_SCOPE
from replicate.compat.graph import reference
from replicate.graphs import ancestors
from replicate.reduction import collectives, packing

# Kinds of transfers: values of variables; gradients that are sent to be summed; their sums; rows of
# the batch; rows of the next batch, which a step stages; and all others.
KINDS = ("weights", "gradients", "sums", "batch", "prefetched", "other")

# Handles of variables and tables. These stay on their device, and are read and updated there.
_HANDLES = frozenset([tf.resource, tf.variant])
_READS = frozenset(["ReadVariableOp", "ResourceGather", "ResourceGatherNd"])
_PASSES_ON = frozenset(["Identity", "Snapshot"])


class Transfer(NamedTuple):
    """A tensor that is sent from one device to another in each step."""

    tensor: tf.Tensor
    source: str
    """Canonical string of the tensor's device; empty if TensorFlow chooses."""
    destination: str
    """Canonical string of the device that takes it; empty if TensorFlow chooses."""
    taker: tf.Operation
    """The first operation there that takes it."""

    @property
    def size(self) -> int | None:
        """Size in bytes; None if it is known only at run time."""
        elements = self.tensor.shape.num_elements()
        return None if elements is None else elements * self.tensor.dtype.base_dtype.size

    @property
    def is_weight(self) -> bool:
        """Whether the tensor is the value of a variable, rows of it, or a pack of such values."""
        op = self.tensor.op
        if op.name.startswith(packing.WEIGHTS_SCOPE):
            return True
        if op.name.startswith(PREFETCH_SCOPE):  # Staged batches are kept in variables, too.
            return False
        while op.type in _PASSES_ON:
            op = op.inputs[0].op
        return op.type in _READS

    @property
    def kind(self) -> str:
        """The kind of transfer, one of `KINDS`."""
        if self.is_weight:
            return "weights"
        name, taker = self.tensor.op.name, self.taker.name
        if taker.startswith(collectives.GRADIENTS_SCOPE):
            return "gradients"
        if name.startswith(collectives.GRADIENTS_SCOPE):
            return "sums"
        if taker.startswith(PREFETCH_SCOPE):
            return "prefetched"
        return "batch" if name.startswith(SHARD_SCOPE) else "other"


def crossing(fetches: Sequence[Any]) -> list[Transfer]:
    """Returns the transfers between devices when operations run.

    Args:
        fetches: Operations or tensors of one graph, at least one.

    Returns:
        List of `Transfer`s, in the order in which the operations that take them were made.
    """
    running = ancestors(fetches)
    devices: dict[Any, str] = {}
    found: dict[Any, Transfer] = {}
    for op in next(iter(running)).graph.get_operations():
        if op not in running:
            continue
        destination = _device_of(op, devices)
        for tensor in op.inputs:
            maker = tensor.op
            # Mostly known, since most operations are made before their takers.
            source = devices[maker] if maker in devices else _device_of(maker, devices)
            if source != destination and tensor.dtype not in _HANDLES:
                key = reference(tensor), destination
                found.setdefault(key, Transfer(tensor, source, destination, op))
    return list(found.values())


def _device_of(op: Any, known: dict[Any, str]) -> str:
    """Returns the device of an operation, "" if TensorFlow chooses it; `known` caches the results.

    TensorFlow places an operation that takes a handle with the variable or table that the handle
    names, even if the operation names another device.
    """
    if op in known:
        return known[op]
    handles = [tensor for tensor in op.inputs if tensor.dtype in _HANDLES]
    device = _device_of(handles[0].op, known) if handles else op.device
    if not device:
        groups = [group[len(b"loc:@") :].decode() for group in op.colocation_groups()]
        others = [name for name in groups if name != op.name]
        device = _device_of(op.graph.get_operation_by_name(others[0]), known) if others else ""
    known[op] = device
    return device
