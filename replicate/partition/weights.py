"""Sends small weights to the towers in packs, since each tensor that is sent costs time.

A pack holds values of resource variables whose reads have the same control inputs, mostly none. So
reading all of them waits for no more than reading one, and changes nothing if all have a value.
"""

from __future__ import annotations

from typing import Any, Container, Iterator, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.layouts import WHOLE
from replicate.partition.placement import Instead, Placement
from replicate.partition.plan import Plan
from replicate.reduction import packing


def pack(plan: Plan, placement: Placement, but: Container[Any] = ()) -> Instead:
    """Returns the tensors that towers take in place of small weights.

    Args:
        plan: The `Plan`.
        placement: The `Placement`.
        but: References of weights that towers have already.
    """
    reads = [read for read in _reads(plan) if graph_lib.reference(read) not in but]
    return send(reads, plan.needed, placement)


def send(weights: Sequence[Any], needed_by: dict[Any, int], placement: Placement) -> Instead:
    """Returns the tensors that towers take in place of small values of variables.

    Args:
        weights: Tensors whose operations `can_be_packed`.
        needed_by: By operation: the initializers that need it; see `initializers.needed`.
        placement: The `Placement`.
    """
    packing_of, sent = packing.Packing(), []
    for one in _packs(weights, needed_by, placement):
        place, shapes = _place(one[0]), [weight.shape for weight in one]
        others = [each for each in placement.devices if not graph_lib.same_device(each, place)]
        if others:
            joined = packing_of.join(one, place)
            slices = [packing_of.slices(joined, one[0].dtype, shapes, each) for each in others]
            sent.append((one, dict(zip(others, slices))))
    names = [name for _, there in sent for slices in there.values() for name in slices]
    made = dict(zip(names, packing_of.make(packing.WEIGHTS_SCOPE, names)))
    instead: Instead = {}
    for one, there in sent:
        for index, weight in enumerate(one):
            # A tower on the device of the weights takes them as they are.
            instead[graph_lib.reference(weight)] = tuple(
                made[there[device][index]] if device in there else weight
                for device in placement.devices
            )
    return instead


def _reads(plan: Plan) -> list[Any]:
    """Returns the values of variables that towers take whole."""
    found: dict[Any, Any] = {}
    for operation in plan.copied:
        for tensor, demand in zip(operation.inputs, plan.layouts.strategies[operation].inputs):
            if demand == WHOLE and can_be_packed(tensor.op):
                found[graph_lib.reference(tensor)] = tensor
    return list(found.values())


def can_be_packed(operation: Any) -> bool:
    """Whether an operation reads a floating-point variable, in every step."""
    if operation.type != "ReadVariableOp" or graph_lib.is_in_control_flow(operation):
        return False
    handle = operation.inputs[0].op
    # A device with a job may be in another process, such as that of a parameter server.
    in_process = handle.device and "/job:" not in handle.device
    return handle.type == "VarHandleOp" and in_process and operation.outputs[0].dtype.is_floating


def _packs(
    weights: Sequence[Any], needed_by: dict[Any, int], placement: Placement
) -> Iterator[list[Any]]:
    """Yields packs of weights that are sent together."""
    # Reading a pack needs a value of each variable, so all are initialised together: all are saved
    # in checkpoints, or all are local. Variables in neither collection are not packed.
    saved = {graph_lib.id_of(variable.op) for variable in tf.global_variables()}
    local = {graph_lib.id_of(variable.op) for variable in tf.local_variables()} - saved

    def describe(weight: Any) -> tuple[Any, Any]:
        holder = graph_lib.id_of(weight.op.inputs[0].op)
        size = packing.size_of(weight) if holder in saved or holder in local else None
        waits = frozenset(weight.op.control_inputs)
        key = _place(weight), weight.dtype, holder in saved, needed_by.get(weight.op, 0), waits
        return key, size

    for pack_of in packing.packs(weights, describe, placement.reduction):
        if len(pack_of) > 1:
            yield pack_of


def _place(weight: Any) -> str:
    return str(weight.op.inputs[0].op.device)
