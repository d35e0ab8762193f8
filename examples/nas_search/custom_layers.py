"""Schedules of learning rates and probabilities, a running mean, and an initialiser.

A *schedule* is a function of the global step s, an integer scalar tensor or a number; its other
arguments are numbers of steps, Python integers. It gives a float32 scalar tensor.
"""

import math

import tensorflow.compat.v1 as tf

import replicate


def update_exponential_moving_average(tensor, momentum, name=None):
    """Updates a running mean with `tensor`, once per step no matter how many towers there are.

    The mean is numerator / denominator, with numerator ← m·numerator + (1 − m)·tensor and
    denominator ← m·denominator + (1 − m), both 0 at first: after t steps it is a weighted mean of
    the t values so far, without a bias towards 0.

    Args:
        tensor: Float tensor of a known shape, the same in all towers:
            `replicate.cross_tower_mean` of what is not.
        momentum: The weight m of the past, in [0, 1), a number or a scalar tensor, whose value is
            not checked.
        name: Scope of the two variables. None: `exponential_moving_average`.

    Returns:
        The running mean with `tensor` included, a tensor like it. Who evaluates it updates it.

    Raises:
        ValueError: If `momentum` is out of range, or the shape of `tensor` not known.
    """
    if not tf.is_tensor(momentum) and not 0 <= momentum < 1:
        raise ValueError(
            f"`momentum` must lie in [0, 1), but is {momentum}. With 0 the mean is the latest "
            "value; near 1 it changes slowly."
        )
    tensor = tf.convert_to_tensor(tensor)
    if not tensor.shape.is_fully_defined():
        raise ValueError(
            f"`tensor` must have a known shape, that of its running mean, but {tensor.name} has "
            f"{tensor.shape}. Reduce it first, e.g. with `tf.reduce_mean`."
        )

    def update(values):
        x = values[0]
        weight = tf.cast(momentum, x.dtype) if tf.is_tensor(momentum) else momentum
        with tf.variable_scope(name, "exponential_moving_average"):
            numerator = _zeros("numerator", x.shape, x.dtype)
            denominator = _zeros("denominator", [], x.dtype)
        new_numerator = weight * numerator.read_value() + (1 - weight) * x
        new_denominator = weight * denominator.read_value() + (1 - weight)
        updates = [numerator.assign(new_numerator), denominator.assign(new_denominator)]
        with tf.control_dependencies([tf.group(*updates)]):
            return new_numerator / new_denominator

    return replicate.merge_call(update, tensor)


def cosine_decay_with_linear_warmup(
    peak_learning_rate, global_step, max_global_step, warmup_steps=0
):
    """Rises linearly from 0 to the peak in `warmup_steps`, then falls to 0 as half a cosine.

    With w warm-up steps of T: peak · s / w for s < w, then peak · (1 + cos(π·(s − w)/(T − w))) / 2,
    and 0 after step T.

    Args:
        peak_learning_rate: Number or float32 scalar tensor.
        global_step: The step s.
        max_global_step: T, at least 1.
        warmup_steps: w, 0 to T.

    Returns:
        A float32 scalar tensor.

    Raises:
        ValueError: If a number of steps is out of its range.
    """
    if max_global_step < 1:
        raise ValueError(
            f"`max_global_step` must be at least 1, but is {max_global_step}. Train longer."
        )
    if not 0 <= warmup_steps <= max_global_step:
        raise ValueError(
            f"`warmup_steps` must lie in [0, {max_global_step}], where `max_global_step` is the "
            f"end, but is {warmup_steps}. Shorten the warm-up or train longer."
        )
    step = tf.cast(global_step, tf.float32)
    decay_steps = max(max_global_step - warmup_steps, 1)
    progress = tf.minimum(step - warmup_steps, decay_steps) / decay_steps
    share = tf.where(
        step < warmup_steps,
        step / max(warmup_steps, 1),
        0.5 * (1.0 + tf.cos(math.pi * progress)),
    )
    return peak_learning_rate * share


def linear_warmup(global_step, warmup_steps, name=None):
    """Rises linearly from 0 at step 0 to 1 at step `warmup_steps`, and stays there.

    Args:
        global_step: The step s; what is below 0 counts as 0.
        warmup_steps: At least 0; with 0 the schedule is 1 always.
        name: Name scope of the operations. None: `linear_warmup`.

    Returns:
        A float32 scalar tensor in [0, 1].

    Raises:
        ValueError: If `warmup_steps` is negative.
    """
    if warmup_steps < 0:
        raise ValueError(
            f"The number of steps of a ramp must be at least 0, but is {warmup_steps}. Pass 0 for "
            "no ramp."
        )
    with tf.name_scope(name, "linear_warmup"):
        if warmup_steps == 0:
            return tf.constant(1.0)
        return tf.clip_by_value(tf.cast(global_step, tf.float32) / warmup_steps, 0.0, 1.0)


def linear_decay(global_step, decay_steps, name=None):
    """Falls linearly from 1 at step 0 to 0 at step `decay_steps`: 1 − `linear_warmup`.

    Args:
        global_step: The step s; what is below 0 counts as 0.
        decay_steps: At least 0; with 0 the schedule is 0 always.
        name: Name scope of the operations. None: `linear_decay`.

    Returns:
        A float32 scalar tensor in [0, 1].

    Raises:
        ValueError: If `decay_steps` is negative.
    """
    with tf.name_scope(name, "linear_decay"):
        return 1.0 - linear_warmup(global_step, decay_steps)


class TransposedInitializer(tf.keras.initializers.Initializer):
    """Initialises a kernel as another initialiser would with the last two axes swapped.

    The kernel of a depthwise convolution, [height, width, channels, 1], has the channels where an
    ordinary kernel has its inputs, but each output depends on one channel alone. Initialised as
    [height, width, 1, channels], its scale follows from height · width.

    Args:
        initializer: Function of shape and dtype that gives a tensor, such as
            `tf.initializers.he_normal()`.

    Raises:
        ValueError: When called with a shape of less than two axes.
    """

    def __init__(self, initializer):
        self._initializer = initializer

    def __call__(self, shape, dtype=None, partition_info=None):
        """Returns a tensor of `shape`, a sequence of at least two integers, and `dtype`."""
        del partition_info  # Part of the signature that TensorFlow expects.
        shape = list(shape)
        if len(shape) < 2:
            raise ValueError(
                f"Only of a shape with two axes or more can the last two be swapped, but the shape "
                f"is {shape}. Use the initialiser that this one wraps."
            )
        axes = list(range(len(shape)))
        axes[-2:] = axes[:-3:-1]
        kwargs = {} if dtype is None else {"dtype": dtype}
        return tf.transpose(self._initializer([shape[axis] for axis in axes], **kwargs), axes)

    def get_config(self):
        """Returns the arguments that make an equal initialiser."""
        return {"initializer": self._initializer}


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
