"""Trains a model with all that 0.1.0 saved: python training.py DIRECTORY STEP, with either version.

Two towers, momentum, a dynamic loss scale, and updates of two batches. Prints the weights as JSON.
"""

import json
import sys

import numpy as np
import tensorflow as tf

import replicate

tf1 = tf.compat.v1
DEVICES = ("/cpu:0", "/cpu:1")


def input_fn():
    """Returns the rows of batches that differ; the table goes to every tower."""
    random = np.random.RandomState(7)
    inputs = random.normal(size=(90, 3)).astype(np.float32)
    table = np.float32([[1, 2, 3]])
    labels = inputs.dot(np.float32([[1], [-2], [3]]))
    rows = tf1.data.Dataset.from_tensor_slices((inputs, labels)).repeat().batch(9)
    return rows.map(lambda x, y: ({"inputs": x, "table": tf1.constant(table)}, y))


def model_fn(features, labels, mode):
    """A linear model."""
    inputs = features["inputs"] * features["table"]
    with tf1.variable_scope("linear"):
        weights = tf1.get_variable("weights", [3, 1], initializer=tf1.zeros_initializer())
    loss = tf1.losses.mean_squared_error(labels, tf1.matmul(inputs, weights))
    optimizer = replicate.TowerOptimizer(
        tf1.train.MomentumOptimizer(0.01, 0.9),
        accumulate_steps=2,
        loss_scale=replicate.loss_scale.DynamicLossScale(1024.0, increment_period=2),
        gather="round_robin",
    )
    train_op = optimizer.minimize(loss, tf1.train.get_global_step())
    return replicate.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def main(directory, step):
    """Trains until a step; returns the weights, a list."""
    model = replicate.estimator.Estimator(
        replicate.replicate_model_fn(model_fn, devices=DEVICES, whole_features=["table"]),
        directory,
        replicate.estimator.RunConfig(session_config=replicate.session_config(DEVICES)),
    )
    model.train(input_fn, max_steps=step)
    return model.get_variable_value("linear/weights").ravel().tolist()


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]))))
