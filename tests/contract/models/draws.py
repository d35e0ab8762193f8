"""Ways to draw random numbers: what each row of a batch draws is what a model predicts."""

import tensorflow.compat.v1 as tf

from contract.models.parts import F64, step


def uniform(n, seed):
    return tf.random.uniform([n, 1], dtype=F64, seed=seed)


def uniform_in_loop(n, seed):
    """Rounds of TensorFlow 1's loops overlap, and draw out of turn, unless told not to."""

    def body(i, x):
        return i + 1, tf.concat([x[:, 1:], uniform(n, seed)], 1)

    return tf.while_loop(
        lambda i, x: i < 3,
        body,
        (tf.constant(0), tf.zeros(tf.stack([n, 3]), F64)),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 3])),
        parallel_iterations=1,
    )[1]


def uniform_in_cond(n, seed):
    return tf.cond(tf.equal(step(), -1), lambda: tf.zeros([n, 1], F64), lambda: uniform(n, seed))


def uniform_in_function(n, seed):
    return tf.function(lambda count: uniform(count, seed))(n)


def dropout(n, seed):
    return tf.nn.dropout(tf.ones(tf.stack([n, 8]), F64), rate=0.5, seed=seed)


def layer_dropout(n, seed):
    return tf.layers.dropout(tf.ones(tf.stack([n, 8]), F64), 0.5, training=True, seed=seed)


def shuffled(n, seed):
    return tf.random.shuffle(tf.range(100), seed=seed)[None, :] + tf.zeros([n, 1], tf.int32)


def multinomial(n, seed):
    return tf.random.categorical(tf.zeros([n, 1000]), 3, seed=seed)


RANDOM = {
    "uniform": uniform,
    "while_loop": uniform_in_loop,
    "cond": uniform_in_cond,
    "function": uniform_in_function,
    "dropout": dropout,
    "tf.layers.dropout": layer_dropout,
    "shuffle": shuffled,
    "categorical": multinomial,
}


def drawing(draw, seed=5):
    """Returns a `model_fn` that predicts what each row of its batch draws."""

    def model_fn(features, labels, mode, params):
        drawn = draw(tf.shape(features["x"])[0], seed)
        return tf.estimator.EstimatorSpec(mode, predictions={"drawn": drawn})

    return model_fn
