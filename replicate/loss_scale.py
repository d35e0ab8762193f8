"""Loss scales: a loss times a number has gradients that float16 can hold.

Small gradients are zero in float16, so the loss is multiplied by a scale and the gradients are
divided by it: Micikevicius et al., "Mixed Precision Training", arXiv:1710.03740, section 3.2. The
names, arguments, steps and variables are those of TensorFlow's `tf.compat.v1.mixed_precision`,
whose loss scales are accepted where these are, and whose checkpoints these restore.
"""

import abc
import functools
import numbers

import tensorflow.compat.v1 as tf

from replicate import context, finite, loss_scale_hook


class LossScale(tf.Module, abc.ABC):
    """What a loss is multiplied by; a subclass says how gradients change it."""

    def __init__(self):
        super().__init__()

    @abc.abstractmethod
    def __call__(self):
        """Returns the current scale, a float32 scalar tensor."""

    @abc.abstractmethod
    def update(self, grads):
        """Changes the scale as the gradients of a step demand: at once in eager mode.

        Every tower calls it with its own gradients, and all get the same answer; in a merge
        function or the cross-replica context of tf.distribute it is called once.

        Args:
            grads: Nested structure of gradients that were divided by the scale: floating tensors,
                `tf.IndexedSlices` or None, which is ignored.

        Returns:
            The operation that changes the scale, None in eager mode; and whether the gradients are
            to be applied, a boolean scalar tensor or a bool.
        """

    @abc.abstractmethod
    def get_config(self):
        """Returns the dictionary of the constructor's arguments."""

    @classmethod
    def from_config(cls, config):
        """Returns a loss scale as `get_config` described it."""
        return cls(**config)


class FixedLossScale(LossScale):
    """A scale that never changes; gradients are applied whatever they are.

    Args:
        loss_scale_value: The scale, an int or float of at least 1.

    Raises:
        ValueError: If it is something else, or not finite in float32.
    """

    def __init__(self, loss_scale_value):
        super().__init__()
        self._value = _number("loss_scale_value", loss_scale_value, 1, "of at least 1", 1024)

    def __call__(self):
        """Returns the scale, a float32 scalar tensor."""
        # Made anew: a tensor that is kept would be of one graph, function or device.
        return tf.constant(self._value, tf.float32)

    def update(self, grads):
        """Returns an operation that does nothing, None in eager mode, and True."""
        del grads
        return tf.no_op(), True

    def get_config(self):
        """Returns the dictionary of `loss_scale_value`."""
        return {"loss_scale_value": self._value}

    def __repr__(self):
        return f"FixedLossScale({self._value})"


class DynamicLossScale(LossScale):
    """A scale that grows until gradients overflow: "backoff" in NVIDIA's OpenSeq2Seq.

    After `increment_period` steps in a row with finite gradients, the scale is multiplied by
    `multiplier`, unless that is not finite, and the count starts again. A step with a gradient that
    is not finite divides the scale, never below 1, starts the count again, and is not to be
    applied. A tower without rows has no say.

    It holds variables, so it is made inside `model_fn` if it is used there. Towers share them.

    Args:
        initial_loss_scale: The first scale, a finite number of at least 1.
        increment_period: Number of steps, an integer of at least 1.
        multiplier: Finite number greater than 1.

    Attributes:
        current_loss_scale: The scale, a float32 scalar variable.
        good_steps: The count, an int64 scalar variable.

    Raises:
        ValueError: If an argument is something else.
    """

    def __init__(self, initial_loss_scale=2**15, increment_period=2000, multiplier=2.0):
        super().__init__()
        number = _number("initial_loss_scale", initial_loss_scale, 1, "of at least 1", "2**15")
        self._initial_loss_scale = number
        # The least above 1 that float32 has.
        self._multiplier = _number("multiplier", multiplier, 1 + 2.0**-23, "greater than 1", 2.0)
        if not _is_between(increment_period, 1, tf.int64.max, numbers.Integral):
            raise ValueError(
                "`increment_period` must be an integer of at least 1 that int64 holds, but is "
                f"{increment_period!r}. Pass a number of steps, e.g. 2000."
            )
        self._increment_period = int(increment_period)
        self._graph = _graph_of_variables()
        variable = functools.partial(
            tf.Variable,
            trainable=False,
            use_resource=True,
            aggregation=tf.VariableAggregation.NONE,  # Every replica has the value of all.
        )
        self.current_loss_scale = variable(number, name="current_loss_scale", dtype=tf.float32)
        self.good_steps = variable(0, name="good_steps", dtype=tf.int64)
        loss_scale_hook.watch([self.current_loss_scale, self.good_steps])

    @property
    def initial_loss_scale(self):
        """The first scale, a float."""
        return self._initial_loss_scale

    @property
    def increment_period(self):
        """After how many steps in a row with finite gradients the scale grows, an int."""
        return self._increment_period

    @property
    def multiplier(self):
        """What the scale is multiplied or divided by, a float."""
        return self._multiplier

    def __call__(self):
        """Returns the current scale, a float32 scalar tensor."""
        self._check_graph()
        return tf.convert_to_tensor(self.current_loss_scale)

    def update(self, grads):
        """Returns what `LossScale.update` does: all towers' gradients must be finite.

        Raises:
            RuntimeError: If towers meet differently, or in a `tf.cond` or `tf.while_loop`.
            ValueError: In another graph than the one in which it was made.
        """
        self._check_graph()
        is_finite = finite.in_all_towers(grads)
        label = f"update of '{self.current_loss_scale.name}'"
        return context.once(functools.partial(self._advance, is_finite), label)

    def get_config(self):
        """Returns the dictionary of the constructor's arguments."""
        names = "initial_loss_scale", "increment_period", "multiplier"
        return {name: getattr(self, name) for name in names}

    def __repr__(self):
        config = self.get_config()
        if self._graph is None and tf.executing_eagerly():
            scale, count = self.current_loss_scale.numpy(), self.good_steps.numpy()
            config = {"current_loss_scale": scale, "num_good_steps": count, **config}
        return f"DynamicLossScale({', '.join(f'{key}={config[key]}' for key in config)})"

    def _check_graph(self):
        here = _graph_of_variables()
        if self._graph is not here:
            raise ValueError(
                "A dynamic loss scale has variables, so it must be used where it was made, but "
                f"{self!r} was made {'eagerly' if self._graph is None else 'in a graph'} and is "
                f"used {'eagerly' if here is None else 'in another graph'}. Make it inside "
                "`model_fn`, or pass 'dynamic'."
            )

    def _advance(self, is_finite):
        """Updates the variables, and returns what `update` does."""
        with tf.name_scope("replicate/loss_scale/"):
            scale = tf.convert_to_tensor(self.current_loss_scale)
            count = tf.convert_to_tensor(self.good_steps) + 1
            is_due = count >= self.increment_period
            raised = scale * self.multiplier
            raised = tf.where_v2(is_due & tf.math.is_finite(raised), raised, scale)
            lowered = tf.maximum(scale / self.multiplier, 1.0)
            # Without conditions: a choice of scalars costs less, and compiles anywhere.
            scale = tf.where_v2(is_finite, raised, lowered)
            count = tf.where_v2(is_finite & ~is_due, count, tf.zeros_like(count))
            set_scale = self.current_loss_scale.assign(scale, read_value=False)
            set_count = self.good_steps.assign(count, read_value=False)
            return tf.group(set_scale, set_count), is_finite


def get(identifier):
    """Returns the loss scale that is meant.

    Args:
        identifier: None, a number for a `FixedLossScale`, 'dynamic' for a `DynamicLossScale`, or a
            loss scale of this module or of `tf.compat.v1.mixed_precision`.

    Returns:
        A loss scale, the given one if it is one; None for None.

    Raises:
        ValueError: If it is something else, or a number below 1.
    """
    if identifier is None or isinstance(identifier, (LossScale, tf.train.experimental.LossScale)):
        return identifier
    if isinstance(identifier, numbers.Real) and not isinstance(identifier, bool):
        return FixedLossScale(identifier)
    if isinstance(identifier, str) and identifier == "dynamic":
        return DynamicLossScale()
    raise ValueError(
        "A loss scale must be None, an int or float, 'dynamic', a `replicate.loss_scale.LossScale` "
        f"or a `tf.compat.v1.mixed_precision.LossScale`, but is {identifier!r}. Pass one of these."
    )


def update_gathered(scale, grads):
    """Updates any loss scale by gradients of the whole batch, which are the same in all towers.

    Args:
        scale: A loss scale of this module or of `tf.compat.v1.mixed_precision`.
        grads: Nested structure of unscaled gradients, as `LossScale.update` takes them.

    Returns:
        What `update` of the loss scale does.
    """

    def update():
        with finite.same_in_all_towers():
            return scale.update(grads)

    return context.once(update, "update of a loss scale by gathered gradients")


def scaled(loss, scale):
    """Multiplies a loss by a scale.

    Args:
        loss: Floating tensor, or a function without arguments that returns one.
        scale: Float32 scalar tensor.

    Returns:
        A tensor of the loss's dtype and shape, or a function that returns it.
    """
    if callable(loss):
        return lambda: scaled(loss(), scale)
    loss = tf.convert_to_tensor(loss)
    return loss * tf.cast(scale, loss.dtype)


def unscaled(gradient, scale):
    """Divides a gradient by a scale.

    Args:
        gradient: Floating tensor, `tf.IndexedSlices` or None.
        scale: Float32 scalar tensor.

    Returns:
        A gradient of the same kind and dtype; None for None.
    """
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        values = unscaled(gradient.values, scale)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    gradient = tf.convert_to_tensor(gradient)
    if gradient.dtype in (tf.float16, tf.bfloat16):  # A scale above 65504 is infinite in float16.
        return tf.cast(tf.cast(gradient, tf.float32) / scale, gradient.dtype)
    return gradient / tf.cast(scale, gradient.dtype)


def _number(name, value, minimum, rule, example):
    """Returns an argument as a float, or raises."""
    if not _is_between(value, minimum, float(tf.float32.max), numbers.Real):
        raise ValueError(
            f"`{name}` must be an int or float {rule} that is finite in float32, but is {value!r}. "
            f"Pass e.g. {example}."
        )
    return float(value)


def _is_between(value, low, high, kind):
    return isinstance(value, kind) and not isinstance(value, bool) and low <= value <= high


def _graph_of_variables():
    """Returns the graph that variables made here would be in, None in eager mode."""
    with tf.init_scope():
        return None if tf.executing_eagerly() else tf.get_default_graph()
