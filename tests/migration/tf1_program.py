"""A training program as people wrote them in 2018, for TensorFlow 1.12; it is not to be modernised.

Only its first lines are new: the import of `tensorflow.compat.v1`, and `install`.
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

import replicate

replicate.compat.install()

FLAGS = None


def cnn_model_fn(features, labels, mode, params):
    """Model function for CNN."""
    input_layer = tf.reshape(features["x"], [-1, 8, 8, 1])
    conv1 = tf.layers.conv2d(
        inputs=input_layer, filters=8, kernel_size=[3, 3], padding="same", activation=tf.nn.relu
    )
    pool1 = tf.layers.max_pooling2d(inputs=conv1, pool_size=[2, 2], strides=2)
    flat = tf.reshape(pool1, [-1, 4 * 4 * 8])
    dense = tf.layers.dense(inputs=flat, units=32, activation=tf.nn.relu)
    dropout = tf.layers.dropout(
        inputs=dense, rate=0.1, training=mode == tf.estimator.ModeKeys.TRAIN
    )
    logits = tf.layers.dense(inputs=dropout, units=3)

    predictions = {
        "classes": tf.argmax(input=logits, axis=1),
        "probabilities": tf.nn.softmax(logits, name="softmax_tensor"),
    }
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode=mode, predictions=predictions)

    loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    accuracy = tf.metrics.accuracy(labels=labels, predictions=predictions["classes"])
    tf.summary.scalar("train_accuracy", accuracy[1])

    if mode == tf.estimator.ModeKeys.TRAIN:
        optimizer = tf.train.MomentumOptimizer(params["learning_rate"], 0.9)
        optimizer = tf.contrib.estimator.TowerOptimizer(optimizer)
        train_op = optimizer.minimize(loss=loss, global_step=tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode=mode, loss=loss, train_op=train_op)

    return tf.estimator.EstimatorSpec(mode=mode, loss=loss, eval_metric_ops={"accuracy": accuracy})


def main(unused_argv):
    x = np.random.RandomState(0).rand(600, 64).astype(np.float32)
    y = np.argmax(x[:, :3], axis=1).astype(np.int32)
    x[np.arange(600), 8 + y] += 2.0

    classifier = tf.estimator.Estimator(
        model_fn=tf.contrib.estimator.replicate_model_fn(
            cnn_model_fn,
            loss_reduction=tf.losses.Reduction.SUM_BY_NONZERO_WEIGHTS,
            devices=["/cpu:0", "/cpu:1"],
        ),
        model_dir=FLAGS.model_dir,
        config=tf.estimator.RunConfig(
            tf_random_seed=1,
            session_config=tf.ConfigProto(device_count={"CPU": 2}, allow_soft_placement=True),
        ),
        params={"learning_rate": 0.05},
    )
    logging_hook = tf.train.LoggingTensorHook(
        tensors={"probabilities": "softmax_tensor"}, every_n_iter=50
    )
    train_input_fn = tf.estimator.inputs.numpy_input_fn(
        x={"x": x}, y=y, batch_size=60, num_epochs=None, shuffle=True
    )
    classifier.train(input_fn=train_input_fn, steps=60, hooks=[logging_hook])

    eval_input_fn = tf.estimator.inputs.numpy_input_fn(x={"x": x}, y=y, num_epochs=1, shuffle=False)
    print("accuracy", classifier.evaluate(input_fn=eval_input_fn)["accuracy"])
    print("predicted", sum(1 for _ in classifier.predict(input_fn=eval_input_fn)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model_dir", type=str, required=True)
    FLAGS, unparsed = parser.parse_known_args()
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.app.run(main=main, argv=[__file__] + unparsed)
