"""`warm_start_from`: another model's embeddings and layers, one of them under a new name.

Equal on uneven shards. Both runs start by themselves: other variables are initialised by the
graph's seed.
"""

import tensorflow.compat.v1 as tf

import replicate
from conformance import data, program
from replicate import estimator


def network(features, head):
    with tf.variable_scope("text", initializer=tf.glorot_uniform_initializer()):
        table = tf.get_variable("embeddings", [20, 4])
        net = tf.reduce_sum(tf.nn.embedding_lookup(table, features), axis=1)
        net = tf.layers.dense(net, 5, tf.tanh, name="dense", kernel_initializer=None)
    initializer = tf.glorot_uniform_initializer()
    return tf.layers.dense(net, 2, name=head, kernel_initializer=initializer)


def make_model_fn(head="new_head", scope=""):
    def model_fn(features, labels, mode, params):
        with tf.variable_scope(scope):
            logits = network(features, head)
        if mode == estimator.ModeKeys.PREDICT:
            return estimator.EstimatorSpec(mode, predictions={"logits": logits})
        loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
        optimizer = replicate.TowerOptimizer(tf.train.AdagradOptimizer(0.05))
        train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
        metrics = {"accuracy": tf.metrics.accuracy(labels, tf.argmax(logits, 1))}
        return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)

    return model_fn


def rows(total):
    words, _, labels = data.sentences(total)
    return words, labels


def pretrain(directory):
    """Trains the model that is started from."""
    config = estimator.RunConfig(tf_random_seed=3, save_summary_steps=None)
    model = estimator.Estimator(
        make_model_fn("old_head", "old"), str(directory / "pretrained"), config
    )
    model.train(lambda: program.UNEVEN.dataset(rows(14)))


def warm_start(directory):
    return estimator.WarmStartSettings(
        str(directory / "pretrained"),
        vars_to_warm_start="text/.*",
        var_name_to_prev_var_name={
            f"text/{name}": f"old/text/{name}"
            for name in ("embeddings", "dense/kernel", "dense/bias")
        },
    )


PROGRAM = program.Program(
    make_model_fn, rows, same_start=False, prepare=pretrain, warm_start=warm_start
)
