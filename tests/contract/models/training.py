"""Ways to make gradients, and to minimise: optimizers, averages, schedules, and code by hand."""

import tensorflow.compat.v1 as tf

import replicate
from contract.harness import DYNAMIC, OPTIMIZERS, SUM, plain
from contract.models.networks import by_cross_tower_normalisation
from contract.models.parts import (
    F64,
    SLOPE,
    by_get_variable,
    by_minimize,
    clip,
    get_variable,
    gradients,
    linear,
    mean_square,
    model_fn,
    optimizer,
    reduce_rows,
    resources,
    spec,
    squared,
    step,
)
from contract.models.row import REUSE, Model


def by_factory(loss, params):
    return params["wrap"](OPTIMIZERS[params["optimizer"]]).minimize(loss, global_step=step())


def by_zip(loss, params):
    variables = tf.trainable_variables()
    return optimizer(params).apply_gradients(zip(gradients(loss, variables), variables), step())


def by_transformed(loss, params, by_hand, **kwargs):
    """On one device `by_hand` changes the gradients, on towers the arguments of TowerOptimizer."""
    opt = OPTIMIZERS[params["optimizer"]]()
    if params["wrap"] is not plain:
        return params["wrap"](opt, **kwargs).minimize(loss, step())
    return opt.apply_gradients(by_hand(opt.compute_gradients(loss)), step())


def by_clipped(loss, params):
    # 0.2 is less than the norm, and than those of shards, in every step.
    return by_transformed(loss, params, lambda pairs: clip(pairs, 0.2), clip_norm=0.2)


def by_signs(loss, params):
    def signs(pairs):  # Not linear: it matters that all gradients are reduced before.
        return [(tf.sign(gradient) * 0.1, variable) for gradient, variable in pairs]

    return by_transformed(loss, params, signs, transform_gradients=signs)


def by_schedule(loss, params):
    rate = tf.train.exponential_decay(tf.constant(0.05, F64), step(), 1, 0.5)
    return params["wrap"](tf.train.GradientDescentOptimizer(rate)).minimize(loss, step())


def by_two_optimizers(loss, params):
    w, *others = tf.trainable_variables()
    adversary = params["wrap"](tf.train.AdagradOptimizer(0.1))
    first = adversary.minimize(-0.5 * loss, var_list=[w])
    with tf.control_dependencies([first]):  # Its gradient reads what the other one updates.
        return optimizer(params).minimize(loss, step(), var_list=others)


class SyncReplicas(tf.train.SyncReplicasOptimizer):
    """`SyncReplicasOptimizer` whose thread ends with its session, at whatever point it is then."""

    def get_chief_queue_runner(self):
        runner = super().get_chief_queue_runner()
        ends = (tf.errors.OutOfRangeError, tf.errors.CancelledError)
        return tf.train.QueueRunner(
            runner.queue, runner.enqueue_ops, queue_closed_exception_types=ends
        )


def by_sync_replicas(loss, params):
    inner = SyncReplicas(OPTIMIZERS[params["optimizer"]](), 1, 1)
    opt = params["wrap"](inner)
    train_op = opt.minimize(loss, global_step=step())
    return train_op, [opt.make_session_run_hook(True, num_tokens=0)]


class AdamW(tf.train.Optimizer):
    """Adam with weight decay, in the way of BERT: makes its slots and assigns by hand."""

    def __init__(self):
        super().__init__(False, "AdamW")

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        assignments = []
        for gradient, variable in grads_and_vars:
            stem = variable.name.split(":")[0]
            m, v = (
                tf.get_variable(
                    f"{stem}/{slot}",
                    variable.shape.as_list(),
                    variable.dtype.base_dtype,
                    tf.zeros_initializer(),
                    trainable=False,
                )
                for slot in ("adam_m", "adam_v")
            )
            next_m = 0.9 * m + 0.1 * gradient
            next_v = 0.99 * v + 0.01 * gradient**2
            update = next_m / (tf.sqrt(next_v) + 1e-6) + 0.01 * variable
            assignments += [
                variable.assign(variable - 0.05 * update),
                m.assign(next_m),
                v.assign(next_v),
            ]
        return tf.group(*assignments, name=name)


def by_adamw(loss, params):
    variables, global_step = tf.trainable_variables(), step()
    grads = clip(zip(gradients(loss, variables), variables), 1e3)  # Clips nothing: BERT's code.
    train_op = params["wrap"](AdamW()).apply_gradients(grads, global_step=global_step)
    return tf.group(train_op, [global_step.assign(global_step + 1)])


class Clipping(tf.train.MomentumOptimizer):
    """Goes around the `apply_gradients` that it inherits, by way of another method."""

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        return self._apply_clipped(clip(grads_and_vars, 0.2), global_step, name)

    def _apply_clipped(self, clipped, global_step, name):
        return super().apply_gradients(clipped, global_step, name)


def by_clipping_optimizer(loss, params):
    return params["wrap"](Clipping(0.05, 0.9)).minimize(loss, step())


def by_gradients_twice(loss, params):
    """Every variable is there with two gradients."""
    opt = optimizer(params)
    pairs = list(opt.compute_gradients(loss)) + list(opt.compute_gradients(loss / 2.0))
    if replicate.num_towers() > 1:  # Towers add them up, which optimizers may not.
        return opt.apply_gradients(pairs, step())
    count = len(pairs) // 2
    added = [(g + h, variable) for (g, variable), (h, _) in zip(pairs[:count], pairs[count:])]
    return opt.apply_gradients(added, step())


def by_gradient_penalty(features, labels, mode, params):
    """Second derivatives through cross-tower means: the loss punishes slopes in the inputs."""
    x = tf.identity(features["x"])
    hidden = by_cross_tower_normalisation(dict(features, x=x), params)
    score = reduce_rows(tf.tanh(hidden) * labels, params)
    # Of a mean over rows, a tower's slopes are those of its own rows' mean.
    rows = 1.0 if params["reduction"] == SUM else tf.cast(tf.shape(x)[0], F64)
    slopes = rows * tf.gradients(score, x)[0]
    loss = reduce_rows(tf.reduce_sum(slopes**2, axis=1, keepdims=True), params)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=by_minimize(loss, params))


def by_hand(features, labels, mode, params):
    """Linear regression with its gradient worked out on paper, and no loss to differentiate."""
    w = tf.get_variable("w", initializer=SLOPE)
    error = features["x"] @ w - labels
    reduce = tf.reduce_sum if params["reduction"] == SUM else tf.reduce_mean
    gradient = reduce(2.0 * features["x"] * error, axis=0)[:, None]  # d(error²)/dw = 2·x·error
    train_op = optimizer(params).apply_gradients([(gradient, w)], step())
    return tf.estimator.EstimatorSpec(mode, loss=reduce_rows(error**2, params), train_op=train_op)


def by_tape(features, labels, mode, params):
    """Gradients from a `tf.GradientTape`, through cross-tower means."""
    with resources(), tf.GradientTape() as tape:
        predictions = by_cross_tower_normalisation(features, params)
        loss = squared(predictions, features, labels, params)
    variables = tf.trainable_variables()
    grads = tape.gradient(loss, variables)
    train_op = optimizer(params).apply_gradients(zip(grads, variables), step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def by_callable(features, labels, mode, params):
    """The optimizer calls the loss, and takes its gradients from a tape."""
    losses = []

    def loss():
        with resources():
            predictions = by_get_variable(features, params)
        # An Estimator's strategy depends on it.
        tf.losses.absolute_difference(labels, predictions, reduction=params["reduction"])
        losses.append(squared(predictions, features, labels, params))
        return losses[0]

    train_op = optimizer(params).minimize(loss, step())
    return tf.estimator.EstimatorSpec(mode, loss=losses[0], train_op=train_op)


def by_baseline(features, labels, mode, params):
    """A running baseline, updated once per step by the mean reward of the whole batch."""
    w = get_variable("w", [4, 1])
    policy = tf.tanh(features["x"] @ w)
    baseline = get_variable("baseline", [], initializer=tf.ones_initializer(), trainable=False)
    reward = replicate.cross_tower_mean(tf.reduce_mean(tf.stop_gradient(policy * labels)))
    now = replicate.merge_call(lambda rs: baseline.assign(0.9 * baseline + 0.1 * rs[0]), reward)
    loss = reduce_rows((labels - tf.convert_to_tensor(now)) * policy, params)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=by_minimize(loss, params))


def average_of_weights(features, labels, mode, params):
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


ROWS = {
    "optimizer_factory": Model(model_fn(train=by_factory), "way"),
    "zip": Model(model_fn(train=by_zip), "way"),
    "clip_norm": Model(model_fn(train=by_clipped), "way"),
    "transform_gradients": Model(model_fn(train=by_signs), "way"),
    "schedule": Model(model_fn(train=by_schedule), "way"),
    "average_of_weights": Model(
        average_of_weights,
        "way state thorough",
        batches=DYNAMIC,
        estimator=("sgd", 2),
        not_in_replicas=REUSE,
    ),
    "two_optimizers": Model(model_fn(train=by_two_optimizers), "way recipe", estimator=("adam", 3)),
    "sync_replicas": Model(
        model_fn(train=by_sync_replicas),
        "way dies",
        not_in_replicas="`SyncReplicasOptimizer` refuses strategies",
    ),
    "adamw": Model(model_fn(train=by_adamw), "way recipe"),
    "clipping_optimizer": Model(model_fn(train=by_clipping_optimizer), "way"),
    "hand_written_gradients": Model(by_hand, "way", not_in_replicas=REUSE),
    "gradient_tape": Model(by_tape, "way"),
    "gradient_penalty": Model(by_gradient_penalty, "way"),
    "callable_loss": Model(by_callable, "way"),
    "gradients_twice": Model(model_fn(train=by_gradients_twice), "way"),
    "running_baseline": Model(by_baseline, "way"),
}
