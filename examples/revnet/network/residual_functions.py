"""The residual functions F and G, forward, replayed and backward.

A residual function is a chain of *layers*, each of batch norm, ReLU and a convolution:

    z = relu(batch_norm(x; gamma, beta))        y = conv(z; kernel)

The first layer of most has the convolution alone, z = x. As published, it has all three only where
a stage begins that is not the first one.

Its functions take the values of the weights, not the variables, so that they do the same in eager
mode, in graphs and inside of a custom gradient. Gradients are written out: TensorFlow's own would
come with a second forward pass that nobody can steer.
"""

from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from examples.revnet.network.normalization import BatchNorm, Statistics
from examples.revnet.network.weights import Weights


class Activations(NamedTuple):
    """Tensors of a layer that the backward pass needs, with its weights and statistics."""

    x: Any  # input, in the type that the layer computes in
    z: Any  # what is convolved; None to find it from `x`, by the statistics that are kept


class Residual(Weights):
    """F or G of a unit.

    Args:
        config: A `RevNetConfig`.
        in_channels: Channels of its input, a half of those of the unit.
        out_channels: Channels of its output.
        filters: Channels between its convolutions.
        stride: Of the first convolution of 3×3.
        name: By which its weights are told from others.
        norm_first: Whether the first layer has batch norm and ReLU.
    """

    def __init__(self, config, in_channels, out_channels, filters, stride, name, norm_first):
        super().__init__(config, name)
        self._norm = BatchNorm(config)
        self._dropout_rate = config.dropout_rate
        self._compute_type = tf.as_dtype(config.dtype)
        self._data_format = "NCHW" if config.data_format == "channels_first" else "NHWC"
        if config.bottleneck:
            shapes = [(1, in_channels, filters), (3, filters, filters), (1, filters, out_channels)]
            self._strides = [1, stride, 1]
        else:
            shapes = [(3, in_channels, filters), (3, filters, out_channels)]
            self._strides = [stride, 1]
        self._moving = []
        self._unnormed = 0 if norm_first else 1  # Layers that begin with their convolution.
        for index, (size, before, after) in enumerate(shapes):
            if index >= self._unnormed:
                _, _, moving = self.add_batch_norm(f"layer_{index}", before)
                self._moving.append(moving)
            self.add_kernel(f"layer_{index}/kernel", [size, size, before, after])

    def forward(self, x, values):
        """Computes the function in training.

        Args:
            x: Float [n, height, width, channels], or [n, channels, height, width].
            values: List of the values of its weights, in the order of `learned`.

        Returns:
            Its result, in the type of `x`; what is to be kept to replay it, a list; and the
            `Activations` of its layers, a list.
        """
        seed = None
        if self._dropout_rate:
            seed = tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)
        return self._run(x, values, None, seed)

    def replay(self, x, values, kept, with_result=True):
        """Computes the function again, with the same statistics and dropout.

        Args:
            x: As of `forward`.
            values: Likewise.
            kept: What `forward` returned.
            with_result: Whether the result is asked for, which the gradients do not need.

        Returns:
            Its result or None, and the `Activations` of its layers, as `forward` returns them.
        """
        seed = kept.get("dropout_seed")
        y, _, activations = self._run(x, values, kept["statistics"], seed, with_result)
        return y, activations

    def infer(self, x, values):
        """Computes the function with the moving statistics; returns its result."""
        moving = [
            Statistics(*map(tf.convert_to_tensor, of_layer), None, ()) for of_layer in self._moving
        ]
        return self._run(x, values, moving, None)[0]

    def _run(self, x, values, statistics, dropout_seed, with_result=True):
        dtype, x = x.dtype, tf.cast(x, self._compute_type)
        found, activations, last = [], [], len(self._strides) - 1
        for layer, stride in enumerate(self._strides):
            gamma, beta, kernel = self._weights_of(values, layer)
            if layer < self._unnormed:
                z = x
            elif statistics is None:
                z, of_layer = self._norm.normalise(x, gamma, beta)
                found.append(of_layer)
                z = self._activate(z, layer, dropout_seed)
            else:
                z = self._activated(x, values, layer, statistics, dropout_seed)
            activations.append(Activations(x, z))
            if layer < last or with_result:
                kernel = tf.cast(kernel, self._compute_type)
                x = tf.nn.conv2d(z, kernel, **self._convolution(stride))
        kept = {"statistics": found}
        if dropout_seed is not None:
            kept["dropout_seed"] = dropout_seed
        return tf.cast(x, dtype) if with_result else None, kept, activations

    def gradients(self, dy, values, kept, activations):
        """Returns the gradients for the input and for the weights.

        Args:
            dy: Gradient for the result of `forward`.
            values: The values of the weights that it was computed with.
            kept: What it returned.
            activations: Those of its layers. The list is emptied, so that nothing lives longer than
                it must.

        Returns:
            The gradient for `x`, like that, and a list of those for the weights, in their order.
        """
        dtype, dy = dy.dtype, tf.cast(dy, self._compute_type)
        found = []
        for layer in reversed(range(len(self._strides))):
            gamma, _, kernel = self._weights_of(values, layer)
            x, z = activations.pop()
            if layer < self._unnormed:
                z = x
            elif z is None:
                (waited,) = after([dy], x)
                of_batch, seed = kept["statistics"], kept.get("dropout_seed")
                z = self._activated(waited, values, layer, of_batch, seed)
            convolution = self._convolution(self._strides[layer])
            d_kernel = tf.raw_ops.Conv2DBackpropFilter(
                input=z, filter_sizes=kernel.shape, out_backprop=dy, **convolution
            )
            # One name, so that eagerly, too, nothing lives longer than it must.
            dy = tf.raw_ops.Conv2DBackpropInput(
                input_sizes=tf.shape(z),
                filter=tf.cast(kernel, self._compute_type),
                out_backprop=dy,
                **convolution,
            )
            found = [tf.cast(d_kernel, kernel.dtype), *found]
            if layer < self._unnormed:
                continue
            if layer == len(self._strides) - 1 and self._dropout_rate:
                dy /= 1 - self._dropout_rate
            # Dropped values are zero, as those that ReLU cut off.
            dy = tf.raw_ops.ReluGrad(gradients=dy, features=z)
            statistics = kept["statistics"][layer - self._unnormed]
            dy, d_gamma, d_beta = self._norm.gradients(dy, x, gamma, statistics)
            found = [d_gamma, d_beta, *found]
        return tf.cast(dy, dtype), found

    def updates(self, kept):
        """Yields each moving statistic, a variable, and the value of the batch that moves it."""
        for (mean, variance), of_batch in zip(self._moving, kept["statistics"]):
            yield mean, of_batch.mean
            yield variance, of_batch.sample_variance

    def _weights_of(self, values, layer):
        """Returns gamma, beta and the kernel of a layer; None for what it does not have."""
        if layer < self._unnormed:
            return None, None, values[layer]
        first = 3 * layer - 2 * self._unnormed
        return values[first : first + 3]

    def _activated(self, x, values, layer, statistics, dropout_seed):
        """Returns what a layer with batch norm convolves, by statistics that are known."""
        gamma, beta, _ = self._weights_of(values, layer)
        z = self._norm.replay(x, gamma, beta, statistics[layer - self._unnormed])
        return self._activate(z, layer, dropout_seed)

    def _activate(self, z, layer, dropout_seed):
        """Returns what a layer convolves, from what it normalised."""
        z = tf.nn.relu(z)
        is_dropped = layer == len(self._strides) - 1 and dropout_seed is not None
        return self._drop(z, dropout_seed) if is_dropped else z

    def _drop(self, z, seed):
        rate = self._dropout_rate
        noise = tf.random.stateless_uniform(tf.shape(z), seed, dtype=tf.float32)
        return tf.where(noise >= rate, z / (1 - rate), tf.zeros_like(z))

    def _convolution(self, stride):
        is_first = self._data_format == "NCHW"
        strides = [1, 1, stride, stride] if is_first else [1, stride, stride, 1]
        return {"strides": strides, "padding": "SAME", "data_format": self._data_format}


def after(waited_for, *tensors):
    """Returns tensors that a graph has only once it has others; eagerly, as they are."""
    if tf.executing_eagerly():
        return tensors
    with tf.control_dependencies(waited_for):
        return [tf.identity(tensor) for tensor in tensors]
