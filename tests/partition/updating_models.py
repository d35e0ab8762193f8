"""Updates beside, or instead of, those of one optimizer, in functions like `gradient_models`'."""

import tensorflow.compat.v1 as tf

from partition import row_losses
from partition.model_inputs import get_variable, hidden, state
from partition.tables import own_variables


def _sgd(rate=0.05):
    return tf.train.GradientDescentOptimizer(rate)


# Optimizers


def two_optimizers(step):
    """One for each layer, of the same gradients."""
    w, b, v = zip(step.gradients(), step.weights)
    adam = tf.train.AdamOptimizer(0.01)
    return tf.group(step.optimizer.apply_gradients([w, b]), adam.apply_gradients([v]))


def two_losses(step):
    """Each minimised by an optimizer of its own, of the variables that are given."""
    w, b, v = step.weights
    spread = tf.reduce_mean(tf.sqrt(tf.math.reduce_variance(step.h, axis=0) + 0.1))
    return tf.group(
        step.optimizer.minimize(step.loss, var_list=[w, b]),
        tf.train.RMSPropOptimizer(0.01).minimize(step.loss - spread, var_list=[v]),
    )


def one_after_the_other(step):
    """The second update is computed of what the first has written."""
    w, b, v = step.weights
    first = step.optimizer.minimize(step.loss, var_list=[v])
    with tf.control_dependencies([first]):
        h = tf.tanh(step.batch.x @ w.read_value() + b.read_value()) @ v.read_value()
        gradients = tf.gradients(row_losses.mean(h, step.batch), [w, b])
        return _sgd().apply_gradients(list(zip(gradients, [w, b])))


def adversaries(step):
    """A generator and a discriminator in turn, by the global step, each with a list of its own."""
    real = step.batch.x[:, :3]

    def judge(rows):
        return hidden(rows, 1, "judge")[:, 0]

    def entropy(rows, label):
        logits = judge(rows)
        labels = label * tf.ones_like(logits)
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))

    against = entropy(real, 0.9) + entropy(step.h, 0.0)
    fooled, turn = entropy(step.h, 1.0), state("turn", [])
    judging = _sgd(0.1).compute_gradients(against, own_variables("judge"))
    making = step.optimizer.compute_gradients(fooled, step.weights)
    applied = tf.cond(
        tf.equal(tf.math.floormod(turn, 2.0), 0.0),
        lambda: tf.group(_sgd(0.1).apply_gradients(judging)),
        lambda: tf.group(step.optimizer.apply_gradients(making)),
    )
    with tf.control_dependencies([applied]):
        return tf.assign_add(turn, 1.0)


def adversaries_at_once(step):
    """Critic and generator of the same weights, critic's slope being penalised at mixed rows."""

    def critic(rows):
        return hidden(rows, 1, "critic")

    real = step.batch.x[:, :3]
    mixed = 0.3 * real + 0.7 * step.h
    (slopes,) = tf.gradients(critic(mixed), mixed)
    norms = tf.sqrt(tf.reduce_sum(slopes**2, axis=1) + 1e-6)
    distance = tf.reduce_mean(critic(step.h)) - tf.reduce_mean(critic(real))
    against = distance + tf.reduce_mean((norms - 1.0) ** 2)
    return tf.group(
        _sgd().minimize(against, var_list=own_variables("critic")),
        step.optimizer.minimize(-tf.reduce_mean(critic(step.h)), var_list=step.weights),
    ), {"distance": distance}


def multiplier(step):
    """A constraint's multiplier climbs while weights go down."""
    dual = get_variable("dual", [], initializer=tf.ones_initializer())
    violated = tf.reduce_mean(step.h**2) - 0.3
    total = step.loss + tf.nn.softplus(dual) * violated
    return tf.group(
        step.optimizer.minimize(total, var_list=step.weights),
        _sgd(0.5).minimize(-total, var_list=[dual]),
    )


def weights_of_losses(step):
    """Two losses, whose weights are learned."""
    logs = get_variable("logs", [2])
    losses = tf.stack([step.loss, tf.reduce_mean(row_losses.squares(step.h, step.batch))])
    total = tf.reduce_sum(tf.exp(-logs) * losses + logs)
    return step.optimizer.minimize(total, var_list=[*step.weights, logs])


# Rates, and what follows weights


def rate_of_the_loss(step):
    rate = 0.1 * step.loss / (1.0 + step.loss)
    return tf.train.GradientDescentOptimizer(rate).minimize(step.loss, var_list=step.weights)


def rate_of_the_step(step):
    rate = tf.train.exponential_decay(0.1, tf.train.get_global_step(), 2, 0.5)
    return tf.train.MomentumOptimizer(rate, 0.9).minimize(step.loss, var_list=step.weights)


def average_of_weights(step):
    average = tf.train.ExponentialMovingAverage(0.8)
    with tf.control_dependencies([step.apply(step.gradients())]):
        return average.apply(step.weights)


def decay_of_weights(step):
    """After the update, and not by the loss."""
    with tf.control_dependencies([step.apply(step.gradients())]):
        return tf.group([tf.assign_sub(w, 0.02 * w.read_value()) for w in step.weights])


def penalty_of_weights(step):
    penalty = tf.add_n([tf.nn.l2_loss(weight) for weight in step.weights])
    return step.optimizer.minimize(step.loss + 0.05 * penalty, var_list=step.weights)


def slow_weights(step):
    """Every other step, weights go half the way from where they were."""
    slow = [state(f"slow{i}", weight.shape) for i, weight in enumerate(step.weights)]
    count = state("count", [])
    with tf.control_dependencies([step.apply(step.gradients())]):
        counted = tf.assign_add(count, 1.0)
    with tf.control_dependencies([counted]):
        due = tf.equal(tf.math.floormod(counted, 2.0), 0.0)
        moved = []
        for fast, behind in zip(step.weights, slow):
            middle = behind + 0.5 * (fast.read_value() - behind)
            after = tf.where(due, middle, fast.read_value())
            moved += [tf.assign(fast, after), tf.assign(behind, tf.where(due, middle, behind))]
        return tf.group(moved)


def accumulated(step):
    """Gradients are added up, and applied in every other step."""
    sums = [state(f"sum{i}", weight.shape) for i, weight in enumerate(step.weights)]
    count = state("count", [])
    added = [tf.assign_add(total, g) for total, g in zip(sums, step.gradients())]
    with tf.control_dependencies(added):
        counted = tf.assign_add(count, 1.0)

    def apply():
        gradients = [total.read_value() / 2.0 for total in sums]
        with tf.control_dependencies([step.apply(gradients)]):
            return tf.group([tf.assign(total, tf.zeros_like(total)) for total in sums])

    with tf.control_dependencies([counted]):
        due = tf.equal(tf.math.floormod(counted, 2.0), 0.0)
        return tf.cond(due, apply, tf.no_op)


UPDATES = {
    function.__name__: function
    for function in (
        two_optimizers,
        two_losses,
        one_after_the_other,
        adversaries,
        adversaries_at_once,
        multiplier,
        weights_of_losses,
        rate_of_the_loss,
        rate_of_the_step,
        average_of_weights,
        decay_of_weights,
        penalty_of_weights,
        slow_weights,
        accumulated,
    )
}
