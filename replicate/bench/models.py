"""Models and data of the benchmarks: the same mathematics for every engine.

B is the global batch in rows, N the number of towers; a *share* is the B / N rows of one tower.
Each layer has a fixed seed, so that all engines start from equal weights however many random ops
they make before. Layers have names, since without them `tf.contrib.estimator.replicate_model_fn`
finds no variables for its second tower.
"""

from __future__ import annotations

import itertools
from typing import Any, Callable, NamedTuple, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from replicate.compat import estimator

GLOBAL_BATCHES = 8  # distinct batches held in memory, then repeated
SEED = 7
DTYPES = ("float32", "float16", "bfloat16")
# Factor of losses while gradients are computed, since float16 loses small gradients.
_LOSS_SCALES = {"float16": 128.0}


class Case(NamedTuple):
    """A model and how it is trained; B is `global_batch`, N is `towers`."""

    # "wide" and "mlp" have dense layers, "cnn" convolutions with batch norm, "resnet50" the layers
    # of ResNet-50.
    model: str
    towers: int  # N; the engine `single` trains on one device for any N
    layers: int  # without the layer that computes the logits
    width: int  # units or channels per layer
    global_batch: int = 256  # B rows, B / N on each tower
    intra_op_threads: int = 0  # threads inside one kernel; 0 leaves the choice to TensorFlow
    dtype: str = "float32"  # in which layers compute; variables and losses are float32
    classes: int = 10
    optimizer: str = "Adam"  # a key of `OPTIMIZERS`


def _adam() -> tf.train.Optimizer:
    # The usual epsilon, 1e-8, makes Adam's step independent of the gradient's scale: a gradient N
    # times too large would give the same losses. With this one, the first losses differ.
    return tf.train.AdamOptimizer(learning_rate=1e-2, epsilon=1e-2)


def _momentum() -> tf.train.Optimizer:
    return tf.train.MomentumOptimizer(learning_rate=1e-2, momentum=0.9)


def _sgd() -> tf.train.Optimizer:
    return tf.train.GradientDescentOptimizer(learning_rate=1e-2)


# By name: a function of no arguments that returns the `tf.train.Optimizer`.
OPTIMIZERS = {"Adam": _adam, "Momentum": _momentum, "SGD": _sgd}

# The models as they are measured, on one tower.
CASES = {
    "cnn": Case("cnn", towers=1, layers=3, width=16),
    "mlp": Case("mlp", towers=1, layers=3, width=512),
    "wide": Case("wide", towers=1, layers=61, width=64),
    "resnet50": Case(
        "resnet50",
        towers=1,
        layers=49,
        width=64,
        global_batch=16,
        classes=1000,
        optimizer="Momentum",
    ),
}
# Batch norm uses statistics of each tower's rows, so losses differ from those of one device.
DEVICES_DIFFER = ("cnn", "resnet50")
_UNITS = (3, 4, 6, 3)  # Units of three layers each, in the stages of ResNet-50.


def seeded_initializer(seed: int) -> Any:
    """Returns He's initialiser with a different seed for each layer's number."""
    # He's scale preserves the signal through 61 ReLU layers. With Glorot's it vanishes, and losses
    # would agree for any gradients.
    return tf.variance_scaling_initializer(scale=2.0, mode="fan_in", seed=SEED + seed)


def _dense_layers(net: tf.Tensor, case: Case) -> tf.Tensor:
    """Applies `case.layers` ReLU layers of `case.width` units to `net`, float32 [rows, inputs]."""
    for i in range(case.layers):
        net = tf.layers.dense(
            net,
            case.width,
            activation=tf.nn.relu,
            kernel_initializer=seeded_initializer(i),
            name=f"dense_{i}",
        )
    return net


def _convolutions(net: tf.Tensor, case: Case) -> tf.Tensor:
    """Applies `case.layers` blocks of 3x3 convolution and batch norm, then averages each channel.

    Args:
        net: Images, float32 [rows, height, width, channels].
        case: The `Case`; `case.width` is the number of channels of each convolution.

    Returns:
        float32 [rows, case.width].
    """
    for i in range(case.layers):
        net = tf.layers.conv2d(
            net,
            case.width,
            3,
            padding="same",
            use_bias=False,
            kernel_initializer=seeded_initializer(i),
            name=f"conv_{i}",
        )
        net = tf.nn.relu(tf.layers.batch_normalization(net, training=True, name=f"norm_{i}"))
    return tf.reduce_mean(net, axis=[1, 2])


def convolved(net: tf.Tensor, channels: int, size: int, stride: int, i: int) -> tf.Tensor:
    """Applies the `i`th convolution of a network, without a bias, with its seeded initialiser."""
    return tf.layers.conv2d(
        net,
        channels,
        size,
        stride,
        padding="same",
        use_bias=False,
        kernel_initializer=seeded_initializer(i),
        name=f"conv_{i}",
    )


def _residual_units(net: tf.Tensor, case: Case) -> tf.Tensor:
    """Applies a convolution and units of three with a shortcut, then averages each channel.

    49 layers of width 64 are those of ResNet-50; fewer leave out its last units.

    Args:
        net: Images, float32 [rows, height, width, channels].
        case: The `Case`; `case.width` is the number of channels of the first convolution.

    Returns:
        float32 [rows, channels].
    """
    seeds = itertools.count()

    def convolution(
        net: tf.Tensor, channels: int, size: int, stride: int = 1, scale: float = 1.0
    ) -> tf.Tensor:
        i = next(seeds)
        return tf.layers.batch_normalization(
            convolved(net, channels, size, stride, i),
            training=True,
            gamma_initializer=tf.constant_initializer(scale),
            name=f"norm_{i}",
        )

    def unit(net: tf.Tensor, channels: int, stride: int, projects: bool) -> tf.Tensor:
        inner = tf.nn.relu(convolution(net, channels, 1))
        inner = tf.nn.relu(convolution(inner, channels, 3, stride))
        # With 1, engines' rounding grows to 1e-2 of the loss within five steps.
        inner = convolution(inner, 4 * channels, 1, scale=0.0)
        return tf.nn.relu(inner + (convolution(net, 4 * channels, 1, stride) if projects else net))

    net = tf.nn.relu(convolution(net, case.width, 7, 2))
    net = tf.layers.max_pooling2d(net, 3, 2, padding="same")
    units = [(stage, position) for stage, size in enumerate(_UNITS) for position in range(size)]
    for stage, position in units[: (case.layers + 1) // 3]:
        is_first = position == 0
        net = unit(net, case.width << stage, 2 if stage and is_first else 1, is_first)
    return tf.reduce_mean(net, axis=[1, 2])


def _float32_variables(
    getter: Callable[..., Any], name: str, *args: Any, dtype: tf.DType | None = None, **kwargs: Any
) -> Any:
    """Custom getter for mixed precision: variables are float32, and each read casts them."""
    if dtype not in (tf.float16, tf.bfloat16):
        return getter(name, *args, dtype=dtype, **kwargs)
    return tf.cast(getter(name, *args, dtype=tf.float32, **kwargs), dtype)


class Model(NamedTuple):
    """The data and the loss of a model.

    Attributes:
        rows: Function of a `Case`, a number of rows and a `np.random.RandomState`. It returns
            features and labels, nested structures of arrays with that many rows on axis 0.
        loss: Function of features, labels and the `Case`. It returns the mean over the given rows,
            a float32 scalar.
    """

    rows: Any
    loss: Any


def classifier(row_shape: Sequence[int], apply_layers: Callable[..., tf.Tensor]) -> Model:
    """Returns the `Model` of a network that classifies arrays.

    Args:
        row_shape: The shape of one row of features, which are float32.
        apply_layers: Function of features and a `Case`: the layers between features and logits.
    """

    def rows(case: Case, number: int, rng: np.random.RandomState) -> tuple[Any, Any]:
        features = rng.standard_normal((number, *row_shape)).astype(np.float32)
        # Labels depend on the features, so that a falling loss shows that the engine trains.
        teacher = rng.standard_normal((int(np.prod(row_shape)), case.classes))
        return features, np.argmax(features.reshape(number, -1).dot(teacher), 1).astype(np.int32)

    def loss(features: tf.Tensor, labels: tf.Tensor, case: Case) -> tf.Tensor:
        logits = tf.layers.dense(
            apply_layers(tf.cast(features, case.dtype), case),
            case.classes,
            kernel_initializer=seeded_initializer(case.layers),
            name="logits",
        )
        return tf.losses.sparse_softmax_cross_entropy(labels, tf.cast(logits, tf.float32))

    return Model(rows, loss)


# Add a model here.
MODELS = {
    "wide": classifier((64,), _dense_layers),
    "cnn": classifier((28, 28, 1), _convolutions),
    "mlp": classifier((784,), _dense_layers),
    "resnet50": classifier((64, 64, 3), _residual_units),
}


def make_model_fn(
    case: Case, make_optimizer: Callable[[], tf.train.Optimizer]
) -> Callable[..., Any]:
    """Returns the TRAIN `model_fn` of `case`, the same for every engine.

    Args:
        case: The `Case` to build.
        make_optimizer: Function of no arguments that returns the `tf.train.Optimizer` to use.

    Returns:
        A function of `features` and `labels`, as `Model.rows` returns them, and `mode`, whose loss
        is the mean over the given rows.
    """
    scale = _LOSS_SCALES.get(case.dtype)

    def model_fn(features: tf.Tensor, labels: tf.Tensor, mode: str) -> Any:
        with tf.variable_scope("", custom_getter=_float32_variables):
            loss = MODELS[case.model].loss(features, labels, case)
        step, optimizer = tf.train.get_or_create_global_step(), make_optimizer()
        # Batch norm's moving statistics; empty for the other models.
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            if scale is None:
                train_op = optimizer.minimize(loss, step)
            else:  # By hand, because engines have different loss scales.
                pairs = optimizer.compute_gradients(loss * scale)
                train_op = optimizer.apply_gradients([(g / scale, v) for g, v in pairs], step)
        return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


def make_input_fn(case: Case, shares: int) -> Callable[[], tf.data.Dataset]:
    """Returns an `input_fn` whose elements hold B / `shares` rows each, always in the same order.

    NumPy splits the rows into elements. `batch(drop_remainder=True)` gives the same static shapes,
    but costs a dataset call per row, a large part of these short steps.

    Args:
        case: The `Case` to feed.
        shares: 1 if the engine takes the global batch from the dataset, N if each of N towers takes
            a separate element (tf.distribute).

    Returns:
        A function of no arguments that returns an endless `tf.data.Dataset` of `(features,
        labels)`, as `make_model_fn` describes them.

    Raises:
        ValueError: If `shares` does not divide B.
    """
    if case.global_batch % shares:
        raise ValueError(
            f"`global_batch` must be a multiple of {shares}, the elements that tf.distribute takes "
            f"per step, but is {case.global_batch}. Change `global_batch` or `towers` of the case."
        )
    elements = GLOBAL_BATCHES * shares, case.global_batch // shares
    number = GLOBAL_BATCHES * case.global_batch
    given = MODELS[case.model].rows(case, number, np.random.RandomState(SEED))
    arrays = tf.nest.map_structure(lambda array: array.reshape(elements + array.shape[1:]), given)

    def input_fn() -> tf.data.Dataset:
        dataset = tf.data.Dataset.from_tensor_slices(arrays).repeat()
        # One stage of prefetching each: the iterators of tf.distribute already have one.
        return dataset.prefetch(2) if shares == 1 else dataset

    return input_fn
