"""Model functions of strangers: penalties by hand, tables, random numbers, and scopes.

Each takes what those of `contract/models.py` do. What changes gradients is in
`strangers_gradients.py`, what keeps variables of its own in `strangers_state.py`.
"""

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.ops import lookup_ops  # TensorFlow 1.15 has no public name for them.

import replicate
from contract.models import F64, optimizer, reduce_rows, step
from towers.strangers_gradients import flowing_back, spec
from towers.strangers_state import linear, mean_square, trained, untrained


def penalized(combine):
    """Returns a `model_fn` whose penalty is added by hand."""

    def model_fn(features, labels, mode, params):
        loss = mean_square(linear(features), labels, params)
        penalties = [tf.nn.l2_loss(v) for v in tf.trainable_variables()]
        total = combine(loss, penalties[0])
        return spec(mode, total, optimizer(params).minimize(total, step()))

    return model_fn


def penalized_tape(features, labels, mode, params):
    with tf.GradientTape() as tape:
        loss = mean_square(linear(features), labels, params)
        total = loss + 0.1 * tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables()])
    variables = tf.trainable_variables()
    opt = optimizer(params)
    pairs = zip(tape.gradient(total, variables), variables)
    return spec(mode, total, opt.apply_gradients(pairs, step()))


def penalized_by_gradients(features, labels, mode, params):
    """The penalty's gradient is made by itself, and added."""
    loss = mean_square(linear(features), labels, params)
    tvars = tf.trainable_variables()
    decay = 0.1 * tf.add_n([tf.nn.l2_loss(v) for v in tvars])
    grads = [g + d for g, d in zip(tf.gradients(loss, tvars), tf.gradients(decay, tvars))]
    return spec(mode, loss + decay, optimizer(params).apply_gradients(zip(grads, tvars), step()))


def uncertainty(combine):
    """Weights of tasks that are learnt, as by Kendall et al. (2018)."""

    def model_fn(features, labels, mode, params):
        loss = mean_square(linear(features), labels, params)
        sigma = tf.get_variable("sigma", [], F64, tf.constant_initializer(1.5))
        total = combine(loss, sigma)
        return spec(mode, total, optimizer(params).minimize(total, step()))

    return model_fn


PENALTIES = {
    "uncertainty, times": uncertainty(lambda loss, s: loss * tf.exp(-s) + s),
    "uncertainty, divided": uncertainty(lambda loss, s: loss / (2.0 * s**2) + tf.log(s)),
    "uncertainty, no term": uncertainty(lambda loss, s: loss * tf.exp(-s)),
    "plus": penalized(lambda loss, l2: loss + 0.1 * l2),
    "plus, first": penalized(lambda loss, l2: l2 * 0.1 + loss),
    "add_n": penalized(lambda loss, l2: tf.add_n([loss, 0.1 * l2, 0.05 * l2])),
    "minus": penalized(lambda loss, l2: loss - 0.1 * l2),
    "from a constant": penalized(lambda loss, l2: 3.0 - (2.0 - loss - 0.1 * l2)),
    "scaled": penalized(lambda loss, l2: 0.5 * (loss + 0.1 * l2)),
    "divided": penalized(lambda loss, l2: (loss + 0.1 * l2) / 2.0),
    "scaled by a weight": penalized(lambda loss, l2: (loss + 0.1 * l2) * tf.exp(l2)),
    "negated": penalized(lambda loss, l2: -(-loss - 0.1 * l2)),
    "stacked": penalized(lambda loss, l2: tf.reduce_sum(tf.stack([loss, 0.1 * l2]))),
    "python sum": penalized(lambda loss, l2: sum([loss, 0.1 * l2])),
    "named": penalized(lambda loss, l2: tf.identity(tf.identity(loss + 0.1 * l2), name="total")),
    "accumulate_n": penalized(lambda loss, l2: tf.math.accumulate_n([loss, 0.1 * l2])),
    "checked": penalized(lambda loss, l2: tf.check_numerics(loss + 0.1 * l2, "no number")),
    "in a shape": penalized(lambda loss, l2: tf.reshape(loss + 0.1 * l2, [])),
    "in float32": penalized(lambda loss, l2: tf.cast(tf.cast(loss + 0.1 * l2, F64), F64)),
    "tape": penalized_tape,
    "gradients": penalized_by_gradients,
}


def scoped(scope):
    """An optimizer under a scope that starts names from the top."""

    def model_fn(features, labels, mode, params):
        with tf.name_scope("model"):
            loss = mean_square(linear(features), labels, params)
            with tf.name_scope(scope):
                train_op = optimizer(params).minimize(loss, step())
        return spec(mode, loss, train_op)

    return model_fn


SCOPES = {"None": scoped(None), "empty": scoped("")}


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
        # Added up after the step: what all of the table is.
        with tf.control_dependencies([trained_op(features, labels, params)[1]]):
            kept = seen.assign(everything)
        loss = trained_op.loss
        return spec(mode, loss, tf.group(kept))

    return model_fn


def trained_op(features, labels, params):
    loss = mean_square(linear(features), labels, params)
    trained_op.loss = loss
    return loss, optimizer(params).minimize(loss, step())


def dense_table():
    return tf.lookup.experimental.DenseHashTable(
        tf.int64, F64, tf.constant(0.0, F64), empty_key=-1, deleted_key=-2
    )


def mutable_table():
    return lookup_ops.MutableHashTable(tf.int64, F64, tf.constant(0.0, F64))


TABLES = {
    "dense-rows": table(dense_table, True),
    "dense-no rows": table(dense_table, False),
    "mutable-rows": table(mutable_table, True),
    "mutable-no rows": table(mutable_table, False),
}


@tf.custom_gradient
def clip_half(x):
    return tf.identity(x), lambda dy: tf.clip_by_value(dy, -0.01, 0.01)


HALF = flowing_back(clip_half, tf.float16)


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


def divided_by_rows(grads, features):
    return [g / tf.cast(tf.shape(features["x"])[0], F64) for g in grads]


def scaled_by_mean(grads, features):
    return [g * tf.reduce_mean(features["x"]) for g in grads]


def divided_by_all_rows(grads, features):
    rows = replicate.cross_tower_sum(tf.shape(features["x"])[0])
    return [g / tf.cast(rows, F64) for g in grads]


def mixing(mix):
    def model_fn(features, labels, mode, params):
        loss = mean_square(linear(features), labels, params)
        tvars = tf.trainable_variables()
        grads = mix(tf.gradients(loss, tvars), features)
        train_op = optimizer(params).apply_gradients(zip(grads, tvars), step())
        return spec(mode, loss, train_op)

    return model_fn


def twice_differentiated(make):
    """Returns a `model_fn` that punishes the norm of its own gradients of weights."""

    def model_fn(features, labels, mode, params):
        loss, opt = mean_square(linear(features), labels, params), optimizer(params)
        tvars = tf.trainable_variables()
        total = loss + 0.1 * tf.add_n([tf.nn.l2_loss(g) for g in make(loss, tvars, opt)])
        return spec(mode, total, opt.minimize(total, step()))

    return model_fn


def hessian_product(features, labels, mode, params):
    loss, opt = mean_square(linear(features), labels, params), optimizer(params)
    (w,) = tf.trainable_variables()
    (grad,) = tf.gradients(loss, [w])
    (product,) = tf.gradients(tf.reduce_sum(grad * np.ones([4, 1])), [w])
    return spec(mode, loss, opt.apply_gradients([(product, w)], step()))


def summed_baseline(features, labels, mode, params):
    """A baseline of `cross_tower_mean` and `cross_tower_sum`, without a merge function."""
    mean, rows = untrained("mean", []), untrained("rows", [])
    x = features["x"]
    updates = [
        mean.assign(0.9 * mean + 0.1 * replicate.cross_tower_mean(tf.reduce_mean(x))),
        rows.assign_add(tf.cast(replicate.cross_tower_sum(tf.shape(x)[0]), F64)),
    ]
    return trained(mean_square(linear(features), labels, params), params, mode, updates)


def assigned_weight(features, labels, mode, params):
    """A weight that is assigned what follows from rows, as data-dependent initialisation is."""
    loss = mean_square(linear(features), labels, params)
    (w,) = tf.trainable_variables()
    with tf.control_dependencies([loss]):  # Which may read it later otherwise.
        update = w.assign(w * 0.5 + tf.transpose(features["x"][:1]))
    return trained(loss, params, mode, [update])


MIXED = {
    "divided by rows": mixing(divided_by_rows),
    "divided by the rows of all": mixing(divided_by_all_rows),
    "scaled by a mean": mixing(scaled_by_mean),
    "assigned weight": assigned_weight,
}
TWICE = {
    "gradients": twice_differentiated(lambda loss, tvars, opt: tf.gradients(loss, tvars)),
    "compute_gradients": twice_differentiated(
        lambda loss, tvars, opt: [g for g, _ in opt.compute_gradients(loss)]
    ),
    "hessian": hessian_product,
}


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


def branching(features, labels, mode, params):
    loss = reduce_rows((linear(features) - labels) ** 2, params)
    if replicate.tower_index() == 0:
        tf.summary.scalar("loss", loss)
    return trained(loss, params, mode)
