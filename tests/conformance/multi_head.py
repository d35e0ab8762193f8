"""One trunk, three heads: losses of `tf.losses` of different weights, and one normalised by tokens.

Equal on uneven shards. `tf.losses.get_total_loss` adds up what each tower left in the
losses' collection, penalties included. The tagger's loss is a mean over words, not over rows, so
that numerator and denominator are means over towers.
"""

import numpy as np
import tensorflow.compat.v1 as tf

import replicate
from conformance import data, program
from replicate import estimator


def dense(x, units, name, activation=None):
    return tf.layers.dense(
        x,
        units,
        activation,
        kernel_regularizer=tf.keras.regularizers.l2(0.01),
        name=name,
    )


def model_fn(features, labels, mode, params):
    with tf.variable_scope("trunk"):
        table = tf.get_variable("words", [20, 5])
        words = tf.nn.embedding_lookup(table, features["words"])
        mask = tf.cast(tf.sequence_mask(features["lengths"], 6), tf.float32)
        words = dense(words, 6, "hidden", tf.tanh)
        text = tf.reduce_sum(words * mask[..., None], axis=1) / tf.reduce_sum(mask, 1, True)
    with tf.variable_scope("heads"):
        topic, stars, tags = (
            dense(text, 3, "topic"),
            dense(text, 1, "stars"),
            dense(words, 4, "tags"),
        )
    predictions = {"topic": tf.argmax(topic, 1), "stars": stars, "tags": tf.argmax(tags, -1)}
    if mode == estimator.ModeKeys.PREDICT:
        return estimator.EstimatorSpec(
            mode,
            predictions=predictions,
            export_outputs={
                "serving_default": estimator.export.PredictOutput(predictions),
                "stars": estimator.export.RegressionOutput(stars),
            },
        )

    topic_loss = tf.losses.softmax_cross_entropy(labels["topic"], topic, label_smoothing=0.1)
    tf.losses.huber_loss(labels["stars"], stars, weights=0.5, delta=0.3)
    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels["tags"], logits=tags
    )
    sums = replicate.cross_tower_mean(
        [
            tf.reduce_mean(tf.reduce_sum(cross_entropy * mask, 1)),
            tf.reduce_mean(tf.reduce_sum(mask, 1)),
        ]
    )
    tf.losses.add_loss(2.0 * sums[0] / sums[1])
    loss = tf.losses.get_total_loss()
    tf.summary.scalar("topic_loss", topic_loss)
    if mode == estimator.ModeKeys.EVAL:
        metrics = {
            "topic/accuracy": tf.metrics.accuracy(
                tf.argmax(labels["topic"], 1), predictions["topic"]
            ),
            "stars/rmse": tf.metrics.root_mean_squared_error(labels["stars"], stars),
            "tags/accuracy": tf.metrics.accuracy(labels["tags"], predictions["tags"], weights=mask),
            "tags/iou": tf.metrics.mean_iou(labels["tags"], predictions["tags"], 4, weights=mask),
        }
        return estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    # The heads learn faster than the trunk.
    step = tf.train.get_global_step()
    slow = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.1))
    fast = replicate.TowerOptimizer(tf.train.MomentumOptimizer(0.2, 0.9))
    train_op = tf.group(
        slow.minimize(loss, var_list=tf.trainable_variables("trunk")),
        fast.minimize(loss, global_step=step, var_list=tf.trainable_variables("heads")),
    )
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def rows(total):
    words, lengths, _ = data.sentences(total)
    random = np.random.RandomState(8)
    labels = {
        "topic": np.eye(3, dtype=np.float32)[random.randint(0, 3, size=total)],
        "stars": random.uniform(size=(total, 1)).astype(np.float32),
        "tags": random.randint(0, 4, size=words.shape),
    }
    return {"words": words, "lengths": lengths}, labels


PROGRAM = program.Program(program.as_model_fn(model_fn), rows)
