"""How the layers of a RevNet make their variables: under the same names, values and penalties."""

import hashlib

import tensorflow.compat.v1 as tf

_HE = 2.0  # He et al., "Delving Deep into Rectifiers", 2015: variance 2 / fan-out before a ReLU


class Weights(tf.keras.layers.Layer):
    """A Keras layer that makes all its variables at once, named by their place in the network.

    Args:
        config: A `RevNetConfig`.
        place: Path of the layer in the network, such as `'stage_0/unit_1/f'`.
    """

    def __init__(self, config, place):
        super().__init__(dtype=config.variable_dtype)
        self._place = place
        self._seed = config.seed
        self._decay = config.weight_decay
        self._learned = 0  # how many weights are not statistics

    @property
    def learned(self):
        """The weights that have gradients, frozen or not, in the order in which they were made."""
        return self.weights[: self._learned]

    def add_kernel(self, name, shape, variance=_HE, fan="fan_out"):
        """Makes a kernel, on which there is a penalty.

        Args:
            name: Its name in this layer.
            shape: List of ints, the last two of which are the channels before and after.
            variance: Of the initial values, times their fan.
            fan: `'fan_in'` or `'fan_out'`, see `tf.variance_scaling_initializer`.

        Returns:
            A variable.
        """
        receptive, (before, after) = shape[:-2], shape[-2:]
        size = after if fan == "fan_out" else before
        for side in receptive:
            size *= side
        return self._add(name, shape, self._normal(name, (variance / size) ** 0.5), self._penalty())

    def add_vector(self, name, size, value):
        """Makes a trainable vector of equal values; there is no penalty on it."""
        return self._add(name, [size], tf.constant_initializer(value), None)

    def add_batch_norm(self, name, channels):
        """Makes the variables of a batch norm.

        Returns:
            Factor and offset; and a pair of the moving mean and the moving variance, of which
            every tower has its own until they are merged.
        """
        gamma = self.add_vector(f"{name}/gamma", channels, 1.0)
        beta = self.add_vector(f"{name}/beta", channels, 0.0)
        moving = tuple(
            self.add_weight(
                name=f"{self._place}/{name}/{statistic}",
                shape=[channels],
                dtype=self.dtype,
                initializer=tf.constant_initializer(value),
                trainable=False,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.MEAN,
            )
            for statistic, value in (("moving_mean", 0.0), ("moving_variance", 1.0))
        )
        return gamma, beta, moving

    def _add(self, name, shape, initializer, regularizer):
        self._learned += 1
        return self.add_weight(
            name=f"{self._place}/{name}",
            shape=shape,
            dtype=self.dtype,
            initializer=initializer,
            regularizer=regularizer,
        )

    def _penalty(self):
        decay = self._decay
        return (lambda kernel: decay * tf.nn.l2_loss(kernel)) if decay else None

    def _normal(self, name, deviation):
        """Returns an initializer; with a seed, its values depend on that and the name alone."""
        if self._seed is None:
            return tf.random_normal_initializer(stddev=deviation)
        digest = hashlib.blake2b(f"{self._seed}/{self._place}/{name}".encode(), digest_size=8)
        seed = [int.from_bytes(digest.digest()[i : i + 4], "big") >> 1 for i in (0, 4)]

        def initial(shape, dtype=None, **_):
            # Drawn in float32, so that networks of other types start from the same values.
            values = deviation * tf.random.stateless_normal(shape, seed, dtype=tf.float32)
            return tf.cast(values, dtype or tf.float32)

        return initial
