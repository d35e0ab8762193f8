"""What crosses devices when a graph runs, as TensorFlow partitions it.

Where an operation takes a tensor that is on another device, TensorFlow sends it there, once for
each device that takes it. Graphs are counted as they are built: what the optimiser of a session
folds or moves later is not known here.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow.compat.v1 as tf

from replicate.batch import PREFETCH_SCOPE, SHARD_SCOPE
from replicate.compat.graph import reference
from replicate.graphs import ancestors
from replicate.reduction import collectives, packing

# What crosses devices: values of variables; gradients, on their way to where they are summed; their
# sums, from there; rows of the batch; those of the next one, which a step stages; all else.
KINDS = ("weights", "gradients", "sums", "batch", "prefetched", "other")

# They name a variable or a table, which stays where it is, and is read and updated there.
_HANDLES = frozenset([tf.resource, tf.variant])
_READS = frozenset(["ReadVariableOp", "ResourceGather", "ResourceGatherNd"])
_PASSES_ON = frozenset(["Identity", "Snapshot"])


class Transfer(NamedTuple):
    """A tensor that is sent from one device to another in each step."""

    tensor: tf.Tensor
    source: str
    """Canonical string of the device that it is on; empty where TensorFlow chooses."""
    destination: str
    """Likewise, of the device that takes it."""
    taker: tf.Operation
    """The first operation there that takes it."""

    @property
    def size(self) -> int | None:
        """Bytes, None if only known when it runs."""
        elements = self.tensor.shape.num_elements()
        return None if elements is None else elements * self.tensor.dtype.base_dtype.size

    @property
    def is_weight(self) -> bool:
        """Whether it is the value of a variable, rows of it, or a pack of such values."""
        op = self.tensor.op
        if op.name.startswith(packing.WEIGHTS_SCOPE):
            return True
        if op.name.startswith(PREFETCH_SCOPE):
            return False
        while op.type in _PASSES_ON:
            op = op.inputs[0].op
        return op.type in _READS

    @property
    def kind(self) -> str:
        """What it is: one of `KINDS`."""
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


def crossing(fetches):
    """Returns what crosses devices when operations run.

    Args:
        fetches: Operations or tensors of one graph, at least one.

    Returns:
        List of `Transfer`s, in the order in which the operations that take them were made.
    """
    running = ancestors(fetches)
    devices, found = {}, {}
    for op in next(iter(running)).graph.get_operations():
        if op not in running:
            continue
        destination = _device_of(op, devices)
        for tensor in op.inputs:
            source = _device_of(tensor.op, devices)
            if source != destination and tensor.dtype not in _HANDLES:
                key = reference(tensor), destination
                found.setdefault(key, Transfer(tensor, source, destination, op))
    return list(found.values())


def _device_of(op, known):
    """Returns where an operation runs, by the devices of those that are `known` already.

    TensorFlow places what takes a handle with what the handle names, whatever its own device.
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
