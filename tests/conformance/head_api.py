"""Estimator's own heads put together by `MultiHead`, over logits of a network by hand.

These heads' losses are means over rows, and so are the means of batches' losses, `loss/color` and
such, that `MultiHead` reports. Equal on uneven shards.
"""

import numpy as np
import tensorflow.compat.v1 as tf

import replicate
from conformance import data, program
from replicate import estimator


def model_fn(features, labels, mode, config):
    heads = [
        estimator.MultiClassHead(n_classes=3, name="color"),
        estimator.RegressionHead(label_dimension=2, name="size"),
    ]
    head = estimator.MultiHead(heads, head_weights=[1.0, 2.0])
    hidden = tf.layers.dense(features["x"], 8, tf.nn.elu)
    logits = {one.name: tf.layers.dense(hidden, one.logits_dimension) for one in heads}
    optimizer = replicate.TowerOptimizer(tf.train.AdagradOptimizer(0.05))

    def train_op_fn(loss):
        return optimizer.minimize(loss, global_step=tf.train.get_global_step())

    return head.create_estimator_spec(
        features=features, mode=mode, labels=labels, logits=logits, train_op_fn=train_op_fn
    )


def rows(total):
    x, color = data.vectors(total)
    random = np.random.RandomState(8)
    labels = {
        "color": color[:, None],
        "size": random.normal(size=(total, 2)).astype(np.float32),
    }
    return {"x": x}, labels


PROGRAM = program.Program(program.as_model_fn(model_fn), rows)
