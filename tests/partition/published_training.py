"""Training as its authors publish it: several optimizers, branches around them, and state."""

import numpy as np
import tensorflow.compat.v1 as tf

from partition import tables
from partition.harness import ModeKeys
from partition.layer_models import dense
from partition.model_inputs import F64, GLOROT, get_variable, hidden, state

EstimatorSpec = tf.estimator.EstimatorSpec


def _sgd(rate=0.05):
    return tf.train.GradientDescentOptimizer(rate)


def model_of(train):
    """Returns the model of a regression of `h` that is trained by a function."""

    def model(features, labels, mode, params):
        h = hidden(features["x"])
        loss = None if labels is None else tf.reduce_mean((h - labels["y"]) ** 2)
        if mode != ModeKeys.TRAIN:
            return tables.spec_of(mode, {"h": h}, loss, params)
        train_op = train(h, loss, features, labels, params["optimizer"])
        return EstimatorSpec(mode, {"h": h}, loss, train_op)

    model.__name__ = train.__name__
    return model


def _count():
    """Returns a counter of steps of the model, and what counts one."""
    count = tf.get_variable("count", [], tf.int64, tf.zeros_initializer(), trainable=False)
    return count, lambda: tf.assign_add(count, 1)


@model_of
def in_turn(h, loss, features, labels, optimizer):
    """`tf.cond` around two optimizers, whose gradients are made in the branches."""
    count, counted = _count()
    weights = tables.own_variables("net")
    other = tf.reduce_mean(tf.abs(h - tf.reduce_mean(h, 0)))
    turn = tf.equal(count % 2, 0)
    one, two = _sgd(0.1), _sgd(0.02)
    train = tf.cond(
        turn,
        lambda: tf.group(one.minimize(loss, var_list=weights[:2])),
        lambda: tf.group(two.minimize(loss + other, var_list=weights)),
    )
    with tf.control_dependencies([train]):
        return counted()


@model_of
def rounds_of_updates(h, loss, features, labels, optimizer):
    """Three updates in a loop, each of what the one before has written."""
    w = get_variable("w", [4, 1])
    opt = _sgd(0.1)

    def body(i):
        error = tf.reduce_mean((tf.matmul(features["x"], w.read_value()) - labels["y"]) ** 2)
        slope = 2.0 * tf.matmul(
            features["x"], tf.matmul(features["x"], w.read_value()) - labels["y"], transpose_a=True
        )
        slope /= tf.cast(tf.shape(labels["y"])[0], F64)
        with tf.control_dependencies([error]):
            applied = opt.apply_gradients([(slope, w)])
        with tf.control_dependencies([applied]):
            return i + 1

    done = tf.while_loop(lambda i: i < 3, body, [0], parallel_iterations=1)
    with tf.control_dependencies([done]):
        return optimizer().minimize(loss, var_list=tables.own_variables("net"))


@model_of
def skipped_by_its_loss(h, loss, features, labels, optimizer):
    """A step whose loss is far above the moving one, or not finite, is left out."""
    moving, skipped = state("moving", [], 1.0), state("skipped", [])
    opt, weights = optimizer(), tables.own_variables("net")
    pairs = opt.compute_gradients(loss, weights)
    finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(g)) for g, _ in pairs])
    is_fine = tf.logical_and(loss < 1.05 * moving, finite)
    train = tf.cond(
        is_fine,
        lambda: tf.group(opt.apply_gradients(pairs)),
        lambda: tf.group(tf.assign_add(skipped, 1.0)),
    )
    with tf.control_dependencies([train]):
        return tf.assign(moving, 0.7 * moving + 0.3 * loss)


@model_of
def pop_art(h, loss, features, labels, optimizer):
    """A head that is rescaled as the moments of its targets move, so that it says the same."""
    mean, square = state("mean", []), state("square", [], 1.0)
    w, b = get_variable("head", [3, 1]), get_variable("head_b", [1])
    old_mean, old_std = mean.read_value(), tf.sqrt(square.read_value() - mean.read_value() ** 2)
    targets = 3.0 * labels["y"] + 1.0
    with tf.control_dependencies([old_mean, old_std]):
        moved = [
            tf.assign_add(mean, 0.2 * (tf.reduce_mean(targets) - mean)),
            tf.assign_add(square, 0.2 * (tf.reduce_mean(targets**2) - square)),
        ]
    with tf.control_dependencies(moved):
        new_mean = mean.read_value()
        new_std = tf.sqrt(tf.maximum(square.read_value() - new_mean**2, 1e-4))
        scaled = tf.assign(w, w * old_std / new_std)
        shifted = tf.assign(b, (old_std * b + old_mean - new_mean) / new_std)
    with tf.control_dependencies([scaled, shifted]):
        value = tf.matmul(h, w.read_value()) + b.read_value()
        error = tf.reduce_mean((value - (targets - new_mean) / new_std) ** 2)
        weights = tables.own_variables()
        gradients = tf.gradients(error, weights)
        found = [(g, v) for g, v in zip(gradients, weights) if g is not None]
        return optimizer().apply_gradients(found)


@model_of
def replay(h, loss, features, labels, optimizer):
    """A queue inside the model: rows go in, and those of older batches come out."""
    queue = tf.FIFOQueue(200, [F64, F64], [[4], [1]])
    put = queue.enqueue_many([features["x"], labels["y"]])
    with tf.control_dependencies([put]):
        x, y = queue.dequeue_many(1)
    w = get_variable("w", [4, 1])
    error = tf.reduce_mean((tf.matmul(x, w) - y) ** 2)
    return optimizer().minimize(loss + error)


@model_of
def unlabelled(h, loss, features, labels, optimizer):
    """A dataset of its own, which the model makes, of other rows than the batch has."""
    rows = np.random.RandomState(3).normal(size=(20, 4))
    data = tf.data.Dataset.from_tensor_slices(rows).repeat().batch(6)
    iterator = tf.data.make_initializable_iterator(data)
    tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    more = hidden(iterator.get_next())
    p = tf.nn.softmax(more)
    entropy = -tf.reduce_mean(tf.reduce_sum(p * tf.log(p), 1))
    distance = tf.reduce_mean(h, 0) - tf.reduce_mean(more, 0)
    return optimizer().minimize(
        loss + entropy + tf.reduce_sum(distance**2), var_list=tables.own_variables("net")
    )


def reinforce(features, labels, mode, params):
    """Actions are drawn; a baseline moves with the mean of rewards."""
    logits = hidden(features["x"])
    if labels is None:
        return tables.spec_of(mode, {"p": tf.nn.softmax(logits)}, None, params)
    if mode == ModeKeys.TRAIN:
        action = tf.squeeze(tf.random.categorical(logits, 1), 1)
    else:
        action = tf.argmax(logits, 1)
    reward = tf.cast(tf.equal(tf.cast(action, tf.int32), labels["k"]), F64) + labels["y"][:, 0]
    baseline = state("baseline", [])
    chosen = -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=action, logits=logits)
    p = tf.nn.softmax(logits)
    entropy = -tf.reduce_sum(p * tf.log(p), 1)
    advantage = tf.stop_gradient(reward - baseline)
    loss = -tf.reduce_mean(chosen * advantage) - 0.01 * tf.reduce_mean(entropy)
    predictions = {"action": action, "p": p}
    if mode == ModeKeys.EVAL:
        return tables.spec_of(mode, predictions, loss, params)
    train = params["optimizer"]().minimize(loss, var_list=tables.own_variables("net"))
    with tf.control_dependencies([train]):
        moved = tf.assign_sub(baseline, 0.1 * (baseline - tf.reduce_mean(reward)))
    return EstimatorSpec(mode, predictions, loss, moved)


def wgan_gp(features, labels, mode, params):
    """Critic and generator of noise; the critic's slope is penalised where both are mixed."""
    real = features["x"]
    n = tf.shape(real)[0]
    noise = tf.random.normal([n, 2], dtype=F64) if mode == ModeKeys.TRAIN else real[:, :2]
    with tf.variable_scope("generator"):
        fake = dense(dense(noise, 5, tf.nn.relu), 4)

    def critic(x):
        with tf.variable_scope("critic", reuse=tf.AUTO_REUSE):
            x = dense(x, 5, tf.nn.leaky_relu, name="one")
            return dense(x, 1, name="two")

    distance = tf.reduce_mean(critic(fake)) - tf.reduce_mean(critic(real))
    if mode != ModeKeys.TRAIN:
        return tables.spec_of(mode, {"fake": fake}, None if labels is None else distance, params)
    alpha = tf.random.uniform([n, 1], 0.0, 1.0, dtype=F64)
    mixed = real + alpha * (fake - real)
    slopes = tf.sqrt(tf.reduce_sum(tf.square(tf.gradients(critic(mixed), [mixed])[0]), [1]) + 1e-9)
    d_loss = distance + 10.0 * tf.reduce_mean((slopes - 1.0) ** 2)
    g_loss = -tf.reduce_mean(critic(fake))
    d_train = _sgd(0.01).minimize(d_loss, var_list=tables.own_variables("critic"))
    with tf.control_dependencies([d_train]):
        g_train = _sgd(0.02).minimize(g_loss, var_list=tables.own_variables("generator"))
    predictions = {"fake": fake, "g_loss": g_loss, "slopes": slopes}
    return EstimatorSpec(mode, predictions, d_loss, g_train)


def dropped(features, labels, mode, params):
    """Dropout of words, of a recurrence's input and output, and of a dense layer."""
    training = mode == ModeKeys.TRAIN
    words = tf.gather(get_variable("table", [9, 4]), features["words"])
    words = tf.layers.dropout(words, 0.3, noise_shape=[None, None, 1], training=training)
    cell = tf.nn.rnn_cell.GRUCell(4, kernel_initializer=GLOROT())
    if training:
        cell = tf.nn.rnn_cell.DropoutWrapper(cell, 0.8, 0.7)
    # One round after the other: otherwise one device draws numbers of rounds in any order.
    _, last = tf.nn.dynamic_rnn(
        cell, words, features["num_words"], dtype=F64, parallel_iterations=1
    )
    h = tf.layers.dropout(dense(last, 5, tf.nn.relu), 0.4, training=training)
    h = dense(h)
    loss = None if labels is None else tf.reduce_mean((h - labels["y"]) ** 2)
    return tables.spec_of(mode, {"h": h}, loss, params)


PLAIN = {
    model.__name__: model
    for model in (in_turn, rounds_of_updates, skipped_by_its_loss, pop_art, replay, unlabelled)
}
MODELS = {name: tables.of_old_control_flow(model) for name, model in PLAIN.items()}
RANDOM = {
    model.__name__: tables.of_old_control_flow(model) for model in (reinforce, wgan_gp, dropped)
}
