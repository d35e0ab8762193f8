"""Gathers the towers' gradients into one gradient per variable.

N is the number of towers. The gathered gradient is Σ wᵢ·gᵢ, of weight wᵢ and gradient gᵢ of tower
i; where a tower has no gradient, it counts as zero.
"""

import tensorflow.compat.v1 as tf

# Gradients of up to _SMALL_BYTES are packed into tensors of about _PACK_BYTES.
_SMALL_BYTES = 64 * 2**10
_PACK_BYTES = 2 * 2**20

# A sum of N gradients may overflow in these types where their mean does not.
_NARROW = (tf.float16,)


def gather(grads_and_vars, towers, weights=None):
    """Sums the weighted gradients of all towers, on the current device.

    Args:
        grads_and_vars: For each of N towers the list of its `(gradient, variable)` pairs. A
            gradient is a tensor of the variable's shape, a `tf.IndexedSlices`, or None. Towers may
            list different variables, in any order.
        towers: The `Towers`, which give the devices, and by default the weights.
        weights: The `Weights` of the gradients. None: `towers.loss_weights`.

    Returns:
        List of `(gradient, variable)` pairs in the order in which the variables come first: None
        if no tower has a gradient, `tf.IndexedSlices` if all that there are are (rows that occur
        several times are kept), else a tensor.

    Raises:
        TypeError: If a gradient is neither a tensor nor `tf.IndexedSlices` nor None, or if the
            towers' gradients differ in type.
    """
    by_variable = {}
    for index, pairs in enumerate(grads_and_vars):
        for gradient, variable in pairs:
            _, grads = by_variable.setdefault(id(variable), (variable, []))
            if gradient is not None:
                grads.append((index, as_gradient(gradient, variable, index)))
    weights = towers.loss_weights if weights is None else weights
    gathered = {}
    with tf.name_scope("replicate/gather/"):
        for pack in _packs(by_variable.values()):
            sums = _sum_pack(pack, towers.devices, weights)
            for variable, gradient in zip([v for v, _ in pack], sums):
                gathered[id(variable)] = gradient
    return [(gathered[key], variable) for key, (variable, _) in by_variable.items()]


def weighted_sum(values, towers):
    """Returns Σ wᵢ·xᵢ of N tensors of one shape, one per tower, on the current device."""
    return _weighted_sum(list(enumerate(values)), None, towers.devices, towers.loss_weights)


def _packs(entries):
    """Yields lists of entries whose gradients are to be gathered together.

    Small tensors are packed, because each that crosses devices costs time however small it is.

    Args:
        entries: `(variable, gradients)` pairs; `gradients` are `(tower index, gradient)` pairs.
    """
    packs = {}  # Those that are not full, by type and towers.
    for variable, grads in entries:
        size = _size_if_small(grads)
        if size is None:
            yield [(variable, grads)]
            continue
        key = (grads[0][1].dtype, *(index for index, _ in grads))
        pack, total = packs.pop(key, ([], 0))
        pack.append((variable, grads))
        if total + size >= _PACK_BYTES:
            yield pack
        else:
            packs[key] = pack, total + size
    for pack, _ in packs.values():
        yield pack


def _size_if_small(grads):
    """Returns the bytes of each of the towers' gradients if they are to be packed, else None."""
    if len(grads) < 2 or not all(isinstance(gradient, tf.Tensor) for _, gradient in grads):
        return None
    first = grads[0][1]
    known = first.shape.is_fully_defined()
    if not known or any(g.shape != first.shape or g.dtype != first.dtype for _, g in grads):
        return None
    size = first.shape.num_elements() * first.dtype.size
    return size if size <= _SMALL_BYTES else None


def _sum_pack(pack, devices, weights):
    """Returns the weighted sums of the gradients of a pack, one for each of its entries."""
    variable, grads = pack[0]
    if len(pack) == 1:
        return [_weighted_sum(grads, variable, devices, weights) if grads else None]
    flat = []
    for position, (index, _) in enumerate(grads):
        with tf.device(devices[index]):
            own = [entry[position][1] for _, entry in pack]
            flat.append((index, tf.concat([_reshape(gradient, [-1]) for gradient in own], axis=0)))
    shapes = [entry[0][1].shape for _, entry in pack]
    total = _weighted_sum(flat, variable, devices, weights)
    parts = tf.split(total, [shape.num_elements() for shape in shapes])
    return [_reshape(part, shape) for part, shape in zip(parts, shapes)]


def _reshape(tensor, shape):
    rank = len(shape)
    return tensor if tensor.shape.rank == rank == 1 else tf.reshape(tensor, shape)


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


def _weighted_sum(grads, variable, devices, weights):
    dtype = check_types(variable, [(index, g.dtype.base_dtype) for index, g in grads])
    # Equal weights are applied once, to the sum; others on the tower's own device, side by side.
    after = weights.equal is not None and dtype not in _NARROW
    if not after:
        scaled = []
        for index, gradient in grads:
            with tf.device(devices[index]):
                scaled.append((index, weighted(gradient, index, weights)))
        grads = scaled
    summed = total([gradient for _, gradient in grads], variable)
    return weighted(summed, 0, weights) if after else summed


def weighted(gradient, index, weights):
    """Returns tower `index`'s gradient, a tensor or `tf.IndexedSlices`, times its weight."""
    if weights.equal == 1:
        return gradient
    return scale(gradient, weights.of(index, gradient.dtype.base_dtype))


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


def scale(gradient, weight):
    """Returns a gradient, a tensor or `tf.IndexedSlices`, times a number."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values * weight, gradient.indices, gradient.dense_shape)
    return gradient * weight


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
