"""Models that keep state of their own: counters, averages, tables, queues, Python's."""

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.ops import lookup_ops  # TensorFlow 1.15 has no public name for them.
from tensorflow.python.training import moving_averages

import replicate
from contract.harness import DYNAMIC
from contract.models.parts import (
    F64,
    get_matrix,
    get_variable,
    linear,
    mean_square,
    optimizer,
    reduce_rows,
    spec,
    step,
    trained,
    untrained,
)
from contract.models.row import Model


def counters(features, labels, mode, params):
    """Counts under control dependencies, in references, integers and resources."""
    calls = untrained("calls", [], 0, tf.int64)
    old = untrained("old", [], 0.0, use_resource=False)
    with tf.control_dependencies([tf.assign_add(calls, 1), tf.assign_add(old, 1.0)]):
        predictions = tf.identity(linear(features))
    return trained(mean_square(predictions, labels, params), params, mode)


def counter_of_value(features, labels, mode, params):
    """Uses in the model the value that an update returns: the number of the step, from 1."""
    calls = untrained("calls", [])
    number = tf.convert_to_tensor(calls.assign_add(1.0))
    return trained(mean_square(linear(features) * number, labels, params), params, mode)


def epsilon_decay(features, labels, mode, params):
    epsilon = untrained("epsilon", [], 1.0)
    decayed = tf.maximum(epsilon * 0.5, 0.2)
    predictions = linear(features) * (1.0 - epsilon) + epsilon * 0.3
    with tf.control_dependencies([predictions]):  # Which may read it later otherwise.
        decay = epsilon.assign(decayed)
    return trained(mean_square(predictions, labels, params), params, mode, [decay])


def spectral_norm(under_dependencies):
    """Power iteration, its vector assigned under control dependencies or in UPDATE_OPS."""

    def model_fn(features, labels, mode, params):
        w = get_variable("w", [4, 3])
        u = tf.get_variable("u", [1, 3], F64, tf.truncated_normal_initializer(), trainable=False)
        v_hat = tf.math.l2_normalize(tf.matmul(u, w, transpose_b=True))
        u_hat = tf.stop_gradient(tf.math.l2_normalize(tf.matmul(v_hat, w)))
        v_hat = tf.stop_gradient(v_hat)
        sigma = tf.matmul(tf.matmul(v_hat, w), u_hat, transpose_b=True)
        updates = []
        if under_dependencies:
            with tf.control_dependencies([u.assign(u_hat)]):
                normed = tf.reshape(w / sigma, [4, 3])
        else:
            normed = w / sigma
            updates = [u.assign(u_hat)]
        predictions = tf.tanh(features["x"] @ normed) @ get_matrix("v", [3, 1])
        return trained(mean_square(predictions, labels, params), params, mode, updates)

    return model_fn


def debiased_average_of_weights(features, labels, mode, params):
    """A moving average of tensors made of weights, and of variables, with zero debiasing."""
    loss = mean_square(linear(features), labels, params)
    average = tf.train.ExponentialMovingAverage(0.9, zero_debias=True)
    (w,) = tf.trainable_variables()
    norm = tf.norm(w, name="norm")
    made = trained(loss, params, mode, [average.apply([norm])])
    tf.summary.scalar("norm", average.average(norm))
    return made


def average_of_loss(features, labels, mode, params):
    loss = mean_square(linear(features), labels, params)
    average = tf.train.ExponentialMovingAverage(0.9, name="loss", zero_debias=False)
    with tf.control_dependencies([average.apply([loss])]):
        total = tf.identity(loss)
    tf.summary.scalar("loss (average)", average.average(loss))
    return trained(total, params, mode)


def batch_norm(update):
    """Returns a batch norm by hand; its moving mean is that of the batch, by `update`."""

    def model_fn(features, labels, mode, params):
        hidden = features["x"] @ get_variable("w", [4, 3])
        pop_mean = untrained("pop_mean", [3])
        with tf.control_dependencies([update(pop_mean, hidden)]):
            predictions = tf.tanh(hidden - pop_mean.read_value()) @ get_matrix("v", [3, 1])
        return trained(mean_square(predictions, labels, params), params, mode)

    return model_fn


def by_moments(pop_mean, hidden):
    batch_mean, _ = tf.nn.moments(tf.stop_gradient(hidden), [0])
    return tf.assign(pop_mean, pop_mean * 0.9 + batch_mean * 0.1)


def by_helper(zero_debias):
    """Returns the update of TensorFlow's own layers, which subtracts."""

    def update(pop_mean, hidden):
        return moving_averages.assign_moving_average(
            pop_mean, tf.reduce_mean(hidden, 0), 0.9, zero_debias=zero_debias
        )

    return update


def statistics_of_rows(features, labels, mode, params):
    """Counts, sums and means of rows, as normalisers of observations keep them."""
    count, total, square = (untrained(name, []) for name in ("count", "total", "square"))
    x = features["x"]
    updates = [
        count.assign_add(tf.cast(tf.shape(x)[0], F64)),
        total.assign_add(tf.reduce_sum(x)),
        square.assign(square + tf.reduce_sum(x * x)),
    ]
    return trained(mean_square(linear(features), labels, params), params, mode, updates)


def row_counts(features, labels, mode, params):
    """Counts how often each id was seen, in one vector: a scatter, and a sum of one-hots."""
    seen, also = untrained("seen", [6]), untrained("also", [6])
    ids = tf.reshape(features["ids"], [-1])
    updates = [
        tf.scatter_add(seen, ids, tf.ones_like(ids, F64)),
        also.assign_add(tf.reduce_sum(tf.one_hot(features["ids"][:, 0], 6, dtype=F64), 0)),
    ]
    return trained(mean_square(linear(features), labels, params), params, mode, updates)


def center_loss(features, labels, mode, params):
    """Centers of classes, moved by `scatter_sub` towards the rows of their class."""
    hidden = features["x"] @ get_variable("w", [4, 2])
    centers = untrained("centers", [6, 2])
    ids = features["ids"][:, 0]
    batch = tf.gather(centers, ids)
    loss = reduce_rows(tf.reduce_sum((hidden - batch) ** 2, 1), params)
    update = tf.scatter_sub(centers, ids, 0.1 * (batch - hidden))
    return trained(loss, params, mode, [update])


def row_free_py_func(features, labels, mode, params):
    """A schedule in Python, asked once per step: it would run ahead if towers asked, too."""
    calls = []

    def rate():
        calls.append(1)
        return np.float64(len(calls))

    noise = tf.py_func(rate, [], F64, stateful=True)
    noise.set_shape([])
    return trained(mean_square(linear(features) * noise, labels, params), params, mode)


class Cached:
    """Layers kept by graph in a dictionary of the user's, which is asked twice."""

    def __init__(self):
        self._layers = {}

    def __call__(self, x):
        graph = tf.get_default_graph()
        if graph not in self._layers:
            self._layers[graph] = tf.layers.Dense(
                1, kernel_initializer=tf.glorot_uniform_initializer(), dtype=F64
            )
        return self._layers[graph](x)


def cached_layers(features, labels, mode, params):
    layer = Cached()
    predictions = layer(features["x"]) + layer(tf.sin(features["x"]))
    return trained(mean_square(predictions, labels, params), params, mode)


def queue_of_numbers(features, labels, mode, params):
    """A queue that no row enters gives one number per step."""
    queue = tf.FIFOQueue(100, [F64], [[]], name="numbers")
    runner = tf.train.QueueRunner(queue, [queue.enqueue_many([np.arange(1.0, 50.0)])])
    del runner
    fill = queue.enqueue_many([np.arange(1.0, 50.0)])
    loss = mean_square(linear(features) * queue.dequeue(), labels, params)
    hook = tf.train.SessionRunHook()
    hook.after_create_session = lambda session, coord: session.run(fill)
    return trained(loss, params, mode, training_hooks=[hook])


def table(make, by_rows):
    """Counts in a mutable table, by the rows' ids or by the global step."""

    def model_fn(features, labels, mode, params):
        counts = make()
        if by_rows:
            keys = tf.cast(features["ids"][:, 0], tf.int64)
        else:
            keys = tf.range(tf.constant(2, tf.int64))
        before = counts.lookup(keys)
        put = counts.insert(keys, (before + 1.0) * (1.0 if by_rows else 2.0))
        seen = untrained("seen", [7])
        with tf.control_dependencies([put]):
            everything = counts.lookup(tf.range(tf.constant(7, tf.int64)))
        loss = mean_square(linear(features), labels, params)
        # Added up after the step: what all of the table is.
        with tf.control_dependencies([optimizer(params).minimize(loss, step())]):
            kept = seen.assign(everything)
        return spec(mode, loss, tf.group(kept))

    return model_fn


def dense_table():
    return tf.lookup.experimental.DenseHashTable(
        tf.int64, F64, tf.constant(0.0, F64), empty_key=-1, deleted_key=-2
    )


def mutable_table():
    return lookup_ops.MutableHashTable(tf.int64, F64, tf.constant(0.0, F64))


def summed_baseline(features, labels, mode, params):
    """A baseline of `cross_tower_mean` and `cross_tower_sum`, without a merge function."""
    mean, rows = untrained("mean", []), untrained("rows", [])
    x = features["x"]
    updates = [
        mean.assign(0.9 * mean + 0.1 * replicate.cross_tower_mean(tf.reduce_mean(x))),
        rows.assign_add(tf.cast(replicate.cross_tower_sum(tf.shape(x)[0]), F64)),
    ]
    return trained(mean_square(linear(features), labels, params), params, mode, updates)


def last(features, labels, mode, params):
    """Keeps a row of the batch, and the product of one of its features."""
    row, product = untrained("row", [4]), untrained("product", [])
    loss = mean_square(linear(features), labels, params)
    x = features["x"]
    updates = [row.assign(x[-1]), product.assign(tf.reduce_prod(x[:, 0]))]
    return trained(loss, params, mode, updates)


def largest(features, labels, mode, params):
    """Keeps the largest value so far, and how far apart the extremes of a batch are."""
    peak, spread = untrained("peak", [4]), untrained("spread", [])
    loss = mean_square(linear(features), labels, params)
    x = features["x"]
    apart = tf.sqrt(tf.reduce_max(x) - tf.reduce_min(x))
    updates = [
        peak.assign(tf.maximum(peak, tf.reduce_max(x, axis=0))),
        spread.assign(0.9 * spread + 0.1 * apart),
    ]
    return trained(loss, params, mode, updates)


STATE = {
    "counters": counters,
    "counter_of_value": counter_of_value,
    "epsilon_decay": epsilon_decay,
    "spectral_norm_dependencies": spectral_norm(True),
    "spectral_norm_update_ops": spectral_norm(False),
    "debiased_average_of_weights": debiased_average_of_weights,
    "average_of_loss": average_of_loss,
    "batch_norm_moments": batch_norm(by_moments),
    "batch_norm_helper": batch_norm(by_helper(zero_debias=False)),
    "batch_norm_debiased": batch_norm(by_helper(zero_debias=True)),
    "statistics_of_rows": statistics_of_rows,
    "row_counts": row_counts,
    "center_loss": center_loss,
    "row_free_py_func": row_free_py_func,
    "cached_layers": cached_layers,
    "queue_of_numbers": queue_of_numbers,
    "summed_baseline": summed_baseline,
    "largest": largest,
    "last": last,
    "dense_table_of_rows": table(dense_table, True),
    "mutable_table_of_steps": table(mutable_table, False),
}
ROWS = {name: Model(fn, "state", batches=DYNAMIC) for name, fn in STATE.items()}
