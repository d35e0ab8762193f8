"""Small RevNets, batches for them, and the same network in plain code to compare them with."""

import re

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.eager import context

from examples.revnet import RevNet, RevNetConfig

_SMALL = {
    "image_shape": (9, 7, 3),
    "num_classes": 5,
    "units": (3, 2),
    "filters": (8, 12),
    "initial_filters": 6,
    "dtype": "float64",
    "weight_decay": 1e-2,
    "seed": 3,
}
# They differ in sizes, which strides may not divide, and have every kind of layer.
KINDS = {
    "basic": {},
    "bottleneck": {"bottleneck": True, "units": (1, 2), "filters": (4, 6), "initial_filters": 8},
    "strides": {"strides": (2, 3), "image_shape": (11, 8, 1), "units": (4, 1)},
    "max_pool": {
        "image_shape": (19, 17, 3),
        "initial_kernel_size": 7,
        "initial_stride": 2,
        "initial_max_pool": True,
        "units": (1, 2, 1),
        "filters": (6, 6, 10),
    },
}


def config(kind="basic", **fields):
    return RevNetConfig(**{**_SMALL, **KINDS[kind], **fields})


def batch(config, rows=6, seed=0, labels="integer"):
    """Returns images as the configuration wants them, and labels: of arrays a pair."""
    random = np.random.RandomState(seed)
    images = random.normal(size=(rows, *config.image_shape)) + 0.5
    if config.data_format == "channels_first":
        images = images.transpose([0, 3, 1, 2])
    classes = random.randint(config.num_classes, size=rows).astype(np.int32)
    if labels == "integer":
        return images, classes
    one_hot = np.eye(config.num_classes)[classes]
    return images, one_hot if labels == "one_hot" else 0.9 * one_hot + 0.1 / config.num_classes


def session():
    """Returns a session that runs graphs as they are; to improve small ones takes longer."""
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    return tf.Session(config=config)


def eager():
    """A scope of eager execution; tests are in a graph otherwise."""
    return context.eager_mode()


def place(variable):
    """Returns the name of a variable in its network, such as `'stem/kernel'`."""
    return re.search(r"((stem|head|stage_\d+)/.*?)(:0)?$", variable.name).group(1)


def scatter(model, seed=5, apply=lambda variable, value: variable.assign(value)):
    """Moves factors, offsets and statistics away from 1 and 0, where errors would not show."""
    random = np.random.RandomState(seed)
    return [
        apply(variable, value)
        for variable in model.variables
        if variable.shape.rank == 1
        for value in [random.uniform(0.5, 1.5, variable.shape)]
    ]


def made(config, name="rev_net"):
    """Returns a network with scattered weights, in eager mode."""
    model = RevNet(config, name)
    scatter(model)
    return model


class Plain:
    """The network of a configuration, in TensorFlow's own layers and with its own gradients.

    Args:
        config: A `RevNetConfig`.
        weights: Dictionary of tensors by `place`.
        seeds: Dictionary of dropout's seeds by place of F or G; None: no dropout.
    """

    def __init__(self, config, weights, seeds=None):
        self.inputs = {}  # of batch norm in training, by its place
        self._config, self._weights, self._seeds = config, weights, seeds or {}

    def logits(self, images, training=True):
        config, weights = self._config, self._weights
        if config.data_format == "channels_first":
            images = tf.transpose(images, [0, 2, 3, 1])
        x = tf.nn.conv2d(images, weights["stem/kernel"], config.initial_stride, "SAME")
        x = tf.nn.relu(self._batch_norm(x, "stem/batch_norm", training))
        if config.initial_max_pool:
            x = tf.nn.max_pool2d(x, 3, 2, "SAME")
        x1, x2 = tf.split(x, 2, axis=3)
        for stage, (units, stride) in enumerate(zip(config.units, config.strides)):
            for unit in range(units):
                stride = stride if unit == 0 else 1
                at = f"stage_{stage}/unit_{unit}"
                missing = config.stage_widths[stage] // 2 - x1.shape[3]
                change = self.residual(x2, f"{at}/f", stride, training)
                y1 = shortcut(x1, stride, missing) + change
                y2 = shortcut(x2, stride, missing) + self.residual(y1, f"{at}/g", 1, training)
                x1, x2 = y1, y2
        x = self._batch_norm(tf.concat([x1, x2], 3), "head/batch_norm", training)
        pooled = tf.reduce_mean(tf.nn.relu(x), [1, 2])
        return tf.matmul(pooled, weights["head/dense/kernel"]) + weights["head/dense/bias"]

    def loss(self, images, labels):
        """Returns the mean cross-entropy and the penalties; labels are classes or probabilities."""
        logits = self.logits(images)
        if labels.dtype.is_integer:
            labels = tf.one_hot(labels, self._config.num_classes, dtype=logits.dtype)
        log_likelihood = tf.reduce_sum(labels * tf.nn.log_softmax(logits), 1)
        kernels = [value for name, value in self._weights.items() if name.endswith("kernel")]
        squares = tf.add_n([tf.reduce_sum(kernel**2) for kernel in kernels])
        return -tf.reduce_mean(log_likelihood) + self._config.weight_decay / 2 * squares

    def residual(self, x, at, stride, training):
        layers = 3 if self._config.bottleneck else 2
        for layer in range(layers):
            # Before the first convolution, only where a stage begins that is not the first one.
            if layer or ("/unit_0/" in at and not at.startswith("stage_0/")):
                x = tf.nn.relu(self._batch_norm(x, f"{at}/layer_{layer}", training))
            if training and layer == layers - 1 and at in self._seeds:
                rate = self._config.dropout_rate
                noise = tf.random.stateless_uniform(tf.shape(x), self._seeds[at])
                x *= tf.cast(noise >= rate, x.dtype) / (1 - rate)
            is_strided = layer == (1 if self._config.bottleneck else 0)
            kernel = self._weights[f"{at}/layer_{layer}/kernel"]
            x = tf.nn.conv2d(x, kernel, stride if is_strided else 1, "SAME")
        return x

    def _batch_norm(self, x, at, training):
        weights = self._weights
        if training:
            mean, variance = tf.nn.moments(x, [0, 1, 2])
            self.inputs[at] = x
        else:
            mean, variance = (weights[f"{at}/moving_{name}"] for name in ("mean", "variance"))
        gamma, beta = weights[f"{at}/gamma"], weights[f"{at}/beta"]
        epsilon = self._config.batch_norm_epsilon
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, epsilon)


def shortcut(half, stride, missing):
    if stride > 1:
        half = tf.nn.avg_pool2d(half, stride, stride, "SAME")
    return tf.pad(half, [[0, 0]] * 3 + [[missing // 2, missing - missing // 2]])


def dropout_seeds(saved_hidden):
    """Returns what `Plain` takes, from what a network saved."""
    return {
        f"stage_{s}/unit_{u}/{name}": kept["dropout_seed"]
        for s, stage in enumerate(saved_hidden.saved)
        for u, unit in enumerate(stage)
        for name, kept in zip("fg", unit.kept)
    }


def expected(model, images, labels, seeds=None):
    """Returns loss and gradients of the plain network with the weights of `model`, as arrays."""
    with eager():
        weights = {place(v): tf.constant(v.numpy(), tf.float64) for v in model.variables}
        trained = [weights[place(variable)] for variable in model.trainable_variables]
        with tf.GradientTape() as tape:
            tape.watch(trained)
            plain = Plain(model.config, weights, seeds)
            loss = plain.loss(tf.constant(images), tf.constant(labels))
        return loss.numpy(), [each.numpy() for each in tape.gradient(loss, trained)]


def error(values, others):
    """Returns the largest difference of two lists of arrays, each relative to its largest value."""
    assert len(values) == len(others)
    found = 0.0
    for value, other in zip(values, others):
        value, other = np.asarray(value, np.float64), np.asarray(other, np.float64)
        assert value.shape == other.shape
        found = max(found, np.abs(value - other).max() / max(np.abs(other).max(), 1e-9))
    return found
