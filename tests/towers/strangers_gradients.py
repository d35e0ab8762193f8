"""Model functions that change gradients between computing and applying them, in people's styles.

Each takes what those of `contract/models.py` do, and is trained on one device as it is. What is
done to gradients here is not linear in them, or would be noticed if it were done once per tower.
"""

import re

import tensorflow.compat.v1 as tf

from contract import MEAN, SUM
from contract.models import F64, GLOROT, get_variable, optimizer, reduce_rows, step, two_layers
from versions import legacy

# What each can be noticed by: the global norm of these models' gradients is 0.5 to 5.
NORM = 0.1


def network(features, labels, params):
    """Dense weights and an embedding, whose gradient is sparse; returns the loss."""
    table = get_variable("table", [6, 2])
    words = tf.nn.embedding_lookup(table, features["ids"])
    predictions = two_layers(features["x"], get_matrix) + tf.reduce_sum(words**2, [1, 2])[:, None]
    return reduce_rows((predictions - labels) ** 2, params)


def get_matrix(name, shape):
    initializer = GLOROT() if len(shape) > 1 else tf.ones_initializer()
    return get_variable(name, shape, initializer=initializer)


def spec(mode, loss, train_op, **kwargs):
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, **kwargs)


def on_values(function):
    """Returns a change of `(gradient, variable)` pairs that acts on each, dense or sparse."""

    def change(pairs):
        changed = []
        for grad, var in pairs:
            if isinstance(grad, tf.IndexedSlices):
                grad = tf.IndexedSlices(function(grad.values), grad.indices, grad.dense_shape)
            elif grad is not None:
                grad = function(grad)
            changed.append((grad, var))
        return changed

    return change


def on_dense(function):
    """Like `on_values`, of sparse gradients that are made dense first."""

    def change(pairs):
        return [(function(tf.convert_to_tensor(grad)), var) for grad, var in pairs]

    return change


def clip_global(pairs):
    grads, variables = zip(*pairs)
    clipped, norm = tf.clip_by_global_norm(grads, NORM)
    tf.summary.scalar("norm", norm)
    return list(zip(clipped, variables))


def clip_each(pairs):
    return [(tf.clip_by_norm(grad, NORM), var) for grad, var in pairs if grad is not None]


def add_noise(grad):
    return grad + 0.1 * tf.random.stateless_normal(tf.shape(grad), [7, 3], dtype=grad.dtype)


def multiply(pairs):
    """Learning rates by name, as in layer-wise decay, and weight decay added by hand."""
    changed = []
    for grad, var in pairs:
        rate = 0.1 if re.search("w|table", var.name) else 2.0
        if isinstance(grad, tf.IndexedSlices):
            grad = tf.IndexedSlices(grad.values * rate, grad.indices, grad.dense_shape)
        else:
            grad = grad * rate + 0.01 * tf.convert_to_tensor(var)
        changed.append((grad, var))
    return changed


def clip_if_large(pairs):
    """Divides by the norm if that is large, as code from before `clip_by_global_norm` does."""
    grads, variables = zip(*on_dense(tf.identity)(pairs))
    norm = tf.global_norm(grads)
    kept = tf.cond(norm > NORM, lambda: [g / norm * NORM for g in grads], lambda: list(grads))
    return list(zip(kept, variables))


def skip_if_spiking(pairs):
    """Zeroes gradients in steps whose first gradient is above a bound, sparse ones by `scatter`."""
    grads, variables = zip(*on_dense(tf.identity)(pairs))
    largest = tf.reduce_max([tf.reduce_max(tf.abs(g)) for g in grads])
    keep = tf.cast(largest < 1.5, F64)
    return [(keep * g, v) for g, v in zip(grads, variables)]


def centralize(grad):
    return grad - tf.reduce_mean(grad, 0, keepdims=True) if grad.shape.rank > 1 else grad


def remember(pairs):
    """Momentum by hand, in variables of the model's own."""
    changed, updates = [], []
    for grad, var in on_dense(tf.identity)(pairs):
        velocity = get_variable(
            "velocity/" + var.op.name,
            var.shape.as_list(),
            initializer=tf.zeros_initializer(),
            trainable=False,
        )
        updates.append(velocity.assign(0.9 * velocity + tf.sign(grad)))
        changed.append((updates[-1], var))
    return changed


CHANGES = {
    "clip_by_global_norm": clip_global,
    "clip_by_norm": clip_each,
    "clip_by_value": on_values(lambda grad: tf.clip_by_value(grad, -0.02, 0.02)),
    "sign": on_values(tf.sign),
    "sign_of_dense": on_dense(tf.sign),
    "noise": on_dense(add_noise),
    "l2_normalize": on_dense(tf.math.l2_normalize),
    "multipliers": multiply,
    "cond": clip_if_large,
    "skip": skip_if_spiking,
    "centralize": on_dense(centralize),
    "momentum_by_hand": remember,
}


def computed(loss_fn, opt):
    return opt.compute_gradients(loss_fn())


def by_hand(loss_fn, opt):
    loss = loss_fn()
    tvars = tf.trainable_variables()
    return zip(tf.gradients(loss, tvars), tvars)


def taped(loss_fn, opt):
    with tf.GradientTape() as tape:
        loss = loss_fn()
    tvars = tf.trainable_variables()
    return zip(tape.gradient(loss, tvars), tvars)


def one_by_one(loss_fn, opt):
    loss = loss_fn()
    return [(tf.gradients(loss, v)[0], v) for v in tf.trainable_variables()]


def from_keras(loss_fn, opt):
    loss = loss_fn()
    variables = tf.trainable_variables()
    return zip(legacy.SGD(0.1).get_gradients(loss, variables), variables)


MAKERS = {
    "compute_gradients": computed,
    "tf.gradients": by_hand,
    "tape": taped,
    "one by one": one_by_one,
    "keras": from_keras,
}


def changing(make, change):
    """Returns a `model_fn` that makes gradients in one way and changes them in another."""

    def model_fn(features, labels, mode, params):
        losses = []

        def loss_fn():
            losses.append(network(features, labels, params))
            return losses[0]

        opt = optimizer(params)
        pairs = change(list(make(loss_fn, opt)))
        return spec(mode, losses[0], opt.apply_gradients(pairs, global_step=step()))

    return model_fn


def create_train_op(total_loss, optimizer, clip_gradient_norm, gradient_multipliers):
    """`slim.learning.create_train_op`, written out."""
    global_step = tf.train.get_or_create_global_step()
    update_ops = set(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
    if update_ops:
        with tf.control_dependencies(update_ops):
            barrier = tf.no_op(name="update_barrier")
        with tf.control_dependencies([barrier]):
            total_loss = tf.identity(total_loss)
    grads = optimizer.compute_gradients(
        total_loss, tf.trainable_variables(), gate_gradients=tf.train.Optimizer.GATE_OP
    )
    multiplied = []
    for grad, var in grads:
        if var.op.name in gradient_multipliers:
            multiplier = tf.cast(gradient_multipliers[var.op.name], grad.dtype)
            if isinstance(grad, tf.IndexedSlices):
                grad = tf.IndexedSlices(grad.values * multiplier, grad.indices, grad.dense_shape)
            else:
                grad *= multiplier
        multiplied.append((grad, var))
    clipped = []
    for grad, var in multiplied:
        if isinstance(grad, tf.IndexedSlices):
            values = tf.clip_by_norm(grad.values, clip_gradient_norm)
            grad = tf.IndexedSlices(values, grad.indices, grad.dense_shape)
        else:
            grad = tf.clip_by_norm(grad, clip_gradient_norm)
        clipped.append((grad, var))
    for grad, var in clipped:
        values = grad.values if isinstance(grad, tf.IndexedSlices) else grad
        tf.summary.histogram(var.op.name + "/gradient", values)
        tf.summary.scalar(var.op.name + "/gradient_norm", tf.global_norm([values]))
    applied = optimizer.apply_gradients(clipped, global_step=global_step)
    with tf.name_scope("train_op"):
        total_loss = tf.check_numerics(total_loss, "LossTensor is inf or nan")
        with tf.control_dependencies([applied]):
            return tf.identity(total_loss)


def slim(features, labels, mode, params):
    loss = network(features, labels, params)
    opt = optimizer(params)
    return spec(mode, loss, create_train_op(loss, opt, 0.5, {"w": 0.1, "table": 3.0}))


class AdamWeightDecayOptimizer(tf.train.Optimizer):
    """BERT's, as published."""

    def __init__(self, learning_rate, weight_decay_rate=0.01, epsilon=1e-6):
        super().__init__(False, "AdamWeightDecayOptimizer")
        self.learning_rate = learning_rate
        self.weight_decay_rate = weight_decay_rate
        self.beta_1, self.beta_2 = tf.constant(0.9, F64), tf.constant(0.999, F64)
        self.epsilon = epsilon
        self.exclude_from_weight_decay = ["LayerNorm", "layer_norm", "bias"]

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        assignments = []
        for grad, param in grads_and_vars:
            if grad is None or param is None:
                continue
            param_name = re.match("^(.*):\\d+$", param.name).group(1)
            m = self._slot(param_name + "/adam_m", param)
            v = self._slot(param_name + "/adam_v", param)
            next_m = tf.multiply(self.beta_1, m) + tf.multiply(1.0 - self.beta_1, grad)
            next_v = tf.multiply(self.beta_2, v) + tf.multiply(1.0 - self.beta_2, tf.square(grad))
            update = next_m / (tf.sqrt(next_v) + self.epsilon)
            if not any(re.search(r, param_name) for r in self.exclude_from_weight_decay):
                update += self.weight_decay_rate * param
            update_with_lr = self.learning_rate * update
            next_param = param - update_with_lr
            assignments.extend([param.assign(next_param), m.assign(next_m), v.assign(next_v)])
        return tf.group(*assignments, name=name)

    @staticmethod
    def _slot(name, param):
        return tf.get_variable(
            name=name,
            shape=param.shape.as_list(),
            dtype=param.dtype.base_dtype,
            trainable=False,
            initializer=tf.zeros_initializer(),
        )


def bert(features, labels, mode, params):
    """`optimization.create_optimizer` of BERT, with its warm-up."""
    loss = network(features, labels, params)
    global_step = tf.train.get_or_create_global_step()
    learning_rate = tf.train.polynomial_decay(tf.constant(0.05, F64), global_step, 10, 0.0)
    is_warmup = tf.cast(global_step < 2, F64)
    warmup = 0.05 * tf.cast(global_step + 1, F64) / 2.0
    learning_rate = (1.0 - is_warmup) * learning_rate + is_warmup * warmup
    opt = params["wrap"](AdamWeightDecayOptimizer(learning_rate))
    tvars = tf.trainable_variables()
    grads = tf.gradients(loss, tvars)
    (grads, _) = tf.clip_by_global_norm(grads, clip_norm=1.0)
    grads = [tf.convert_to_tensor(grad) for grad in grads]
    train_op = opt.apply_gradients(zip(grads, tvars), global_step=global_step)
    with tf.control_dependencies([train_op]):  # Whose rate may read the step later otherwise.
        new_global_step = global_step + 1
        return spec(mode, loss, tf.group(train_op, [global_step.assign(new_global_step)]))


def two_players(features, labels, mode, params):
    """A generator and a critic, each clipped by its own optimizer, one after the other."""
    with tf.variable_scope("generator"):
        fake = two_layers(features["x"], get_matrix)
    with tf.variable_scope("critic"):
        score = tf.tanh(fake * get_matrix("w", [1, 1]) + features["x"] @ get_matrix("u", [4, 1]))
    critic_loss = reduce_rows((score - labels) ** 2, params)
    generator_loss = reduce_rows((fake - labels) ** 2 - 0.1 * score, params)
    ops = []
    for scope, loss in (("critic", critic_loss), ("generator", generator_loss)):
        mine = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope)
        opt = optimizer(params)
        pairs = clip_global(opt.compute_gradients(loss, var_list=mine))
        with tf.control_dependencies(ops[:]):
            ops.append(opt.apply_gradients(pairs, step() if scope == "generator" else None))
    return spec(mode, generator_loss, tf.group(*ops))


@tf.custom_gradient
def clip_what_flows_back(x):
    return tf.identity(x), lambda dy: tf.clip_by_value(dy, -0.01, 0.01)


@tf.custom_gradient
def normalize_rows_that_flow_back(x):
    def grad(dy):
        norms = tf.norm(dy, axis=1, keepdims=True)
        return dy * tf.minimum(tf.ones_like(norms), 0.02 / (norms + 1e-12))

    return x * 1.0, grad


def flowing_back(function, dtype=F64):
    """Returns a `model_fn` of a backward pass that is not linear."""

    def model_fn(features, labels, mode, params):
        x, y = tf.cast(features["x"], dtype), tf.cast(labels, dtype)
        w = tf.cast(get_matrix("w", [4, 3]), dtype)
        hidden = tf.tanh(function(x @ w))
        predictions = hidden @ tf.cast(get_matrix("v", [3, 1]), dtype)
        loss = reduce_rows(tf.cast((predictions - y) ** 2, F64), params)
        return spec(mode, loss, optimizer(params).minimize(loss, step()))

    return model_fn


OTHERS = {
    "slim": slim,
    "bert": bert,
    "two players": two_players,
    "clipped backward pass": flowing_back(clip_what_flows_back),
    "normalized backward pass": flowing_back(normalize_rows_that_flow_back),
}
REDUCTIONS = {"mean": MEAN, "sum": SUM}
