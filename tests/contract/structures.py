"""Structures of features and labels, and a model of all that is in them."""

import collections
import functools

import numpy as np
import tensorflow.compat.v1 as tf

from contract import models

Fields = collections.namedtuple("Fields", ["first", "second"])


def as_sparse(x):
    return tf.sparse.from_dense(tf.where(x > 0, x, tf.zeros_like(x)))


def as_ragged(x):
    """A ragged tensor in which row i has 0 to 4 values."""
    counts = tf.cast(tf.reduce_sum(tf.cast(x > 0, tf.int64), axis=1), tf.int64)
    return tf.RaggedTensor.from_tensor(x, lengths=counts)


STRUCTURES = {
    "tensor": lambda f: f["x"],
    "dict": lambda f: {"a": f["x"], "b": f["ids"]},
    "list": lambda f: [f["x"], f["ids"]],
    "tuple": lambda f: (f["x"], f["ids"]),
    "namedtuple": lambda f: Fields(f["x"], f["weight"]),
    "nested": lambda f: {"a": [f["x"], (f["ids"],)], "b": {"c": Fields(f["weight"], f["x"])}},
    "none_leaves": lambda f: {"a": f["x"], "b": None, "c": [None, f["ids"]]},
    "scalars": lambda f: {"a": f["x"], "rate": tf.constant(0.5), "number": 2.0, "name": "text"},
    "array": lambda f: {"a": f["x"], "scalar_array": np.float64(3.0)},
    "sparse": lambda f: {"a": f["x"], "b": as_sparse(f["x"])},
    "ragged": lambda f: {"a": f["x"], "b": as_ragged(f["x"])},
    "strings": lambda f: {"a": f["x"], "b": tf.as_string(f["ids"])},
}


def per_row(leaf):
    """Returns one number per row that depends on all of the leaf's values, or one for all rows."""
    if leaf is None or isinstance(leaf, str):
        return 0.0
    if isinstance(leaf, tf.SparseTensor):
        return tf.sparse.reduce_sum(tf.cast(leaf, tf.float64), axis=1)
    if isinstance(leaf, tf.RaggedTensor):
        return tf.reduce_sum(tf.cast(leaf, tf.float64), axis=1)
    leaf = tf.convert_to_tensor(leaf)
    leaf = tf.string_to_number(leaf) if leaf.dtype == tf.string else leaf
    leaf = tf.cast(leaf, tf.float64)
    return tf.reduce_sum(leaf, axis=1) if leaf.shape.rank else leaf


def model_fn(features, labels, mode, params):
    # A reference is at times read when it is updated already, by one device.
    w = models.get_variable("w", [], initializer=tf.ones_initializer(), use_resource=True)
    total = functools.reduce(
        lambda total, leaf: tf.sin(w * total) + per_row(leaf), tf.nest.flatten(features), 0.0
    )
    for leaf in tf.nest.flatten(labels):
        total -= 0.0 if leaf is None else tf.reduce_sum(tf.cast(leaf, tf.float64), axis=1)
    loss = models.reduce_rows(w * total**2, params)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=models.by_minimize(loss, params))


LABELS = {
    "labels": lambda labels: labels,
    "no_labels": lambda labels: None,
    "nested_labels": lambda labels: {"y": labels, "pair": (labels**2, None)},
}


def restructured(model_fn, structure, labels):
    """Hands `model_fn` features and labels in another structure."""

    def outer(features, given, mode, params):
        return model_fn(STRUCTURES[structure](features), LABELS[labels](given), mode, params)

    return outer
