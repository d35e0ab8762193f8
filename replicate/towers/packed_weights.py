"""Weights cross devices in packs: each tensor that crosses costs time however small it is.

What the towers take of small variables of one device is joined there, crosses once, and is parted
on each tower. Packed are resource variables that are read when a step begins, waiting for nothing:
a pack has all of its values at one time, and may wait for nothing that a tower computes of it.
"""

from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from replicate.compat import copying
from replicate.compat import graph as graph_lib
from replicate.gathering import packing


class Use(NamedTuple):
    """Where an operation of tower 0 takes a weight from a pack."""

    taker: Any
    position: int
    """Of the input."""
    weight: Any
    """The tensor, on its variable's device."""


def pack(ops, devices, how, is_shared):
    """Lets operations of tower 0 take weights from packs, and so whatever is copied of them.

    Args:
        ops: Operations that every other tower will have a copy of.
        devices: Device strings of the towers.
        how: The `Gather`, which says what is small, and how much a pack holds.
        is_shared: Function of a tensor, whether all towers take the same.

    Returns:
        A list of the operations on tower 0 that part the packs, to be copied, too, and one of the
        `Use`s.
    """
    uses = _uses(ops, devices[0], is_shared)

    def describe(weight):
        return (_place(weight), weight.dtype), packing.size_of(weight)

    parted, found = [], []
    for weights in packing.packs([own[0].weight for own in uses.values()], describe, how):
        if len(weights) == 1:
            continue
        graph = weights[0].graph
        with graph_lib.outside_of_scopes(graph), tf.name_scope(packing.WEIGHTS_SCOPE):
            with tf.device(_place(weights[0])):
                joined = packing.join(weights)
            before = len(graph.get_operations())
            with tf.device(devices[0]):
                parts = packing.part(joined, [weight.shape for weight in weights])
        parted += graph.get_operations()[before:]
        for weight, part in zip(weights, parts):
            for use in uses[id(weight)]:
                copying.redirect(use.taker, use.position, part)
                found.append(use)
    return parted, found


def unpack(uses, devices, of_tower):
    """Lets towers take the weights themselves that are on their own devices.

    Args:
        uses: List of `Use`s.
        devices: Device strings of the towers.
        of_tower: Function of an operation and the index of a tower, of which it returns the copy.
    """
    for use in uses:
        for index, device in enumerate(devices):
            if device == _place(use.weight):
                copying.redirect(of_tower(use.taker, index), use.position, use.weight)


def _uses(ops, device, is_shared):
    """Returns lists of the `Use`s of each weight that all takers take on tower 0's device."""
    names = {op.name for op in ops}
    found, others = {}, set()
    for op in ops:
        is_there = op.device == device and names.issuperset(copying.colocated_with(op))
        for position, tensor in enumerate(op.inputs):
            if not _is_weight(tensor) or not is_shared(tensor):
                continue
            found.setdefault(id(tensor), []).append(Use(op, position, tensor))
            if not is_there:
                others.add(id(tensor))
    return {key: uses for key, uses in found.items() if key not in others}


def _is_weight(tensor):
    """Whether a tensor is the value of a variable of this process, as a step begins."""
    op = tensor.op
    if op.type != "ReadVariableOp" or op.control_inputs:
        return False
    handle = op.inputs[0].op
    return handle.type == "VarHandleOp" and bool(handle.device) and "/job:" not in handle.device


def _place(weight):
    return weight.op.inputs[0].op.device
