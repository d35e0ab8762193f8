"""A subclassed Keras model: nested blocks, `add_loss` from activations, batch norm's updates.

Equal, because batch norm sees the same rows in every shard (a batch is four rows six times over,
with labels that differ), and the loss of activations is a mean over rows.
"""

import tensorflow.compat.v1 as tf

import replicate
from conformance import data, program
from replicate import estimator


class ResidualBlock(tf.keras.layers.Layer):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        penalty = tf.keras.regularizers.l2(0.01)
        # Batch norm's `beta` is the bias.
        self.dense = tf.keras.layers.Dense(units, use_bias=False, kernel_regularizer=penalty)
        self.norm = tf.keras.layers.BatchNormalization()

    def build(self, input_shape):
        self.scale = self.add_weight("scale", [], initializer="ones")
        super().build(input_shape)

    def call(self, x, training=None):
        hidden = tf.nn.relu(self.norm(self.dense(x), training=training))
        self.add_loss(1e-3 * tf.reduce_mean(tf.square(hidden)))
        return x + self.scale * hidden


class Classifier(tf.keras.Model):
    def __init__(self, classes, units=6, blocks=2):
        super().__init__()
        self.stem = tf.keras.layers.Dense(units)
        self.blocks = [ResidualBlock(units, name=f"block_{i}") for i in range(blocks)]
        self.head = tf.keras.layers.Dense(classes)

    def call(self, inputs, training=None):
        x = self.stem(inputs)
        for block in self.blocks:
            x = block(x, training=training)
        return self.head(x)


def model_fn(features, labels, mode, params):
    model = Classifier(classes=3)
    logits = model(features, training=mode == estimator.ModeKeys.TRAIN)
    if mode == estimator.ModeKeys.PREDICT:
        return estimator.EstimatorSpec(mode, predictions={"logits": logits})

    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    loss = tf.reduce_mean(cross_entropy) + tf.math.add_n(model.losses)
    if mode == estimator.ModeKeys.EVAL:
        metrics = {
            "accuracy": tf.metrics.accuracy(labels, tf.argmax(logits, 1)),
            "per_class": tf.metrics.mean_per_class_accuracy(labels, tf.argmax(logits, 1), 3),
        }
        return estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    optimizer = replicate.TowerOptimizer(tf.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True))
    minimize_op = optimizer.minimize(loss, tf.train.get_global_step())
    train_op = tf.group(minimize_op, *model.updates)
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def rows(total):
    x, labels = data.vectors(total)
    return data.tiled(x), labels


PROGRAM = program.Program(program.as_model_fn(model_fn), rows, batches=program.TILED)
