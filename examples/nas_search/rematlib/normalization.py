"""Batch normalization.

It shifts and scales each channel, to a mean and variance that are its weights. The mean and
variance before that are those of the batch, or, in evaluation of a *stateful* layer, moving
averages over the batches that it was trained on. A super-network must be stateless: batches of
different networks have nothing in common to average.
"""

import tensorflow.compat.v1 as tf

from examples.nas_search.rematlib.base import Layer

# Below it the fused operation would silently take this one instead.
_SMALLEST_FUSED_EPSILON = 1.001e-5


class BatchNorm(Layer):
    """Normalizes images over batch, height and width.

    Args:
        epsilon: Number that is added to the variance.
        momentum: Weight in [0, 1] of the past in moving averages.
        stateful: Whether evaluation uses moving averages, rather than the batch.
        mask: Tensor [channels] that the output is multiplied with, or None.
        count: How many channels inputs have that lack those where the mask is 0, int32 scalar
            tensor. None: they have all.
    """

    def __init__(self, epsilon=1e-12, momentum=0.99, stateful=True, mask=None, count=None):
        super().__init__()
        self._epsilon = epsilon
        self._momentum = momentum
        self._stateful = stateful
        self._mask = mask
        self._count = count

    def _setup(self, input_shape):
        channels = input_shape[3:]
        part = {}
        if self._mask is not None:
            if not self._mask.shape.is_compatible_with(channels):
                raise ValueError(
                    "`mask` must have an entry for each channel of the inputs, of shape "
                    f"{input_shape}, but has shape {self._mask.shape}."
                )
            # Scale and offset 0 make an output of 0, without another pass over it.
            part = {"masks": [tf.stop_gradient(self._mask)]}
        if self._count is not None:
            part = {"sizes": [self._count]}
        self.add_weight("gamma", channels, tf.ones_initializer(), **part)
        self.add_weight("beta", channels, tf.zeros_initializer(), **part)
        if self._stateful:
            # Towers average over their own rows, and evaluation merges that.
            moving = {
                "trainable": False,
                "synchronization": tf.VariableSynchronization.ON_READ,
                "aggregation": tf.VariableAggregation.MEAN,
            }
            self.add_weight("moving_mean", channels, tf.zeros_initializer(), **moving)
            self.add_weight("moving_variance", channels, tf.ones_initializer(), **moving)
        return input_shape

    def _call(self, inputs, run):
        if self._stateful and not run.training:
            moving = [self.weight(name).value(run) for name in ("moving_mean", "moving_variance")]
            return self._normalize(inputs, run, moving)
        is_fused = inputs.dtype != tf.float64 and self._epsilon >= _SMALLEST_FUSED_EPSILON
        normalize = self._normalize_fused if is_fused else self._normalize_by_batch
        outputs, mean, variance = normalize(inputs, run)
        if self._stateful:
            self._update("moving_mean", mean, run)
            self._update("moving_variance", variance, run)
        return outputs

    def _normalize_fused(self, inputs, run):
        gamma, beta = (self.weight(name).value(run, tf.float32) for name in ("gamma", "beta"))
        return tf.nn.fused_batch_norm(inputs, gamma, beta, epsilon=self._epsilon)

    def _normalize_by_batch(self, inputs, run):
        """Does as `tf.nn.fused_batch_norm`, and returns the variance as it does."""
        exact = inputs if inputs.dtype == tf.float64 else tf.cast(inputs, tf.float32)
        mean, variance = tf.nn.moments(exact, axes=[0, 1, 2])
        rows = tf.cast(tf.reduce_prod(tf.shape(inputs)[:3]), exact.dtype)
        unbiased = variance * (rows / tf.maximum(rows - 1, 1))
        return self._normalize(inputs, run, [mean, variance]), mean, unbiased

    def _normalize(self, inputs, run, moments):
        exact = inputs.dtype if inputs.dtype == tf.float64 else tf.float32
        mean, variance = (tf.cast(moment, exact) for moment in moments)
        gamma, beta = (self.weight(name).value(run, exact) for name in ("gamma", "beta"))
        factor = gamma * tf.math.rsqrt(variance + self._epsilon)
        return tf.cast(tf.cast(inputs, exact) * factor + (beta - mean * factor), inputs.dtype)

    def _update(self, name, value, run):
        variable = self.weight(name).variable
        difference = tf.cast(value, variable.dtype.base_dtype) - variable.read_value()
        run.updates.append(variable.assign_add((1 - self._momentum) * difference).op)


class MaskedStatelessBatchNorm(BatchNorm):
    """Normalizes by the batch always, and sets channels to 0 that are not in use.

    Args:
        mask: Tensor [channels] of 1 for channels in use and else 0.
        epsilon: As in `BatchNorm`.
        count: As in `BatchNorm`.
    """

    def __init__(self, mask, epsilon=1e-12, count=None):
        super().__init__(epsilon=epsilon, stateful=False, mask=mask, count=count)
