"""A GAN as `tf.contrib.gan` trains it: two optimizers, each in a hook, a step of one by one.

The train operation of the spec only counts steps. The hooks are tower 0's, and the operations they
run apply the gradients of all towers. Each hook's run takes a batch of its own. Equal on uneven
shards.
"""

import numpy as np
import tensorflow.compat.v1 as tf

import replicate
from conformance import program
from replicate import estimator


class RunTrainOpsHook(tf.train.SessionRunHook):
    """Runs train operations a number of times before each step."""

    def __init__(self, train_ops, train_steps):
        self.train_ops = train_ops
        self.train_steps = train_steps

    def before_run(self, run_context):
        for _ in range(self.train_steps):
            run_context.session.run(self.train_ops)


def get_sequential_train_hooks(generator_op, discriminator_op):
    return [RunTrainOpsHook(generator_op, 1), RunTrainOpsHook(discriminator_op, 2)]


def generator(noise):
    with tf.variable_scope("Generator", reuse=tf.AUTO_REUSE):
        net = tf.layers.dense(noise, 8, tf.nn.leaky_relu, name="fc1")
        return tf.layers.dense(net, 2, name="fc2")


def discriminator(points):
    with tf.variable_scope("Discriminator", reuse=tf.AUTO_REUSE):
        net = tf.layers.dense(points, 8, tf.nn.leaky_relu, name="fc1")
        return tf.layers.dense(net, 1, name="fc2")


def model_fn(features, labels, mode, params):
    generated = generator(features["noise"])
    if mode == estimator.ModeKeys.PREDICT:
        return estimator.EstimatorSpec(mode, predictions={"points": generated})

    real_logits, fake_logits = discriminator(labels), discriminator(generated)
    cross_entropy = tf.losses.sigmoid_cross_entropy
    generator_loss = cross_entropy(tf.ones_like(fake_logits), fake_logits)
    discriminator_loss = tf.add(
        cross_entropy(tf.ones_like(real_logits), real_logits, label_smoothing=0.1),
        cross_entropy(tf.zeros_like(fake_logits), fake_logits),
        name="discriminator_loss",
    )
    loss = generator_loss + discriminator_loss
    if mode == estimator.ModeKeys.EVAL:
        fooled = tf.metrics.mean(tf.cast(fake_logits > 0, tf.float32))
        return estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"fooled": fooled})

    generator_variables = tf.trainable_variables("Generator")
    discriminator_variables = tf.trainable_variables("Discriminator")
    with tf.name_scope("train"):
        generator_op = replicate.TowerOptimizer(
            tf.train.AdamOptimizer(0.01, beta1=0.5, epsilon=1e-4)
        ).minimize(generator_loss, var_list=generator_variables)
        discriminator_op = replicate.TowerOptimizer(
            tf.train.AdamOptimizer(0.02, beta1=0.5, epsilon=1e-4)
        ).minimize(discriminator_loss, var_list=discriminator_variables)
    return estimator.EstimatorSpec(
        mode,
        loss=loss,
        train_op=tf.train.get_global_step().assign_add(1),
        training_hooks=get_sequential_train_hooks(generator_op, discriminator_op),
    )


def rows(total):
    random = np.random.RandomState(4)
    angle = random.uniform(0, 2 * np.pi, size=total)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
    return {"noise": random.normal(size=(total, 3)).astype(np.float32)}, circle


def drive(model, input_fn, hooks):
    model.train(lambda: input_fn().repeat(), hooks=hooks, steps=5)
    return {}


PROGRAM = program.Program(program.as_model_fn(model_fn), rows, drive=drive)
