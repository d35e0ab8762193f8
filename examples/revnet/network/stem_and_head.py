"""What is before and behind the stages: the first convolution, and the classifier."""

import tensorflow.compat.v1 as tf

from examples.revnet.network import pooling
from examples.revnet.network.normalization import BatchNorm, Statistics
from examples.revnet.network.residual_functions import Activations
from examples.revnet.network.weights import Weights

_XAVIER = 1.0  # variance 1 / fan-in: no ReLU follows


class Stem(Weights):
    """The first convolution, and max-pooling if the configuration says so.

    Args:
        config: A `RevNetConfig`.
    """

    def __init__(self, config):
        super().__init__(config, "stem")
        self._config = config
        size = config.initial_kernel_size
        self._kernel = self.add_kernel(
            "kernel", [size, size, config.image_shape[-1], config.initial_filters]
        )

    def forward(self, images):
        """Computes the first pair from images, float [n, height, width, channels] or transposed."""
        config = self._config
        channels_first = config.data_format == "channels_first"
        layout = "NCHW" if channels_first else "NHWC"
        stride = [config.initial_stride] * 2
        dtype = tf.as_dtype(config.dtype)
        hidden = tf.nn.conv2d(
            tf.cast(images, dtype),
            tf.cast(self._kernel, dtype),
            stride,
            "SAME",
            data_format=layout,
        )
        if config.initial_max_pool:
            hidden = pooling.maximum(hidden, 3, 2, channels_first)
        hidden = tf.cast(hidden, images.dtype)
        return tuple(tf.split(hidden, 2, axis=1 if channels_first else 3))


class Head(Weights):
    """Batch norm, ReLU, the mean over all pixels, and a dense layer.

    Args:
        config: A `RevNetConfig`.
    """

    def __init__(self, config):
        super().__init__(config, "head")
        self._channel_axis = 1 if config.data_format == "channels_first" else 3
        self._pixel_axes = [2, 3] if config.data_format == "channels_first" else [1, 2]
        self._norm = BatchNorm(config)
        width = config.stage_widths[-1]
        self._gamma, self._beta, self._moving = self.add_batch_norm("batch_norm", width)
        self._kernel = self.add_kernel(
            "dense/kernel", [width, config.num_classes], _XAVIER, "fan_in"
        )
        self._bias = self.add_vector("dense/bias", config.num_classes, 0.0)

    def forward(self, hidden):
        """Computes logits in training.

        Args:
            hidden: The last pair.

        Returns:
            Logits, float [n, classes], and the `Statistics` of the batch.
        """
        normalised, statistics = self._norm.normalise(
            tf.concat(hidden, self._channel_axis),
            tf.convert_to_tensor(self._gamma),
            tf.convert_to_tensor(self._beta),
        )
        return self.classify(self._pool(tf.nn.relu(normalised))), statistics

    def replay(self, hidden, statistics):
        """Computes anew what `forward` did, but for the dense layer.

        Args:
            hidden: As of `forward`.
            statistics: What it returned.

        Returns:
            What `classify` takes, float [n, channels]; the `Activations`, and the value of the
            factor, for `gradients`.
        """
        x = tf.concat(hidden, self._channel_axis)
        gamma, beta = map(tf.convert_to_tensor, (self._gamma, self._beta))
        z = tf.nn.relu(self._norm.replay(x, gamma, beta, statistics))
        return self._pool(z), Activations(x, z), gamma

    def gradients(self, d_pooled, statistics, activations, gamma):
        """Goes back through all but the dense layer.

        Args:
            d_pooled: Gradient for what `replay` returned.
            statistics: What that was called with.
            activations: What it returned besides.
            gamma: Likewise.

        Returns:
            The pair of gradients for `hidden`, and a dict of those for weights by `id`.
        """
        x, z = activations
        pixels = tf.reduce_prod(tf.gather(tf.shape(z), self._pixel_axes))
        for axis in self._pixel_axes:
            d_pooled = tf.expand_dims(d_pooled, axis)
        dy = tf.broadcast_to(d_pooled / tf.cast(pixels, z.dtype), tf.shape(z))
        dy = tf.raw_ops.ReluGrad(gradients=dy, features=z)
        dx, d_gamma, d_beta = self._norm.gradients(dy, x, gamma, statistics)
        of_weights = {id(self._gamma): d_gamma, id(self._beta): d_beta}
        return tf.split(dx, 2, self._channel_axis), of_weights

    def classify(self, pooled):
        """Computes logits, float [n, classes], from the means over pixels, float [n, channels]."""
        return tf.matmul(pooled, self._kernel) + self._bias

    def infer(self, hidden):
        """Computes logits with the moving statistics."""
        normalised = self._norm.replay(
            tf.concat(hidden, self._channel_axis),
            tf.convert_to_tensor(self._gamma),
            tf.convert_to_tensor(self._beta),
            Statistics(*map(tf.convert_to_tensor, self._moving), None, ()),
        )
        return self.classify(self._pool(tf.nn.relu(normalised)))

    def updates(self, statistics):
        """Yields each moving statistic, a variable, and the value of the batch that moves it."""
        yield from zip(self._moving, (statistics.mean, statistics.sample_variance))

    def _pool(self, z):
        return tf.reduce_mean(z, self._pixel_axes)
