"""The batches of these tests, and what all of their models are made of."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

import selection

SEED = 7
F64 = tf.float64
GLOROT = tf.glorot_uniform_initializer


class Batches(NamedTuple):
    """An epoch of batches: `total` rows, `size` of them at a time.

    Attributes:
        total: The rows of all batches.
        size: The rows of a batch, of the last one the rest.
        static: Whether the graph knows the batch size.
        optimizer: Function without arguments that makes the optimizer.
        data: Function of `total` that makes the `tf.data.Dataset` of rows; None: of `rows_of`.
        shaped: Function of features and labels that a batch goes through, if any.
    """

    total: int
    size: int
    static: bool
    optimizer: Any
    data: Any = None
    shaped: Any = None


def _sgd():
    return tf.train.GradientDescentOptimizer(0.05)


def _momentum():
    return tf.train.MomentumOptimizer(0.02, 0.9)


# Over 2 and 3 towers, 11 rows make shards of 6+5 and 4+4+3; 1 row leaves towers without rows.
STATIC = Batches(33, 11, True, _sgd)
UNKNOWN = Batches(23, 11, False, _momentum)
# Of a size that can be halved; 5+5 and 4+3+3.
TEN = Batches(20, 10, True, _momentum)
CASES = [
    selection.cell(2, STATIC, id="2-static", is_quick=True),
    selection.cell(3, UNKNOWN, id="3-unknown", is_quick=True),
    selection.cell(3, STATIC, id="3-static", is_quick=False),
    selection.cell(2, UNKNOWN, id="2-unknown", is_quick=False),
]
UNKNOWN_FIRST = [
    selection.cell(3, UNKNOWN, id="3-unknown", is_quick=True),
    selection.cell(2, STATIC, id="2-static", is_quick=False),
]


class Batch(NamedTuple):
    """A batch of n rows, by which losses are made.

    Attributes:
        x: [n, 4] float64.
        ids: [n, 2] int32, of six.
        weight: [n, 1] float64, zeros and ones.
        steps: [n, 5, 3] float64.
        image: [n, 6, 6, 2] float64.
        y: [n, 1] float64, of [-1, 1].
        k: [n] int32, of three classes.
    """

    x: Any
    ids: Any
    weight: Any
    steps: Any
    image: Any
    y: Any
    k: Any


def rows_of(total):
    """Returns features and labels of `total` rows that differ from one another."""
    random = np.random.RandomState(SEED)
    x = random.normal(size=(total, 4))
    features = {
        "x": x,
        "ids": random.randint(0, 6, size=(total, 2)).astype(np.int32),
        "weight": (random.uniform(size=(total, 1)) > 0.3).astype(np.float64),
        "steps": random.normal(size=(total, 5, 3)),
        "image": random.normal(size=(total, 6, 6, 2)),
    }
    labels = {
        "y": np.sin(x.sum(axis=1, keepdims=True)),
        "k": random.randint(0, 3, size=total).astype(np.int32),
    }
    return features, labels


def dataset(batches):
    """Returns the `tf.data.Dataset` of `batches`; an `input_fn` when bound to its argument."""
    if batches.data is None:
        data = tf.data.Dataset.from_tensor_slices(rows_of(batches.total))
    else:
        data = batches.data(batches.total)
    data = data.batch(batches.size, drop_remainder=batches.static)
    return data if batches.shaped is None else data.map(batches.shaped)


def get_variable(name, shape, **kwargs):
    """A float64 variable; its initialiser follows the graph's seed."""
    initializer = GLOROT() if len(shape) > 1 else tf.zeros_initializer()
    return tf.get_variable(name, shape, F64, kwargs.pop("initializer", initializer), **kwargs)


def state(name, shape, value=0.0):
    """A variable that no optimizer trains."""
    return get_variable(
        name, shape, initializer=tf.constant_initializer(value, F64), trainable=False
    )


def hidden(x, units=3, name="net"):
    """Two dense layers, [n, m] to [n, units]."""
    with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
        w, b = get_variable("w", [x.shape[1], 5]), get_variable("b", [5])
        return tf.tanh(x @ w + b) @ get_variable("v", [5, units])


def one_hot(k):
    return tf.one_hot(k, 3, dtype=F64)
