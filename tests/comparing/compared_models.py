"""Models that `replicate.compare` looks at, in tests and from the terminal.

A line that ends with `# by <name>` is what the model of that name differs by.
"""

import itertools
import pathlib
import random

import numpy as np
import tensorflow.compat.v1 as tf

import replicate
from replicate import estimator

TOTAL, SIZE = 33, 7  # Batches of 7, 7, 7, 7 and 5 rows.
_starts = itertools.count()


def line(name):
    """Returns `file:line` of what the model of a name differs by."""
    path = pathlib.Path(__file__).resolve()
    (number,) = [
        number
        for number, text in enumerate(path.read_text().splitlines(), 1)
        if text.endswith(f"# by {name}")
    ]
    return f"{path}:{number}"


def data():
    """Returns rows of float64 of which the last of each batch is the largest, and labels."""
    x = np.random.RandomState(3).normal(size=(TOTAL, 4)) + np.arange(TOTAL)[:, None] % SIZE
    weight = np.arange(TOTAL) % SIZE + 1.0
    return {"x": x, "weight": weight}, np.sin(x.sum(axis=1, keepdims=True))


def input_fn():
    return tf.data.Dataset.from_tensor_slices(data()).batch(SIZE)


def shuffled_input_fn(mode, params):
    assert mode in ("train", "eval")
    return input_fn().unbatch().shuffle(TOTAL).batch(params["size"])


def model_of(hidden=lambda x, training: x, loss=None, update=None):
    """Returns a `model_fn` of two layers in float64.

    Args:
        hidden: Function of activations and whether it is trained.
        loss: Function of features and the squared errors of rows. None: their mean.
        update: Function of features that returns an operation to run in each step.
    """

    def model_fn(features, labels, mode):
        training = mode == "train"
        net = tf.layers.dense(features["x"], 3, tf.nn.tanh, name="hidden")
        output = tf.layers.dense(hidden(net, training), 1, name="output")
        predictions = {"y": output}
        if mode == "infer":
            return estimator.EstimatorSpec(mode, predictions)
        errors = tf.math.squared_difference(output, labels)[:, 0]
        total = tf.reduce_mean(errors) if loss is None else loss(features, errors)
        metrics = {"absolute": tf.metrics.mean_absolute_error(labels, output)}
        update_op = tf.no_op() if update is None or not training else update(features)
        statistics = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        optimizer = replicate.TowerOptimizer(tf.train.MomentumOptimizer(0.02, 0.9))
        with tf.control_dependencies([update_op, *statistics]):
            train_op = optimizer.minimize(total, tf.train.get_global_step())
        return estimator.EstimatorSpec(mode, predictions, total, train_op, metrics)

    return model_fn


equal = model_of()


def _with_dropout(net, training):
    return tf.layers.dropout(net, 0.5, training=training)  # by dropout


dropout = model_of(_with_dropout)


def _with_noise(net, training):
    noise = tf.random.normal(tf.shape(net), dtype=tf.float64)  # by noise
    return net + 0.1 * noise if training else net


noise = model_of(_with_noise)


def _with_own_noise(net, training):
    seed = [1, 2]
    noise = tf.random.stateless_normal(tf.shape(net), seed, dtype=tf.float64)
    return net + 0.1 * noise if training else net


stateless = model_of(_with_own_noise)


def _in_function(net, training):
    @tf.function(autograph=False)
    def noisy(x):
        return x + tf.random.uniform(tf.shape(x), dtype=tf.float64)

    return noisy(net) if training else net  # by function


function = model_of(_in_function)


def _with_batch_norm(net, training):
    return tf.layers.batch_normalization(net, training=training)


batch_norm = model_of(_with_batch_norm)


def _with_fused_batch_norm(net, training):
    net = tf.cast(net[:, tf.newaxis, tf.newaxis], tf.float32)
    # replicate: ignore
    net = tf.layers.batch_normalization(net, training=training, fused=True)  # by fused
    return tf.cast(net[:, 0, 0], tf.float64)


fused = model_of(_with_fused_batch_norm)


def _centred(net, training):
    return net - tf.reduce_max(net, axis=0)


largest = model_of(_centred)


def _whole_batch_norm(net, training):
    return replicate.batch_normalization(net, training=training)


whole_batch_norm = model_of(_whole_batch_norm)


def _weighted(features, errors):
    return tf.losses.compute_weighted_loss(errors, features["weight"] - 1.0)


weighted = model_of(loss=_weighted)


def _row_by_row(values):
    """Values for rows, as the graph does not tell."""
    return tf.map_fn(lambda value: value * 1.0, values)


def _by_unknown(features, errors):
    weights = _row_by_row(features["weight"] - 1.0)
    return tf.reduce_sum(errors * weights) / (1.0 + tf.reduce_sum(weights))


count = model_of(loss=_by_unknown)


def _root_of_mean(features, errors):
    return tf.sqrt(tf.reduce_mean(errors))


root_of_mean = model_of(loss=_root_of_mean)


def _root(features, errors):
    return tf.sqrt(tf.reduce_mean(_row_by_row(errors)))


root = model_of(loss=_root)


def _pairs(features, errors):
    return tf.reduce_mean(tf.matmul(errors[:, None], errors[:, None], transpose_b=True))


pairs = model_of(loss=_pairs)


def _sum(features, errors):
    return tf.reduce_sum(_row_by_row(errors))


summed = model_of(loss=_sum)


def _of_means(features, errors):
    """A mean of each row's own, and a penalty: what adds up over towers."""
    weights = tf.trainable_variables()
    penalty = tf.add_n([tf.nn.l2_loss(weight) for weight in weights])
    rows = errors - tf.reduce_mean(features["x"], axis=1) * 0.1
    total = tf.reduce_sum(rows) / tf.cast(tf.shape(rows)[0], tf.float64)
    return total + tf.cast(tf.losses.compute_weighted_loss(rows), tf.float64) + 1e-3 * penalty


means = model_of(loss=_of_means)


def accumulates(features, labels, mode):
    """Adds up the gradients of two batches, and is trained by sums over rows."""
    output = tf.layers.dense(features["x"], 1, name="output")
    if mode == "infer":
        return estimator.EstimatorSpec(mode, {"y": output})
    loss = tf.reduce_sum(tf.math.squared_difference(output, labels))
    optimizer = tf.train.MomentumOptimizer(1e-4, 0.9)
    optimizer = replicate.TowerOptimizer(optimizer, accumulate_steps=2, accumulate_reduction="sum")
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return estimator.EstimatorSpec(mode, {"y": output}, loss, train_op)


def counts(features, labels, mode):
    """Counts the step itself, and reads it for a learning rate, as BERT does."""
    x = features["x"]
    output = x @ tf.get_variable("w", [4, 1], tf.float64, tf.ones_initializer())
    if mode == "infer":
        return estimator.EstimatorSpec(mode, {"y": output})
    total, step = tf.reduce_mean((output - labels) ** 2), tf.train.get_global_step()
    rate = tf.train.polynomial_decay(0.01, step, 5, 0.0)
    updated = tf.train.GradientDescentOptimizer(rate).minimize(total)
    train_op = tf.group(updated, step.assign(step + 1))  # by counts
    return estimator.EstimatorSpec(mode, {"y": output}, total, train_op)


def gradient_noise(features, labels, mode):
    """Draws once for all towers."""

    def noisy(grads_and_vars):
        return [
            (grad + 0.1 * tf.random.normal(grad.shape, seed=3, dtype=grad.dtype), variable)
            for grad, variable in grads_and_vars
        ]

    output = tf.layers.dense(features["x"], 1, name="output")
    if mode == "infer":
        return estimator.EstimatorSpec(mode, {"y": output})
    loss = tf.reduce_mean(tf.math.squared_difference(output, labels))
    optimizer = tf.train.GradientDescentOptimizer(0.01)
    optimizer = replicate.TowerOptimizer(optimizer, transform_gradients=noisy)
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return estimator.EstimatorSpec(mode, {"y": output}, loss, train_op)


def drawn(features, labels, mode):
    """Draws by Python and NumPy when it is built."""
    factor = random.random() + np.random.uniform()
    return model_of(loss=lambda _, errors: factor * tf.reduce_mean(errors))(features, labels, mode)


def for_tpus(features, labels, mode, params):
    spec = equal(features, labels, mode)
    if mode != "train":
        return spec
    return estimator.tpu.TPUEstimatorSpec(mode, loss=spec.loss, train_op=spec.train_op)


def _last_value(features):
    last = tf.get_variable("last", [], tf.float64, trainable=False)
    return last.assign(features["x"][-1, 0])


update = model_of(update=_last_value)


def _late_of(row):
    """Returns an update that takes a row from the third step on."""

    def assigned(features):
        late = tf.get_variable("late", [], tf.float64, tf.ones_initializer(), trainable=False)
        step = tf.train.get_global_step()
        return late.assign(tf.where(step < 2, 2.0 * late, features["x"][row, 0]))

    return assigned


late = model_of(update=_late_of(-1))
late_of_first = model_of(update=_late_of(0))


def _python(net, training):
    return tf.ensure_shape(tf.py_func(lambda x: 2 * x, [net], tf.float64), net.shape)


python = model_of(_python)


def starts_anywhere(features, labels, mode):
    """Has a variable that begins with another value in each graph, unless a checkpoint has it."""
    tf.get_variable("anywhere", initializer=float(next(_starts)), trainable=False)
    return equal(features, labels, mode)


def measured_elsewhere(features, labels, mode):
    """Takes an entry of features that only evaluation and predictions have."""
    assert ("extra" in features) == (mode != "train")
    return equal(features, labels, mode)


def here(features, labels, mode):
    return _named("here", features, labels, mode)


def there(features, labels, mode):
    return _named("there", features, labels, mode)


def _named(name, features, labels, mode):
    """Has a variable of a name."""
    tf.get_variable(
        name, [], initializer=tf.zeros_initializer(), trainable=False, collections=[name]
    )
    spec = equal(features, labels, mode)
    (made,) = tf.get_collection(name)
    saver = tf.train.Saver()
    tf.add_to_collection(tf.GraphKeys.GLOBAL_VARIABLES, made)
    ready = tf.report_uninitialized_variables([])
    starts = tf.group(tf.tables_initializer(), tf.local_variables_initializer(), made.initializer)
    scaffold = tf.train.Scaffold(saver=saver, local_init_op=starts, ready_for_local_init_op=ready)
    return spec._replace(scaffold=scaffold)


def starts_apart(features, labels, mode):
    """Has a variable that the start of a session gives another value, in each graph its own."""
    apart = tf.get_variable("apart", [], tf.float64, trainable=False)
    spec = equal(features, labels, mode)
    tables = tf.tables_initializer()
    starts = tf.group(tables, tf.local_variables_initializer(), apart.assign(next(_starts) + 1.0))
    return spec._replace(scaffold=tf.train.Scaffold(local_init_op=starts))


def starts_after_a_check(features, labels, mode):
    """Its initial value takes a batch, as that of V2's `BaselineClassifier` does."""
    rows = [tf.shape(features[name])[0] for name in ("x", "weight")]
    with tf.control_dependencies([tf.debugging.assert_equal(*rows)]):
        scale = tf.Variable(tf.ones([1], tf.float64), name="scale", use_resource=True)
        features = {"x": features["x"] * scale}
    return equal(features, labels, mode)


def no_number(features, labels, mode):
    spec = equal(features, labels, mode)
    return spec._replace(loss=tf.log(-1.0 - tf.square(spec.loss)))


def trains_alone(features, labels, mode):
    if mode != "train":
        raise NotImplementedError("it only trains")
    return equal(features, labels, mode)


def predicts_nothing(features, labels, mode):
    if mode == "infer":
        return estimator.EstimatorSpec(mode, predictions={})
    return equal(features, labels, mode)


def make_params():
    return {"size": 5}


def make_config():
    return estimator.RunConfig(tf_random_seed=4)


def of_params(features, labels, mode, params, config):
    assert config.tf_random_seed == 4
    assert params == {"size": 5}
    return equal(features, labels, mode)
