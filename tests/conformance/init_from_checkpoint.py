"""`tf.train.init_from_checkpoint` in `model_fn`, with an assignment map made of the variables.

Equal on uneven shards. Both runs start by themselves: what the checkpoint lacks is initialised by
the graph's seed.
"""

import collections
import pathlib

import tensorflow.compat.v1 as tf

import replicate
from conformance import data, program
from replicate import estimator


def encoder(x, scope):
    with tf.variable_scope(scope):
        initializer = tf.glorot_uniform_initializer()
        net = tf.layers.dense(x, 6, tf.tanh, name="layer_0", kernel_initializer=initializer)
        return tf.layers.dense(net, 5, tf.tanh, name="layer_1", kernel_initializer=initializer)


def get_assignment_map_from_checkpoint(tvars, init_checkpoint, prefix):
    """Maps tensors of the checkpoint to the variables of this model, as BERT does."""
    names = {variable.op.name: variable for variable in tvars}
    assignment_map = collections.OrderedDict()
    for name, _ in tf.train.list_variables(init_checkpoint):
        if prefix + name in names:
            assignment_map[name] = prefix + name
    return assignment_map


def model_fn(features, labels, mode, params):
    logits = tf.layers.dense(
        encoder(features, "model/encoder"),
        3,
        kernel_initializer=tf.truncated_normal_initializer(stddev=0.1),
    )
    tvars = tf.trainable_variables()
    checkpoint = tf.train.latest_checkpoint(str(pathlib.Path(params["directory"]) / "pretrained"))
    mapped = get_assignment_map_from_checkpoint(tvars, checkpoint, "model/")
    tf.train.init_from_checkpoint(checkpoint, mapped)
    for variable in tvars:
        found = variable.op.name in mapped.values()
        tf.logging.info("  name = %s%s", variable.name, ", *INIT_FROM_CKPT*" if found else "")
    if mode == estimator.ModeKeys.PREDICT:
        return estimator.EstimatorSpec(mode, predictions={"logits": logits})

    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    metrics = {"accuracy": tf.metrics.accuracy(labels, tf.argmax(logits, 1))}
    # The encoder is frozen except its last layer.
    trained = [variable for variable in tvars if "layer_0" not in variable.name]
    optimizer = replicate.TowerOptimizer(tf.train.MomentumOptimizer(0.1, 0.9))
    train_op = optimizer.minimize(loss, tf.train.get_global_step(), var_list=trained)
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def rows(total):
    return data.vectors(total)


def pretrain(directory):
    """Saves an encoder, as a plain session does."""
    encoder(tf.placeholder(tf.float32, [None, 5]), "encoder")
    tf.set_random_seed(3)
    (directory / "pretrained").mkdir()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, str(directory / "pretrained" / "encoder"))


PROGRAM = program.Program(program.as_model_fn(model_fn), rows, same_start=False, prepare=pretrain)
