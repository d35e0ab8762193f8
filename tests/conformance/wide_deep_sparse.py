"""Wide and deep by hand: parsed `tf.train.Example`s, sparse features, FTRL beside Adagrad.

Equal on uneven shards. Rows have any number of interests, or none; sparse tensors are split by
rows, and the gradients of both tables are slices.
"""

import numpy as np
import tensorflow.compat.v1 as tf

import replicate
from conformance import program
from replicate import estimator

BUCKETS = 17


def parse(serialized, labels):
    spec = {
        "interests": tf.VarLenFeature(tf.string),
        "clicks": tf.VarLenFeature(tf.int64),
        "times": tf.VarLenFeature(tf.float32),
        "age": tf.FixedLenFeature([1], tf.float32),
    }
    return tf.parse_example(serialized, spec), labels


def model_fn(features, labels, mode, params):
    interests = tf.SparseTensor(
        features["interests"].indices,
        tf.strings.to_hash_bucket_fast(features["interests"].values, BUCKETS),
        features["interests"].dense_shape,
    )
    clicks = features["clicks"]

    with tf.variable_scope("wide"):
        weights = tf.get_variable("weights", [BUCKETS, 1], initializer=tf.zeros_initializer())
        bias = tf.get_variable("bias", [1], initializer=tf.zeros_initializer())
        wide = tf.nn.safe_embedding_lookup_sparse(weights, interests, combiner="sum") + bias
    with tf.variable_scope("deep"):
        table = tf.get_variable("embeddings", [9, 3])
        embedded = tf.nn.embedding_lookup_sparse(
            table,
            clicks,
            tf.SparseTensor(clicks.indices, features["times"].values, clicks.dense_shape),
            combiner="sqrtn",
        )
        deep = tf.layers.dense(tf.concat([embedded, features["age"]], 1), 6, tf.nn.relu)
        deep = tf.layers.dense(deep, 1)
    logits = wide + deep

    if mode == estimator.ModeKeys.PREDICT:
        predictions = {
            "logistic": tf.sigmoid(logits),
            "interests": tf.sparse.to_dense(interests)[:, :1],
        }
        return estimator.EstimatorSpec(mode, predictions=predictions)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    if mode == estimator.ModeKeys.EVAL:
        metrics = {
            "auc_pr": tf.metrics.auc(labels, tf.sigmoid(logits), curve="PR"),
            "label/mean": tf.metrics.mean(labels),
        }
        return estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    ftrl = replicate.TowerOptimizer(tf.train.FtrlOptimizer(0.2, l1_regularization_strength=0.001))
    adagrad = replicate.TowerOptimizer(tf.train.AdagradOptimizer(0.1))
    train_ops = [
        ftrl.minimize(loss, var_list=tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, "wide")),
        adagrad.minimize(
            loss, var_list=tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, "deep")
        ),
    ]
    with tf.control_dependencies([tf.group(*train_ops)]):
        train_op = tf.assign_add(tf.train.get_global_step(), 1).op
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def rows(total):
    random = np.random.RandomState(9)
    serialized = []
    for _ in range(total):
        interests = [b"i%d" % n for n in random.randint(0, 30, size=random.randint(0, 4))]
        clicks = random.randint(0, 9, size=random.randint(1, 4))
        times = random.uniform(0.1, 2, size=len(clicks))
        example = tf.train.Example()
        feature = example.features.feature
        feature["interests"].bytes_list.value.extend(interests)
        feature["clicks"].int64_list.value.extend(clicks)
        feature["times"].float_list.value.extend(times)
        feature["age"].float_list.value.append(random.uniform())
        serialized.append(example.SerializeToString())
    # As objects: an array of bytes would drop zeros at the end of each.
    return np.array(serialized, object), random.randint(0, 2, size=(total, 1)).astype(np.float32)


PROGRAM = program.Program(program.as_model_fn(model_fn), rows, parse=parse)
