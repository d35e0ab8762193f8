"""`MultiHead` given an optimizer, one line changed: `create_estimator_spec(optimizer=...)`.

Equal on uneven shards.
"""

import tensorflow.compat.v1 as tf

from conformance import head_api, program
from replicate import estimator
from versions import legacy


def model_fn(features, labels, mode):
    heads = [
        estimator.MultiClassHead(n_classes=3, name="color"),
        estimator.RegressionHead(label_dimension=2, name="size"),
    ]
    head = estimator.MultiHead(heads, head_weights=[1.0, 2.0])
    hidden = tf.layers.dense(features["x"], 8, tf.nn.elu)
    optimizer = legacy.Adagrad(0.05)
    optimizer.iterations = tf.train.get_or_create_global_step()
    return head.create_estimator_spec(
        features=features,
        mode=mode,
        labels=labels,
        logits={one.name: tf.layers.dense(hidden, one.logits_dimension) for one in heads},
        optimizer=optimizer,
        trainable_variables=tf.trainable_variables(),
    )


PROGRAM = program.Program(program.as_model_fn(model_fn), head_api.rows)
