"""BERT's fine-tuning recipe: a transformer block, AdamW by hand, a clipped norm, warm-up and decay.

Equal on uneven shards once the norm is clipped of the gathered gradients: the recipe's
`clip_by_global_norm` before `apply_gradients` is `clip_norm` of the `TowerOptimizer`, since
clipping does not commute with the sum over towers. One device runs the recipe as it was, the
order of its last line apart.
"""

import re

import tensorflow.compat.v1 as tf

import replicate
from conformance import data, program
from replicate import estimator


class AdamWeightDecayOptimizer(tf.train.Optimizer):
    """Adam with decoupled weight decay and no correction of its moments' bias."""

    def __init__(self, learning_rate, weight_decay_rate, exclude_from_weight_decay):
        super().__init__(False, "AdamWeightDecayOptimizer")
        self.learning_rate = learning_rate
        self.weight_decay_rate = weight_decay_rate
        self.exclude = exclude_from_weight_decay

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        assignments = []
        for grad, param in grads_and_vars:
            if grad is None or param is None:
                continue
            param_name = re.sub(r":\d+$", "", param.name)
            m, v = (
                tf.get_variable(
                    f"{param_name}/{slot}",
                    shape=param.shape.as_list(),
                    dtype=tf.float32,
                    trainable=False,
                    initializer=tf.zeros_initializer(),
                )
                for slot in ("adam_m", "adam_v")
            )
            next_m = tf.multiply(0.9, m) + tf.multiply(0.1, grad)
            next_v = tf.multiply(0.999, v) + tf.multiply(0.001, tf.square(grad))
            update = next_m / (tf.sqrt(next_v) + 1e-6)
            if not any(re.search(pattern, param_name) for pattern in self.exclude):
                update += self.weight_decay_rate * param
            next_param = param - self.learning_rate * update
            assignments += [param.assign(next_param), m.assign(next_m), v.assign(next_v)]
        return tf.group(*assignments, name=name)


def make_optimizer(init_lr, num_train_steps, num_warmup_steps):
    global_step = tf.train.get_or_create_global_step()
    learning_rate = tf.train.polynomial_decay(
        tf.constant(init_lr), global_step, num_train_steps, end_learning_rate=0.0, power=1.0
    )
    warmup = tf.cast(global_step, tf.float32) / num_warmup_steps
    is_warmup = tf.cast(global_step < num_warmup_steps, tf.float32)
    learning_rate = (1.0 - is_warmup) * learning_rate + is_warmup * init_lr * warmup
    tf.summary.scalar("learning_rate", learning_rate)
    return AdamWeightDecayOptimizer(learning_rate, 0.01, ["LayerNorm", "layer_norm", "bias"])


def create_optimizer(loss, *schedule):
    """The train operation of the recipe."""
    global_step = tf.train.get_or_create_global_step()
    tvars = tf.trainable_variables()
    grads, _ = tf.clip_by_global_norm(tf.gradients(loss, tvars), clip_norm=1.0)
    train_op = make_optimizer(*schedule).apply_gradients(zip(grads, tvars))
    # Afterwards, where BERT leaves the order open: its learning rate may see the next step.
    with tf.control_dependencies([train_op]):
        return global_step.assign(global_step + 1).op


def create_tower_optimizer(loss, *schedule):
    """The same for towers."""
    global_step = tf.train.get_or_create_global_step()
    tvars = tf.trainable_variables()
    optimizer = replicate.TowerOptimizer(make_optimizer(*schedule), clip_norm=1.0)
    train_op = optimizer.apply_gradients(zip(tf.gradients(loss, tvars), tvars))
    # Afterwards, where BERT leaves the order open: its learning rate may see the next step.
    with tf.control_dependencies([train_op]):
        return global_step.assign(global_step + 1).op


def normal():
    return tf.truncated_normal_initializer(stddev=0.1)


def dense(x, units, name, activation=None):
    # Softmax does not see a bias of keys; Adam would make steps of its gradient's rounding errors.
    use_bias = name != "key"
    return tf.layers.dense(x, units, activation, use_bias, normal(), name=name)


def layer_norm(x):
    with tf.variable_scope("LayerNorm"):
        gamma = tf.get_variable("gamma", x.shape[-1:], initializer=tf.ones_initializer())
        beta = tf.get_variable("beta", x.shape[-1:], initializer=tf.zeros_initializer())
        mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
        return (x - mean) * tf.rsqrt(variance + 1e-6) * gamma + beta


def attention(x, mask, heads):
    batch, length, width = tf.shape(x)[0], x.shape[1], x.shape[2]

    def split(name):
        projected = tf.reshape(dense(x, width, name), [batch, length, heads, width // heads])
        return tf.transpose(projected, [0, 2, 1, 3])

    scores = tf.matmul(split("query"), split("key"), transpose_b=True)
    scores = scores / (int(width) // heads) ** 0.5 + (1.0 - mask[:, None, None, :]) * -10000.0
    context = tf.transpose(tf.nn.softmax(scores) @ split("value"), [0, 2, 1, 3])
    return tf.reshape(context, [batch, length, width])


def bert(input_ids, input_mask, vocabulary, width=8):
    with tf.variable_scope("bert"):
        with tf.variable_scope("embeddings"):
            words = tf.get_variable("word_embeddings", [vocabulary, width], initializer=normal())
            positions = tf.get_variable("position_embeddings", [6, width], initializer=normal())
            # BERT's `use_one_hot_embeddings`. Of a gradient in slices, `clip_by_global_norm` takes
            # a norm in which slices of one row are not added up; `clip_norm` adds them up.
            x = layer_norm(tf.one_hot(input_ids, vocabulary) @ words + positions)
        with tf.variable_scope("encoder/layer_0"):
            with tf.variable_scope("attention"):
                x = layer_norm(x + dense(attention(x, input_mask, heads=2), width, "output"))
            hidden = dense(x, 2 * width, "intermediate", tf.nn.relu)
            x = layer_norm(x + dense(hidden, width, "output"))
        return dense(x[:, 0], width, "pooler", tf.tanh)


def model_fn_builder(train):
    def model_fn(features, labels, mode, params):
        pooled = bert(features["input_ids"], features["input_mask"], vocabulary=20)
        weights = tf.get_variable("output_weights", [2, 8], initializer=normal())
        bias = tf.get_variable("output_bias", [2], initializer=tf.zeros_initializer())
        logits = tf.nn.bias_add(tf.matmul(pooled, weights, transpose_b=True), bias)
        if mode == estimator.ModeKeys.PREDICT:
            predictions = {"probabilities": tf.nn.softmax(logits)}
            return estimator.EstimatorSpec(mode, predictions=predictions)

        log_probs = tf.nn.log_softmax(logits, axis=-1)
        one_hot = tf.one_hot(labels, depth=2)
        per_example_loss = -tf.reduce_sum(one_hot * log_probs, axis=-1)
        loss = tf.reduce_mean(per_example_loss)
        if mode == estimator.ModeKeys.EVAL:
            real = features["is_real_example"]
            predicted = tf.argmax(logits, axis=-1, output_type=tf.int32)
            metrics = {
                "eval_accuracy": tf.metrics.accuracy(labels, predicted, weights=real),
                "eval_loss": tf.metrics.mean(values=per_example_loss, weights=real),
            }
            return estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

        train_op = train(loss, params["learning_rate"], 10, 2)
        return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


def rows(total):
    words, lengths, labels = data.sentences(total)
    features = {
        "input_ids": words,
        "input_mask": (words > 0).astype("float32"),
        "is_real_example": (lengths > 2).astype("float32"),
    }
    return features, labels.astype("int32")


PROGRAM = program.Program(
    lambda: model_fn_builder(create_tower_optimizer),
    rows,
    make_original=lambda: model_fn_builder(create_optimizer),
    params=(("learning_rate", 0.01),),
)
