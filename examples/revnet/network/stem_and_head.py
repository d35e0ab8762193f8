"""The layers before and after the stages: the first convolution, and the classifier."""

import tensorflow.compat.v1 as tf

from examples.revnet.network import pooling
from examples.revnet.network.normalization import BatchNorm, Statistics
from examples.revnet.network.residual_functions import Activations
from examples.revnet.network.weights import Weights

_XAVIER = 1.0  # variance 1 / fan-in: no ReLU follows


class Stem(Weights):
    """The first convolution, batch norm, ReLU, and max-pooling if the configuration has it.

    Args:
        config: A `RevNetConfig`.
    """

    def __init__(self, config):
        super().__init__(config, "stem")
        size, width = config.initial_kernel_size, config.initial_filters
        self._channels_first = config.data_format == "channels_first"
        self._pools = config.initial_max_pool
        self._dtype_of_convolution = tf.as_dtype(config.dtype)
        stride = config.initial_stride
        strides = [1, 1, stride, stride] if self._channels_first else [1, stride, stride, 1]
        layout = "NCHW" if self._channels_first else "NHWC"
        self._convolution = {"strides": strides, "padding": "SAME", "data_format": layout}
        self._norm = BatchNorm(config)
        self._kernel = self.add_kernel("kernel", [size, size, config.image_shape[-1], width])
        self._gamma, self._beta, self._moving = self.add_batch_norm("batch_norm", width)

    def forward(self, images):
        """Computes the first pair in training.

        Args:
            images: Float [n, height, width, channels], or [n, channels, height, width].

        Returns:
            Pair, and the `Statistics` of the batch.
        """
        normalised, statistics = self._norm.normalise(self._convolve(images), *self._factors())
        return self._pair(tf.nn.relu(normalised), images.dtype), statistics

    def infer(self, images):
        """Computes the first pair with the moving statistics."""
        moving = Statistics(*map(tf.convert_to_tensor, self._moving), None, ())
        x = self._norm.replay(self._convolve(images), *self._factors(), moving)
        return self._pair(tf.nn.relu(x), images.dtype)

    def gradients(self, d_hidden, images, statistics):
        """Goes back through all layers, which it computes again.

        Args:
            d_hidden: Pair of gradients for the pair that `forward` returned.
            images: The images that `forward` was called with.
            statistics: The statistics that it returned.

        Returns:
            A dict of the gradients for weights by `id`.
        """
        # Read once: what is read later might be updated by then.
        gamma, beta = self._factors()
        x = self._convolve(images)
        z = tf.nn.relu(self._norm.replay(x, gamma, beta, statistics))
        with tf.GradientTape() as tape:
            tape.watch(z)
            hidden = self._pair(z, images.dtype)
        dy = tf.raw_ops.ReluGrad(gradients=tape.gradient(hidden, z, d_hidden), features=z)
        dx, d_gamma, d_beta = self._norm.gradients(dy, x, gamma, statistics)
        d_kernel = tf.raw_ops.Conv2DBackpropFilter(
            input=tf.cast(images, self._dtype_of_convolution),
            filter_sizes=self._kernel.shape,
            out_backprop=dx,
            **self._convolution,
        )
        found = tf.cast(d_kernel, self._kernel.dtype), d_gamma, d_beta
        return dict(zip(map(id, (self._kernel, self._gamma, self._beta)), found))

    def updates(self, statistics):
        """Yields each moving statistic, a variable, and the value of the batch that moves it."""
        yield from zip(self._moving, (statistics.mean, statistics.sample_variance))

    def _convolve(self, images):
        dtype = self._dtype_of_convolution
        return tf.nn.conv2d(
            tf.cast(images, dtype), tf.cast(self._kernel, dtype), **self._convolution
        )

    def _factors(self):
        return [tf.convert_to_tensor(variable) for variable in (self._gamma, self._beta)]

    def _pair(self, z, dtype):
        if self._pools:
            z = pooling.maximum(z, 3, 2, self._channels_first)
        return tuple(tf.split(tf.cast(z, dtype), 2, axis=1 if self._channels_first else 3))


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
        """Computes the result of `forward` again, without the dense layer.

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
            statistics: The statistics that it was called with.
            activations: The `Activations` that it returned.
            gamma: The value of the factor that it returned.

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
