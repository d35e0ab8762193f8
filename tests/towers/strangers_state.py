"""Model functions that keep state of their own: counters, averages, tables, queues, Python's.

Each takes what those of `contract/models.py` do, and is trained on one device as it is.
"""

import random

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.training import moving_averages

from contract.models import F64, get_variable, optimizer, reduce_rows, step
from towers.strangers_gradients import get_matrix, spec


def untrained(name, shape, value=0.0, dtype=F64, **kwargs):
    return tf.get_variable(
        name, shape, dtype, tf.constant_initializer(value), trainable=False, **kwargs
    )


def trained(loss, params, mode, updates=(), **kwargs):
    """Returns the spec of an optimizer that waits for updates, as layers' documentation says."""
    tf.get_collection_ref(tf.GraphKeys.UPDATE_OPS).extend(updates)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        return spec(mode, loss, optimizer(params).minimize(loss, step()), **kwargs)


def linear(features):
    return tf.tanh(features["x"] @ get_matrix("w", [4, 1]))


def mean_square(predictions, labels, params):
    return reduce_rows((predictions - labels) ** 2, params)


def counters(features, labels, mode, params):
    """Counts under control dependencies, in references, integers and resources."""
    calls = untrained("calls", [], 0, tf.int64)
    old = untrained("old", [], 0.0, use_resource=False)
    with tf.control_dependencies([tf.assign_add(calls, 1), tf.assign_add(old, 1.0)]):
        predictions = tf.identity(linear(features))
    return trained(mean_square(predictions, labels, params), params, mode)


def counter_of_value(features, labels, mode, params):
    """What an update returns is used in the model: the number of the step, from 1."""
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


def average_of_weights(features, labels, mode, params):
    average = tf.train.ExponentialMovingAverage(0.9, zero_debias=False)
    loss = mean_square(linear(features), labels, params)
    return trained(loss, params, mode, [average.apply(tf.trainable_variables())])


def debiased_average_of_weights(features, labels, mode, params):
    """A moving average of tensors made of weights, and of variables, with zero debiasing."""
    loss = mean_square(linear(features), labels, params)
    average = tf.train.ExponentialMovingAverage(0.9, zero_debias=True)
    (w,) = tf.trainable_variables()
    norm = tf.norm(w, name="norm")
    made = trained(loss, params, mode, [average.apply([norm])])
    tf.summary.scalar("norm", average.average(norm))
    return made


def assigned_moving_average(features, labels, mode, params):
    average = untrained("average", [4, 1])
    loss = mean_square(linear(features), labels, params)
    (w,) = tf.trainable_variables()
    update = moving_averages.assign_moving_average(average, w, 0.9, zero_debias=True)
    return trained(loss, params, mode, [update])


def average_of_loss(zero_debias):
    def model_fn(features, labels, mode, params):
        loss = mean_square(linear(features), labels, params)
        average = tf.train.ExponentialMovingAverage(0.9, name="loss", zero_debias=zero_debias)
        with tf.control_dependencies([average.apply([loss])]):
            total = tf.identity(loss)
        tf.summary.scalar("loss (average)", average.average(loss))
        return trained(total, params, mode)

    return model_fn


def average_in_train_op(features, labels, mode, params):
    """CIFAR-10's tutorial: averages of losses before gradients, of weights after applying."""
    loss = mean_square(linear(features), labels, params)
    tf.add_to_collection("losses", loss)
    total = tf.add_n(tf.get_collection("losses"), name="total_loss")
    losses_average_op = tf.train.ExponentialMovingAverage(0.9, name="avg").apply([total])
    opt = optimizer(params)
    with tf.control_dependencies([losses_average_op]):
        grads = opt.compute_gradients(total)
    applied = opt.apply_gradients(grads, global_step=step())
    averages = tf.train.ExponentialMovingAverage(0.9, step())
    with tf.control_dependencies([applied]):
        train_op = averages.apply(tf.trainable_variables())
    return spec(mode, total, train_op)


def batch_norm(how):
    """Batch norm by hand; its moving mean is that of the batch, its variance of shards."""

    def model_fn(features, labels, mode, params):
        hidden = features["x"] @ get_variable("w", [4, 3])
        pop_mean = untrained("pop_mean", [3])
        decay = 0.9
        if how == "moments":
            batch_mean, _ = tf.nn.moments(tf.stop_gradient(hidden), [0])
        else:
            batch_mean = tf.reduce_mean(hidden, 0)
        if how == "subtract":
            update = tf.assign_sub(pop_mean, (pop_mean - batch_mean) * (1 - decay))
        elif how == "helper":
            update = moving_averages.assign_moving_average(
                pop_mean, batch_mean, decay, zero_debias=False
            )
        elif how == "debiased":
            update = moving_averages.assign_moving_average(
                pop_mean, batch_mean, decay, zero_debias=True
            )
        else:
            update = tf.assign(pop_mean, pop_mean * decay + batch_mean * (1 - decay))
        with tf.control_dependencies([update]):
            predictions = tf.tanh(hidden - pop_mean.read_value()) @ get_matrix("v", [3, 1])
        return trained(mean_square(predictions, labels, params), params, mode)

    return model_fn


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


def choices_of_python(features, labels, mode, params):
    """Python's own random numbers decide about the model: the same in all towers."""
    chosen = random.Random().choice([1, 2, 3])
    made = untrained("chosen", [], float(chosen))
    predictions = linear(features) * made / chosen
    return trained(mean_square(predictions, labels, params), params, mode)


STATE = {
    "counters": counters,
    "counter_of_value": counter_of_value,
    "epsilon_decay": epsilon_decay,
    "spectral_norm_dependencies": spectral_norm(True),
    "spectral_norm_update_ops": spectral_norm(False),
    "average_of_weights": average_of_weights,
    "debiased_average_of_weights": debiased_average_of_weights,
    "assigned_moving_average": assigned_moving_average,
    "average_of_loss": average_of_loss(False),
    "debiased_average_of_loss": average_of_loss(True),
    "average_in_train_op": average_in_train_op,
    "batch_norm_assign": batch_norm("assign"),
    "batch_norm_moments": batch_norm("moments"),
    "batch_norm_subtract": batch_norm("subtract"),
    "batch_norm_helper": batch_norm("helper"),
    "batch_norm_debiased": batch_norm("debiased"),
    "statistics_of_rows": statistics_of_rows,
    "row_counts": row_counts,
    "center_loss": center_loss,
    "row_free_py_func": row_free_py_func,
    "cached_layers": cached_layers,
    "queue_of_numbers": queue_of_numbers,
}
