"""Gathers the towers' gradients into one gradient per variable.

N is the number of towers. The gathered gradient is Σ wᵢ·gᵢ, of weight wᵢ and gradient gᵢ of tower
i; where a tower has no gradient, it counts as zero.
"""

import tensorflow.compat.v1 as tf

from replicate.gathering import nccl, packing, transport
from replicate.gathering.gather import Gather
from replicate.gathering.transport import Transport

SCOPE = "replicate/gather/"  # Name scope of the operations that gather.
BROADCAST_SCOPE = "replicate/broadcast/"  # Of those that send what is gathered to all towers.

_DEFAULT = Gather()

# A sum of N gradients may overflow in these types where their mean does not.
_NARROW = (tf.float16,)


def gather(grads_and_vars, towers, weights=None, how=_DEFAULT, wire_scale=None, scope=SCOPE):
    """Sums the weighted gradients of all towers.

    Args:
        grads_and_vars: For each of N towers the list of its `(gradient, variable)` pairs. A
            gradient is a tensor of the variable's shape, a `tf.IndexedSlices`, or None. Towers may
            list different variables, in any order.
        towers: The `Towers`, which give the devices, and by default the weights.
        weights: The `Weights` of the gradients. None: `towers.loss_weights`.
        how: The `Gather`.
        wire_scale: What gradients are multiplied by while they cross devices in float16, a scalar
            tensor of float32; None: nothing.
        scope: Name scope of the operations.

    Returns:
        List of `(gradient, variable)` pairs in the order in which the variables come first: None
        if no tower has a gradient, `tf.IndexedSlices` if all that there are are (rows that occur
        several times are kept), else a tensor.

    Raises:
        TypeError: If a gradient is neither a tensor nor `tf.IndexedSlices` nor None, or if the
            towers' gradients differ in type.
        ValueError: If gradients are to be summed where variables are, but all of these are in one
            place, or in another process.
    """
    by_variable = {}
    for index, pairs in enumerate(grads_and_vars):
        for gradient, variable in pairs:
            _, grads = by_variable.setdefault(id(variable), (variable, []))
            if gradient is not None:
                grads.append((index, as_gradient(gradient, variable, index)))
    weights = towers.loss_weights if weights is None else weights
    places = transport.places([variable for variable, _ in by_variable.values()], towers, how)
    towers.summed_on.update(places.values())

    gathered = {}
    with tf.name_scope(scope):
        for pack in _packs(by_variable.values(), places, how, least=2):
            place = places[id(pack[0][0])]
            with tf.device(place):
                sums = _sum_pack(pack, weights, Transport(towers.devices, place, how, wire_scale))
            for variable, gradient in zip([v for v, _ in pack], sums):
                gathered[id(variable)] = gradient
    return [(gathered[key], variable) for key, (variable, _) in by_variable.items()]


def broadcast(grads_and_vars, towers, how):
    """Sends gathered gradients to all towers.

    Args:
        grads_and_vars: List of `(gradient, variable)` pairs.
        towers: The `Towers`.
        how: The `Gather`. What crosses devices in half precision is rounded for all towers, so that
            they go on with equal gradients.

    Returns:
        For each of N towers the list of the gradients.
    """
    grads = [gradient for gradient, _ in grads_and_vars]
    received = [list(grads) for _ in towers.devices]

    def describe(position):
        gradient = grads[position]
        key = gradient.device or towers.consolidation_device, gradient.dtype
        return key, packing.size_of(gradient)

    given = [position for position, gradient in enumerate(grads) if gradient is not None]
    with tf.name_scope(BROADCAST_SCOPE):
        for pack in packing.packs(given, describe, how):
            first = grads[pack[0]]
            with tf.device(first.device or towers.consolidation_device):
                joined = packing.join([grads[i] for i in pack]) if len(pack) > 1 else first
                sent = transport.narrow(joined, how)
            for index, device in enumerate(towers.devices):
                with tf.device(device):
                    whole = transport.widen(sent, joined)
                    own = [transport.arrived(whole)]
                    if len(pack) > 1:
                        own = packing.part(whole, [grads[i].shape for i in pack])
                for position, gradient in zip(pack, own):
                    received[index][position] = gradient
    return received


def packs(entries, towers, how):
    """Parts variables that have gradients into those whose gradients `gather` packs.

    So it does not with the gradients of one tower alone, which do not cross devices.

    Args:
        entries: List of pairs of a variable, and of a list of pairs of the index of a tower and of
            its gradient.
        towers: The `Towers`.
        how: The `Gather`.

    Returns:
        Lists of the entries.
    """
    return _packs(entries, transport.places([v for v, _ in entries], towers, how), how)


def _packs(entries, places, how, least=1):
    """Packs what `least` towers or more have gradients of."""

    def describe(entry):
        variable, grads = entry
        indices = (index for index, _ in grads)
        dtype = grads[0][1].dtype if grads else None
        size = _size_of_each(grads) if len(grads) >= least else None
        return (places[id(variable)], dtype, *indices), size

    return packing.packs(entries, describe, how)


def _size_of_each(grads):
    """Returns the bytes of each of the towers' gradients if they can be packed, else None."""
    size = packing.size_of(grads[0][1])
    return size if all(_alike(g, grads[0][1]) for _, g in grads[1:]) else None


def _alike(gradient, other):
    are_dense = isinstance(gradient, tf.Tensor) and isinstance(other, tf.Tensor)
    return are_dense and gradient.shape == other.shape and gradient.dtype == other.dtype


def _sum_pack(pack, weights, links):
    """Returns the weighted sums of the gradients of a pack, one for each of its entries."""
    variable, grads = pack[0]
    if len(pack) == 1:
        return [_weighted_sum(grads, variable, weights, links) if grads else None]
    flat = []
    for position, (index, _) in enumerate(grads):
        with tf.device(links.devices[index]):
            flat.append((index, packing.join([entry[position][1] for _, entry in pack])))
    total = _weighted_sum(flat, variable, weights, links)
    return packing.part(total, [entry[0][1].shape for _, entry in pack])


def as_gradient(gradient, variable, index):
    """Returns tower `index`'s gradient of `variable` as a tensor or `tf.IndexedSlices`.

    Raises:
        TypeError: If it is neither, and does not convert to a tensor.
    """
    if isinstance(gradient, (tf.Tensor, tf.IndexedSlices)):
        return gradient
    try:
        return tf.convert_to_tensor(gradient)
    except (TypeError, ValueError):
        raise TypeError(
            "A gradient must be a tensor, a `tf.IndexedSlices` or None, but the gradient of "
            f"'{variable.name}' on tower {index} is {gradient!r}."
        ) from None


def _weighted_sum(grads, variable, weights, links):
    dtype = check_types(variable, [(index, g.dtype.base_dtype) for index, g in grads])
    # Equal weights are applied once, to the sum; others on the tower's own device, side by side.
    after = weights.equal is not None and dtype not in _NARROW
    if not after:
        scaled = []
        for index, gradient in grads:
            with tf.device(links.devices[index]):
                scaled.append((index, weighted(gradient, index, weights)))
        grads = scaled
    if links.by_nccl(grads):
        summed = nccl.add([gradient for _, gradient in grads], links.devices, links.place)
    else:
        summed = total([links.send(gradient, index) for index, gradient in grads], variable)
    return weighted(summed, 0, weights) if after else summed


def weighted(gradient, index, weights):
    """Returns tower `index`'s gradient, a tensor or `tf.IndexedSlices`, times its weight."""
    if weights.equal == 1:
        return gradient
    weight = weights.of(index, gradient.dtype.base_dtype)
    # Of a tower without rows nothing counts, not even what is not finite.
    return scale(gradient, weight, None if weights.is_positive(index) else tf.math.multiply_no_nan)


def check_types(variable, dtypes):
    """Returns the type of a variable's gradients.

    Args:
        variable: The variable.
        dtypes: `(tower index, dtype)` pairs.

    Raises:
        TypeError: If they are of several.
    """
    i, first = dtypes[0]
    for j, other in dtypes:
        if other != first:
            raise TypeError(
                f"The towers' gradients of '{variable.name}' must be of one type, but tower {i} "
                f"gave {first.name} and tower {j} {other.name}. Cast inside `model_fn`, before the "
                "loss."
            )
    return first


def scale(gradient, weight, multiply=None):
    """Returns a gradient, a tensor or `tf.IndexedSlices`, times a number; see `tf.multiply`."""
    multiply = multiply or tf.multiply
    if isinstance(gradient, tf.IndexedSlices):
        values = multiply(gradient.values, weight)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return multiply(gradient, weight)


def total(grads, variable):
    """Returns the sum of a variable's gradients, `tf.IndexedSlices` if all of them are."""
    if len(grads) == 1:
        return grads[0]
    if all(isinstance(gradient, tf.IndexedSlices) for gradient in grads):
        index_type = (
            tf.int64 if any(g.indices.dtype == tf.int64 for g in grads) else grads[0].indices.dtype
        )
        return tf.IndexedSlices(
            tf.concat([gradient.values for gradient in grads], axis=0),
            tf.concat([tf.cast(gradient.indices, index_type) for gradient in grads], axis=0),
            grads[0].dense_shape,
        )
    return tf.add_n([dense(gradient, variable) for gradient in grads])


def dense(gradient, variable):
    """Returns a gradient as a tensor."""
    if isinstance(gradient, tf.IndexedSlices) and gradient.dense_shape is None:
        shape = tf.shape(variable, out_type=gradient.indices.dtype)
        return tf.scatter_nd(gradient.indices[:, tf.newaxis], gradient.values, shape)
    return tf.convert_to_tensor(gradient)


def with_unique_rows(gradient):
    """Returns `gradient` with rows that occur several times added up, as a norm needs them."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    indices, positions = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, positions, tf.size(indices))
    return tf.IndexedSlices(values, indices, gradient.dense_shape)
