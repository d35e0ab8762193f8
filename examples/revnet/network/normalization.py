"""Batch norm whose gradient is a function of its own, so that it can be replayed.

Recomputing an activation must neither move the statistics of batch norm nor ask the other towers
once more. So the statistics of a batch are kept, a few numbers per channel, and a *replay*
normalises by them: it costs no reduction, and gives what the first pass gave.

The method is that of Ioffe and Szegedy, "Batch Normalization: Accelerating Deep Network Training by
Reducing Internal Covariate Shift", 2015, arXiv 1502.03167. One device takes TensorFlow's fused
kernel, where that knows the type; several towers take the moments over the rows of all of them.
"""

from typing import Any, NamedTuple, Tuple

import tensorflow.compat.v1 as tf

import replicate


class Statistics(NamedTuple):
    """Statistics that batch norm keeps of a batch with C channels."""

    mean: Any  # [C]
    variance: Any  # [C], the mean of squared differences, by which is normalised
    sample_variance: Any  # [C], their sum by one less than their count, for moving statistics
    # The reserve of the fused kernel for its gradient; else the number of values in `mean`, [1].
    reserve: Tuple[Any, ...]


class BatchNorm:
    """Batch norm as functions of tensors; the variables are the caller's.

    Args:
        config: A `RevNetConfig`.
    """

    def __init__(self, config):
        self._epsilon = config.batch_norm_epsilon
        self._across_towers = config.cross_tower_batch_norm
        self._is_fusable = config.dtype != "float64"  # The kernel does not know that.
        self._channels_first = config.data_format == "channels_first"
        self._axes = [0, 2, 3] if self._channels_first else [0, 1, 2]
        self._fused = {
            "epsilon": self._epsilon,
            "data_format": "NCHW" if self._channels_first else "NHWC",
        }

    def normalise(self, x, gamma, beta):
        """Normalises by the moments of the batch.

        Args:
            x: Float [n, height, width, C], or [n, C, height, width].
            gamma: Factor [C]; with a 16-bit `x` float32, as all that is per channel.
            beta: Offset [C].

        Returns:
            A tensor like `x`, and the `Statistics` of the batch.
        """
        if self._takes_kernel():
            normalised, mean, sample_variance, *reserve = tf.raw_ops.FusedBatchNormV2(
                x=x, scale=gamma, offset=beta, mean=[], variance=[], is_training=True, **self._fused
            )
            count = tf.cast(self._count(x), mean.dtype)
            variance = sample_variance * (tf.maximum(count - 1, 1) / count)
            return normalised, Statistics(mean, variance, sample_variance, tuple(reserve))
        wide = tf.cast(x, gamma.dtype)
        count = tf.cast(self._count(x), gamma.dtype)
        total, count = self._over_towers(tf.reduce_sum(wide, self._axes), count[tf.newaxis])
        mean = total / count
        (total,) = self._over_towers(
            tf.reduce_sum(tf.square(wide - self._spread(mean)), self._axes)
        )
        sample_variance = total / tf.maximum(count - 1, 1)
        statistics = Statistics(mean, total / count, sample_variance, (count,))
        if self._is_fusable:
            return self._kernel_with_gradient(x, gamma, beta, statistics), statistics
        return self.replay(x, gamma, beta, statistics), statistics

    def replay(self, x, gamma, beta, statistics):
        """Normalises by statistics that are known: those of a batch, or moving ones.

        Args:
            x: As of `normalise`.
            gamma: Likewise.
            beta: Likewise.
            statistics: `Statistics`, of which mean and variance are asked for.

        Returns:
            A tensor like `x`.
        """
        mean, variance = statistics.mean, statistics.variance
        if self._is_fusable:
            return tf.raw_ops.FusedBatchNormV2(
                x=x,
                scale=gamma,
                offset=beta,
                mean=mean,
                variance=variance,
                is_training=False,
                **self._fused,
            )[0]
        scale = gamma * tf.rsqrt(variance + self._epsilon)
        return x * self._spread(scale) + self._spread(beta - mean * scale)

    def gradients(self, dy, x, gamma, statistics):
        """Returns the gradients for the arguments of `normalise`.

        Args:
            dy: Gradient for its result, of the shape and type of `x`.
            x: What it was called with, or a reconstruction.
            gamma: Likewise.
            statistics: What it returned.

        Returns:
            Gradients for `x`, `gamma` and `beta`.
        """
        mean, variance, _, reserve = statistics
        if self._takes_kernel():
            names = ("reserve_space_1", "reserve_space_2")
            dx, d_gamma, d_beta, *_ = tf.raw_ops.FusedBatchNormGradV2(
                y_backprop=dy,
                x=x,
                scale=gamma,
                is_training=True,
                **dict(zip(names, reserve)),
                **self._fused,
            )
            return dx, d_gamma, d_beta
        (count,) = reserve
        dy, wide = tf.cast(dy, gamma.dtype), tf.cast(x, gamma.dtype)
        inverse = tf.rsqrt(variance + self._epsilon)
        centred = (wide - self._spread(mean)) * self._spread(inverse)
        d_beta = tf.reduce_sum(dy, self._axes)
        d_gamma = tf.reduce_sum(dy * centred, self._axes)
        # By mean and variance, the rows of every tower depend on those of all.
        by_mean, by_deviation = self._gradients_over_towers(d_beta, d_gamma)
        dx = dy - self._spread(by_mean / count) - centred * self._spread(by_deviation / count)
        return tf.cast(dx * self._spread(gamma * inverse), x.dtype), d_gamma, d_beta

    def _kernel_with_gradient(self, x, gamma, beta, statistics):
        """Does what `replay` does, with the gradient of `normalise`.

        Outside of training, TensorFlow's kernel treats the statistics as constants, and passes no
        gradient on to the tensors from which they were computed.
        """

        @tf.custom_gradient
        def normalised(x, gamma, beta):
            result = self.replay(x, gamma, beta, statistics)
            return result, lambda dy: self.gradients(dy, x, gamma, statistics)

        return normalised(x, gamma, beta)

    def _takes_kernel(self):
        meets = self._across_towers and replicate.num_towers() > 1
        return self._is_fusable and not meets

    def _count(self, x):
        """Returns the number of values in a moment of this tower, an int32 scalar."""
        return tf.size(x) // x.shape[1 if self._channels_first else -1]

    def _spread(self, vector):
        """Returns [C] in a shape that is broadcast to images."""
        return tf.reshape(vector, [-1, 1, 1]) if self._channels_first else vector

    def _over_towers(self, *vectors):
        """Returns the sums over towers of vectors, for which the towers meet once."""
        if not self._across_towers:
            return vectors
        together = replicate.cross_tower_sum(tf.concat(vectors, 0))
        return tf.split(together, [vector.shape[0] for vector in vectors])

    def _gradients_over_towers(self, *vectors):
        """Returns the gradients for terms of sums over towers, from those for the sums."""
        if not self._across_towers or replicate.num_towers() == 1:
            return vectors
        upstream = tf.concat(vectors, 0)
        term = tf.zeros_like(upstream)
        with tf.GradientTape() as tape:
            tape.watch(term)
            total = replicate.cross_tower_sum(term)
        gradient = tape.gradient(total, term, upstream)
        return tf.split(gradient, [vector.shape[0] for vector in vectors])
