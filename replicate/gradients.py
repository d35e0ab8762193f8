"""Gathers the towers' gradients into one gradient per variable.

N is the number of towers. The gathered gradient is Σ wᵢ·gᵢ, of weight wᵢ and gradient gᵢ of tower
i; where a tower has no gradient, it counts as zero.
"""

import tensorflow.compat.v1 as tf

# A sum of N gradients may overflow in these types where their mean does not.
_NARROW = (tf.float16,)


def gather(grads_and_vars, towers):
    """Sums the weighted gradients of all towers, on the current device.

    Args:
        grads_and_vars: For each of N towers the list of its `(gradient, variable)` pairs. A
            gradient is a tensor of the variable's shape, a `tf.IndexedSlices`, or None. Towers may
            list different variables, in any order.
        towers: The `Towers`, which give the weights and devices.

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
                grads.append((index, _as_gradient(gradient, variable, index)))
    gathered = []
    with tf.name_scope("replicate/gather/"):
        for variable, grads in by_variable.values():
            gathered.append((_weighted_sum(grads, variable, towers) if grads else None, variable))
    return gathered


def weighted_sum(values, towers):
    """Returns Σ wᵢ·xᵢ of N tensors of one shape, one per tower, on the current device."""
    return _weighted_sum(list(enumerate(values)), None, towers)


def _as_gradient(gradient, variable, index):
    if isinstance(gradient, (tf.Tensor, tf.IndexedSlices)):
        return gradient
    try:
        return tf.convert_to_tensor(gradient)
    except (TypeError, ValueError):
        raise TypeError(
            "A gradient must be a tensor, a `tf.IndexedSlices` or None, but the gradient of "
            f"'{variable.name}' on tower {index} is {gradient!r}."
        ) from None


def _weighted_sum(grads, variable, towers):
    dtypes = {gradient.dtype.base_dtype for _, gradient in grads}
    if len(dtypes) > 1:
        (i, a), (j, b) = grads[0], next(g for g in grads if g[1].dtype != grads[0][1].dtype)
        raise TypeError(
            f"The towers' gradients of '{variable.name}' must be of one type, but tower {i} gave "
            f"{a.dtype.name} and tower {j} {b.dtype.name}. Cast inside `model_fn`, before the loss."
        )
    dtype = dtypes.pop()
    weight = towers.loss_weights.equal
    # Equal weights are applied once, to the sum; others on the tower's own device, side by side.
    after = weight is not None and dtype not in _NARROW
    if not after and weight != 1:
        scaled = []
        for index, gradient in grads:
            with tf.device(towers.devices[index]):
                scaled.append((index, _scale(gradient, towers.loss_weights.of(index, dtype))))
        grads = scaled
    total = _sum([gradient for _, gradient in grads], variable)
    if after and weight != 1:
        total = _scale(total, towers.loss_weights.of(0, dtype))
    return total


def _scale(gradient, weight):
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values * weight, gradient.indices, gradient.dense_shape)
    return gradient * weight


def _sum(grads, variable):
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
    return tf.add_n([_dense(gradient, variable) for gradient in grads])


def _dense(gradient, variable):
    if isinstance(gradient, tf.IndexedSlices) and gradient.dense_shape is None:
        shape = tf.shape(variable, out_type=gradient.indices.dtype)
        return tf.scatter_nd(gradient.indices[:, tf.newaxis], gradient.values, shape)
    return tf.convert_to_tensor(gradient)
