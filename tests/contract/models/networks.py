"""Ways to make variables, layers and predictions."""

import tensorflow.compat.v1 as tf

import replicate
from contract.models.parts import (
    F64,
    GLOROT,
    L2,
    SLOPE,
    biased,
    get_variable,
    model_fn,
    reduce_rows,
    squared,
    two_layers,
)
from contract.models.row import COLLECTIONS, REUSE, Model


def by_tf_variable(features, params):
    def make(name, shape):
        return tf.Variable(tf.random.normal(shape, dtype=F64), name=name)

    return two_layers(features["x"], make)


def by_ref_variable(features, params):
    return two_layers(features["x"], lambda name, shape: biased(name, shape, use_resource=False))


def by_partitioned_variable(features, params):
    with tf.variable_scope("parts", partitioner=tf.fixed_size_partitioner(2)):
        return two_layers(features["x"], biased)


def by_array(features, params):
    w = tf.get_variable("w", initializer=SLOPE)  # Only its initialiser says that it is float64.
    return features["x"] @ w


def by_tf_layers(features, params, **kwargs):
    hidden = tf.layers.dense(features["x"], 3, tf.tanh, kernel_initializer=GLOROT(), **kwargs)
    return tf.layers.dense(hidden, 1, kernel_initializer=GLOROT(), **kwargs)


def by_keras(features, params, **kwargs):
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Dense(3, "tanh", kernel_initializer=GLOROT(), dtype="float64", **kwargs),
            layers.Dense(1, kernel_initializer=GLOROT(), dtype="float64", **kwargs),
        ]
    )
    predictions = model(features["x"])
    for penalty in model.losses:
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, penalty)
    return predictions


def by_shared_scope(features, params):
    """One network, called twice."""
    total = 0.0
    for sign in (1.0, -1.0):
        with tf.variable_scope("net", reuse=tf.AUTO_REUSE):
            total += sign * two_layers(tf.sin(sign + features["x"]), biased)
    return total


def by_regularized_variable(features, params):
    return two_layers(features["x"], lambda name, shape: biased(name, shape, regularizer=L2(0.1)))


def by_regularized_layers(features, params):
    return by_tf_layers(features, params, kernel_regularizer=L2(0.1))


def by_regularized_keras(features, params):
    return by_keras(features, params, kernel_regularizer=L2(0.1))


def by_embedding(features, params):
    table = get_variable("table", [6, 2])
    rows = tf.nn.embedding_lookup(table, features["ids"])  # Its gradient: `IndexedSlices`.
    return tf.reduce_sum(rows**2, [1, 2])[:, None] + features["x"] @ get_variable("w", [4, 1])


def by_first_tower(features, params):
    """Row 0 of a batch is the one that `first` acts on, and tower 0 is where it is."""
    ids = features["ids"][:, 0]
    first = get_variable("first", [], initializer=tf.ones_initializer())
    rows = tf.nn.embedding_lookup(get_variable("table", [6, 1]), ids)
    predictions = tf.sin(features["x"] @ get_variable("w", [4, 1])) + rows
    # After all initial values, whose seeds TensorFlow 1.15 takes from the number of operations: of
    # it, towers have a tensor where one device has a number.
    is_first_tower = tf.cast(tf.equal(replicate.tower_index(), 0), F64)
    return (
        predictions + is_first_tower * first * tf.one_hot(0, tf.shape(ids)[0], dtype=F64)[:, None]
    )


def by_cond(features, params):
    w, u = get_variable("w", [4, 1]), get_variable("u", [4, 1])
    even = tf.equal(tf.train.get_or_create_global_step() % 2, 0)
    return tf.cond(even, lambda: features["x"] @ w, lambda: tf.tanh(features["x"] @ u))


def by_while(features, params):
    w = get_variable("w", [4, 4])
    x = tf.while_loop(
        lambda i, x: i < 3, lambda i, x: (i + 1, tf.tanh(x @ w)), (tf.constant(0), features["x"])
    )[1]
    return x @ get_variable("v", [4, 1])


def by_cross_tower_normalisation(features, params):
    """Batch normalisation over the whole batch; the second moment's gradient crosses towers."""
    x = features["x"] @ get_variable("w", [4, 3])
    mean, square = replicate.cross_tower_mean([tf.reduce_mean(x, 0), tf.reduce_mean(x**2, 0)])
    return tf.tanh((x - mean) * tf.rsqrt(square - mean**2 + 1e-3)) @ get_variable("v", [3, 1])


def by_float32(features, params):
    x = tf.cast(features["x"], tf.float32)
    return two_layers(x, lambda name, shape: biased(name, shape, dtype=tf.float32))


def squared_and_penalties(predictions, features, labels, params):
    penalties = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    assert len(penalties) in (2, 3)  # As many as regularised variables.
    return squared(predictions, features, labels, params) + tf.add_n(penalties)


def total_loss(predictions, features, labels, params):
    tf.losses.add_loss(squared(predictions, features, labels, params))
    tf.losses.add_loss(reduce_rows(tf.abs(predictions), params))
    return tf.losses.get_total_loss()


def tf_loss(predictions, features, labels, params):
    return tf.losses.huber_loss(labels, predictions, reduction=params["reduction"])


ROWS = {
    "get_variable": Model(model_fn(), "way", estimator=("adam", 8)),
    "tf_variable": Model(model_fn(by_tf_variable), "way"),
    "ref_variable": Model(model_fn(by_ref_variable), "way"),
    "partitioned_variable": Model(
        model_fn(by_partitioned_variable),
        "way",
        not_in_replicas="a `MirroredStrategy` initialises the parts of each replica apart",
    ),
    "array_initializer": Model(model_fn(by_array), "way", not_in_replicas=REUSE),
    "unnamed_tf_layers": Model(model_fn(by_tf_layers), "way thorough", estimator=("momentum", 2)),
    "keras_sequential": Model(model_fn(by_keras), "way", estimator=("adam", 3)),
    "shared_scope": Model(model_fn(by_shared_scope), "way"),
    "regularized_get_variable": Model(
        model_fn(by_regularized_variable, squared_and_penalties), "way"
    ),
    "regularized_tf_layers": Model(
        model_fn(by_regularized_layers, squared_and_penalties),
        "way",
        estimator=("sgd", 3),
        not_in_replicas=COLLECTIONS,
    ),
    "regularized_keras": Model(
        model_fn(by_regularized_keras, squared_and_penalties), "way", not_in_replicas=COLLECTIONS
    ),
    "get_total_loss": Model(
        model_fn(by_regularized_variable, total_loss), "way", not_in_replicas=COLLECTIONS
    ),
    "embedding": Model(model_fn(by_embedding), "way", estimator=("adam", 3)),
    "first_tower": Model(model_fn(by_first_tower), "way thorough", estimator=("momentum", 8)),
    "cond": Model(model_fn(by_cond), "way"),
    "while_loop": Model(model_fn(by_while), "way"),
    "cross_tower_normalisation": Model(
        model_fn(by_cross_tower_normalisation), "way thorough", estimator=("momentum", 8)
    ),
    "float32": Model(model_fn(by_float32, tf_loss), "way", rtol=1e-5),
}
