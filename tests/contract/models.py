"""Model functions of the contract's table: every way to make variables, losses and gradients.

Each `forward(features, params)` returns predictions of shape [n, 1] from the features of
`contract.rows_of`; `loss(predictions, features, labels, params)` the scalar loss;
`train(loss, params)` the train operation, or that and training hooks. `model_fn` puts three of
them together. Initialisers are given where TensorFlow's default ignores the graph's seed.
"""

import numpy as np
import tensorflow.compat.v1 as tf

import replicate
from contract.harness import OPTIMIZERS, SUM, ModeKeys, plain

F64 = tf.float64
GLOROT = tf.glorot_uniform_initializer
L2 = tf.keras.regularizers.l2
SLOPE = np.array([[0.5], [-1.0], [0.25], [2.0]])


def get_variable(name, shape, dtype=F64, **kwargs):
    return tf.get_variable(name, shape, dtype, kwargs.pop("initializer", GLOROT()), **kwargs)


def resources():
    """A scope of resource variables, which tapes need: TensorFlow 1.15 makes references."""
    return tf.variable_scope(tf.get_variable_scope(), use_resource=True)


def two_layers(x, make=get_variable):
    """Two dense layers of the variables that `make(name, shape)` makes."""
    hidden = tf.tanh(x @ tf.convert_to_tensor(make("w", [4, 3])) + make("b", [3]))
    return hidden @ tf.convert_to_tensor(make("v", [3, 1]))


def biased(name, shape, **kwargs):
    """`get_variable` of any rank."""
    initializer = GLOROT() if len(shape) > 1 else tf.zeros_initializer()
    return get_variable(name, shape, initializer=initializer, **kwargs)


def by_get_variable(features, params):
    return two_layers(features["x"], biased)


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


def reduce_rows(losses, params):
    return (tf.reduce_sum if params["reduction"] == SUM else tf.reduce_mean)(losses)


def squared(predictions, features, labels, params):
    return reduce_rows((predictions - labels) ** 2, params)


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


def optimizer(params):
    return params["wrap"](OPTIMIZERS[params["optimizer"]]())


def step():
    return tf.train.get_or_create_global_step()


def by_minimize(loss, params):
    return optimizer(params).minimize(loss, step())


def by_factory(loss, params):
    return params["wrap"](OPTIMIZERS[params["optimizer"]]).minimize(loss, global_step=step())


def by_compute_gradients(loss, params):
    opt = optimizer(params)
    return opt.apply_gradients(tuple(opt.compute_gradients(loss)), step())


def gradients(loss, variables):
    """Gradients of which none is made from a reference that the update of another has changed."""
    return tf.gradients(loss, variables, gate_gradients=True)


def by_zip(loss, params):
    variables = tf.trainable_variables()
    return optimizer(params).apply_gradients(zip(gradients(loss, variables), variables), step())


def by_generator(loss, params):
    variables = tf.trainable_variables()
    grads = gradients(loss, variables)
    pairs = ((gradient * 0.5, variable) for gradient, variable in zip(grads, variables))
    return optimizer(params).apply_gradients(pairs, global_step=step())


def clip(pairs, norm):
    grads, variables = zip(*pairs)
    return list(zip(tf.clip_by_global_norm(grads, norm)[0], variables))


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


def with_average(loss, params):
    average = tf.train.ExponentialMovingAverage(0.9, num_updates=step())
    with tf.control_dependencies([by_minimize(loss, params)]):
        return average.apply(tf.trainable_variables())


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
        # What an Estimator's strategy goes by.
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


def model_fn(forward=by_get_variable, loss=squared, train=by_minimize):
    """Returns a `model_fn` of a row's three parts."""

    def built(features, labels, mode, params):
        predictions = forward(features, params)
        named = {"predictions": predictions}
        if mode == ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions=named)
        scalar = loss(predictions, features, labels, params)
        if mode == ModeKeys.EVAL:
            metrics = {"mae": tf.metrics.mean_absolute_error(labels, predictions)}
            return tf.estimator.EstimatorSpec(
                mode, predictions=named, loss=scalar, eval_metric_ops=metrics
            )
        trained = train(scalar, params)
        train_op, hooks = trained if isinstance(trained, tuple) else (trained, [])
        return tf.estimator.EstimatorSpec(
            mode, predictions=named, loss=scalar, train_op=train_op, training_hooks=hooks
        )

    return built


MODELS = {
    "get_variable": model_fn(),
    "tf_variable": model_fn(by_tf_variable),
    "ref_variable": model_fn(by_ref_variable),
    "partitioned_variable": model_fn(by_partitioned_variable),
    "array_initializer": model_fn(by_array),
    "unnamed_tf_layers": model_fn(by_tf_layers),
    "keras_sequential": model_fn(by_keras),
    "shared_scope": model_fn(by_shared_scope),
    "regularized_get_variable": model_fn(by_regularized_variable, squared_and_penalties),
    "regularized_tf_layers": model_fn(by_regularized_layers, squared_and_penalties),
    "regularized_keras": model_fn(by_regularized_keras, squared_and_penalties),
    "get_total_loss": model_fn(by_regularized_variable, total_loss),
    "total_loss_of_layers": model_fn(by_regularized_layers, total_loss),
    "embedding": model_fn(by_embedding),
    "first_tower": model_fn(by_first_tower),
    "cond": model_fn(by_cond),
    "while_loop": model_fn(by_while),
    "cross_tower_normalisation": model_fn(by_cross_tower_normalisation),
    "float32": model_fn(by_float32, tf_loss),
    "optimizer_factory": model_fn(train=by_factory),
    "compute_gradients": model_fn(train=by_compute_gradients),
    "zip": model_fn(train=by_zip),
    "generator": model_fn(train=by_generator),
    "clip_norm": model_fn(train=by_clipped),
    "transform_gradients": model_fn(train=by_signs),
    "schedule": model_fn(train=by_schedule),
    "average_of_weights": model_fn(train=with_average),
    "two_optimizers": model_fn(train=by_two_optimizers),
    "sync_replicas": model_fn(train=by_sync_replicas),
    "adamw": model_fn(train=by_adamw),
    "clipping_optimizer": model_fn(train=by_clipping_optimizer),
    "hand_written_gradients": by_hand,
    "gradient_tape": by_tape,
    "gradient_penalty": by_gradient_penalty,
    "callable_loss": by_callable,
    "gradients_twice": model_fn(train=by_gradients_twice),
    "running_baseline": by_baseline,
}
