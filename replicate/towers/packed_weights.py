"""Small weights cross devices in packs: each tensor that crosses costs time however small it is.

Once the graph of all towers is there, what operations on one device take of small variables on
another is joined where these are, crosses once, and is parted. Packed are the values of resource
variables that are read waiting for nothing, when a step begins: to read others of them, too, waits
for nothing either, and changes nothing if all have a value. What waits, such as a read after an
update, is left alone.
"""

import collections

import tensorflow.compat.v1 as tf

from replicate.compat import copying
from replicate.compat import graph as graph_lib
from replicate.compat.graph import id_of
from replicate.gathering import packing


def pack(group):
    """Packs what crosses between the devices of finished towers.

    Args:
        group: The `Towers`, whose `how` says what is small, and how much a pack holds.
    """
    joined = {}  # By the tensors of a pack: devices often take the same ones.
    # To read one of a pack, all must have a value: they are initialised together.
    saved = {id_of(variable.op) for variable in tf.global_variables()}
    local = {id_of(variable.op) for variable in tf.local_variables()} - saved

    def describe(weight):
        of = id_of(weight.op.inputs[0].op)
        size = packing.size_of(weight) if of in saved or of in local else None
        return (_place(weight), weight.dtype, of in saved), size

    for device, uses in _uses(group).items():
        weights = {id(weight): weight for weight, _, _ in uses}
        parts = {}
        for one in packing.packs(weights.values(), describe, group.how):
            if len(one) == 1:
                continue
            key = tuple(map(id, one))
            with graph_lib.outside_of_scopes(group.graph), tf.name_scope(packing.WEIGHTS_SCOPE):
                if key not in joined:
                    with tf.device(_place(one[0])):
                        joined[key] = packing.join(one)
                with tf.device(device):
                    made = packing.slices(joined[key], [weight.shape for weight in one])
            parts.update(zip(key, made))
        for weight, taker, position in uses:
            if id(weight) in parts:
                copying.redirect(taker, position, parts[id(weight)])


def _uses(group):
    """Returns, by device, lists of what is taken there of variables elsewhere.

    Returns:
        A dictionary of lists of a weight, the operation that takes it, and as which input.
    """
    found = collections.OrderedDict()
    for op in group.copies.new_operations():
        if op.type != "ReadVariableOp" or not _is_of_the_start(op):
            continue
        (weight,) = op.outputs
        for taker in weight.consumers():
            if taker.device in ("", _place(weight)) or not _stays(taker):
                continue
            for position, given in enumerate(taker.inputs):
                if given is weight:
                    found.setdefault(taker.device, []).append((weight, taker, position))
    return found


def _is_of_the_start(op):
    """Whether a read waits for nothing, of a variable on a known device of this process.

    Of numbers that GPUs join and part.
    """
    handle = op.inputs[0].op
    device = handle.device
    return (
        not op.control_inputs
        and op.outputs[0].dtype.is_floating
        and handle.type == "VarHandleOp"
        and bool(device)
        and "/job:" not in device
    )


def _stays(op):
    """Whether an operation is on its device, and not where something else is."""
    beside = (op.graph.get_operation_by_name(name) for name in copying.colocated_with(op))
    return all(other.device == op.device for other in beside)


def _place(weight):
    return weight.op.inputs[0].op.device
