"""`apply_adam`: one step of Adam from the gradients of all towers.

It is how TuNAS trains its controller (Bender, Liu et al., CVPR 2020), named after where that ran;
it runs on every engine. Two things tell it from N towers that share a stock Adam:

- The second moment is that of the towers' gradients, not of their mean: each tower's gradient is
  squared, and the squares are averaged. It then measures how far the draws of single towers
  scatter, and steps do not grow with the agreement of N noisy gradients.
- A regulariser is applied as plain gradient descent beside Adam, which would otherwise rescale it.

⟨·⟩ is the mean over towers, each weighted by its share of the batch's rows; t counts the calls'
steps from 1.
"""

import math

import tensorflow.compat.v1 as tf

import replicate


def apply_adam(
    loss,
    global_step=None,
    var_list=None,
    learning_rate=1e-3,
    beta1=0.9,
    beta2=0.999,
    epsilon=1e-8,
    regularization_loss=None,
    transform_grads_fn=None,
    name=None,
):
    """Updates variables once, with the gradients g of all towers' losses.

        m ← β1·m + (1 − β1)·⟨g⟩
        v ← β2·v + (1 − β2)·⟨g²⟩
        w ← w − lr·√(1 − β2ᵗ)/(1 − β1ᵗ) · m/(√v + ε) − lr·⟨∇regularization_loss⟩

    The state is saved in variables `<w>/m` and `<w>/v`, and t in `<name>/t`. All gradients are
    those of the weights before the step.

    Args:
        loss: Scalar tensor, this tower's loss.
        global_step: Integer variable to increment at the end, or None.
        var_list: Sequence of variables w of one floating type, each of which `loss` depends on.
            None: all trainable variables.
        learning_rate: lr, a number or scalar tensor. Where it is 0, only the state changes.
        beta1: Decay of m, in [0, 1).
        beta2: Decay of v, in [0, 1).
        epsilon: A positive number, in units of the gradient.
        regularization_loss: Scalar tensor, or None. It may miss some variables.
        transform_grads_fn: Function from the pairs (gradient, variable) of this tower's gradients
            of `loss`, a list in the order of the variables, to the list to use; for instance, it
            may clip gradients. It does not see those of `regularization_loss`. None: no
            transformation.
        name: Scope of t and of the operations. None: `apply_adam`.

    Returns:
        The operation of the step, the same one in every tower.

    Raises:
        TypeError: If `var_list` has something else than variables, or variables of several types.
        ValueError: If there are no variables, `loss` does not depend on one of them,
            `transform_grads_fn` returns other than a gradient for each, in the same order, or a
            number is out of range.
    """
    for argument, value in [("beta1", beta1), ("beta2", beta2)]:
        if not 0 <= value < 1:
            raise ValueError(
                f"`{argument}` must lie in [0, 1), but is {value}. With 0, Adam has no memory of "
                "that moment."
            )
    if not epsilon > 0:
        raise ValueError(
            f"`epsilon` must be positive, but is {epsilon}. A weight whose gradients were all 0 "
            "would be divided by 0; pass 1e-8."
        )
    variables = _checked(tf.trainable_variables() if var_list is None else list(var_list))
    dtype = variables[0].dtype.base_dtype
    with tf.name_scope(name, "apply_adam"):
        grads = _gradients(loss, variables, transform_grads_fn)
        penalty_grads = None
        if regularization_loss is not None:
            # Zeros for variables that the penalty misses.
            penalty_grads = tf.gradients(
                regularization_loss,
                variables,
                unconnected_gradients=tf.UnconnectedGradients.ZERO,
            )
        # All variables as one vector: few large operations in place of many small ones.
        grad = _flat(grads)
        means = replicate.cross_tower_mean(
            [grad, tf.square(grad), None if penalty_grads is None else _flat(penalty_grads)]
        )

    def update():
        grad, grad_squared, penalty_grad = means  # The same in all towers.
        with tf.variable_scope(name, "apply_adam"):
            count = _zeros("t", [], tf.int64)
        first = [_slot(variable, "m") for variable in variables]
        second = [_slot(variable, "v") for variable in variables]

        t = count.read_value() + 1
        m = beta1 * _read(first) + (1 - beta1) * grad
        v = beta2 * _read(second) + (1 - beta2) * grad_squared
        rate = tf.cast(learning_rate, dtype)
        debiased_rate = rate * tf.sqrt(_one_minus_power(beta2, t, dtype))
        debiased_rate /= _one_minus_power(beta1, t, dtype)
        step = debiased_rate * m / (tf.sqrt(v) + epsilon)
        if penalty_grad is not None:
            step += rate * penalty_grad

        # Subtracted where the variable is, so that no other worker's step is overwritten.
        assigns = [count.assign(t, read_value=False)]
        assigns += [w.assign_sub(part, read_value=False) for w, part in _parts(variables, step)]
        for slots, value in [(first, m), (second, v)]:
            assigns += [slot.assign(part, read_value=False) for slot, part in _parts(slots, value)]
        with tf.control_dependencies(assigns):
            return tf.no_op() if global_step is None else tf.group(tf.assign_add(global_step, 1))

    return replicate.merge_call(update)


def _checked(variables):
    """Returns `variables`; raises unless they can be updated together."""
    if not variables:
        raise ValueError(
            "There must be a variable to update, but `var_list` is empty. Build what `loss` "
            "depends on first, and check the scope if `var_list` was collected from one."
        )
    for variable in variables:
        if not isinstance(variable, (tf.Variable, tf.compat.v2.Variable)):
            raise TypeError(
                f"`var_list` must hold variables, but has {variable!r}. Tensors made from a "
                "variable cannot be updated; pass the variable."
            )
    dtypes = sorted({variable.dtype.base_dtype.name for variable in variables})
    if len(dtypes) > 1:
        raise TypeError(
            f"All variables must be of one type, but `var_list` has {' and '.join(dtypes)}. Call "
            "`apply_adam` once for each type, with `global_step` in the last call only."
        )
    return variables


def _gradients(loss, variables, transform):
    """Returns dense gradients of `loss`, one for each variable."""
    grads = tf.gradients(loss, variables)
    missed = [variable.name for variable, grad in zip(variables, grads) if grad is None]
    if missed:
        raise ValueError(
            f"`loss` must depend on every variable of `var_list`, but has no gradient for "
            f"{', '.join(missed)}. Leave them out of `var_list`, or check that nothing between "
            "them and the loss stops gradients."
        )
    if transform is not None:
        pairs = list(transform(list(zip(grads, variables))))
        if not _are_of(variables, pairs):
            raise ValueError(
                f"`transform_grads_fn` must return a pair (gradient, variable) for each of "
                f"{len(variables)} variables, in their order, but returned {pairs!r}. Return zeros "
                "where no gradient is wanted."
            )
        grads = [grad for grad, _ in pairs]
    return grads


def _are_of(variables, pairs):
    """Whether there is a pair (gradient, variable) for each variable, in their order."""
    if len(pairs) != len(variables):
        return False
    return all(
        isinstance(pair, tuple) and len(pair) == 2 and pair[1] is variable
        for pair, variable in zip(pairs, variables)
    )


def _flat(tensors):
    """Returns the concatenated elements of `tensors`, a vector."""
    return tf.concat([_reshaped(tensor, [None]) for tensor in tensors], axis=0)


def _read(variables):
    """Returns the concatenated elements of `variables` as they are now, a vector."""
    return _flat([variable.read_value() for variable in variables])


def _parts(variables, vector):
    """Returns pairs of each of `variables` and the part of `vector` that is for it."""
    parts = tf.split(vector, [variable.shape.num_elements() for variable in variables])
    return [(variable, _reshaped(part, variable.shape)) for variable, part in zip(variables, parts)]


def _reshaped(tensor, shape):
    """Returns the elements of `tensor` in a shape; a vector that is to be one as it is."""
    shape = tf.TensorShape(shape)
    if shape.rank == 1 and tensor.shape.rank == 1:
        return tensor
    return tf.reshape(tensor, [-1 if side is None else side for side in shape.as_list()])


def _slot(variable, name):
    """Returns the state `name` of `variable`, called `<variable>/<name>` in whatever scope."""
    with tf.variable_scope(tf.VariableScope(reuse=False), auxiliary_name_scope=False):
        return _zeros(f"{variable.op.name}/{name}", variable.shape, variable.dtype.base_dtype)


def _zeros(name, shape, dtype):
    """Returns a variable of state, 0 at first."""
    return tf.get_variable(
        name,
        shape,
        dtype,
        initializer=tf.zeros_initializer(),
        trainable=False,
        use_resource=True,
    )


def _one_minus_power(beta, t, dtype):
    """Returns 1 − βᵗ without the digits that a power near 1 would cancel."""
    log_beta = math.log(beta) if beta else -math.inf
    return -tf.math.expm1(tf.cast(t, dtype) * log_beta)
