"""Ways to the gradients of a RevNet that differ in what they keep of the forward pass.

A *step* is a function without arguments that computes the gradients for one batch. All ways train
the same network; from the same seed they give the same gradients up to rounding.
"""

import dataclasses
import functools

import tensorflow.compat.v1 as tf

from examples.revnet.network.model import RevNet
from examples.revnet.network.stages import Saved


def make(config, way, engine, batch_size):
    """Makes a network and a step of it, on random images.

    Args:
        config: A `RevNetConfig`; `recompute` is set as the way takes it.
        way: `'stored'` is plain backpropagation; `'recompute_grad'` that with `tf.recompute_grad`
            around each unit; `'recomputed'` the gradients of the model by a tape; `'by hand'` those
            of its `compute_gradients`.
        engine: `'eager'`, `'function'` for `tf.function`, or `'graph'` for a session, in which
            case the caller is in the graph.
        batch_size: Images of the batch.

    Returns:
        The model, and its step, which returns the gradients in the order of `trainable_variables`.
    """
    model, step = build(config, way, batch_size)
    if engine == "graph":
        return model, _in_session(model, step())
    return model, tf.function(step) if engine == "function" else step


def build(config, way, batch_size):
    """Makes a network and a step of it, which is to be called eagerly or in a graph.

    Args:
        config: As of `make`.
        way: Likewise.
        batch_size: Likewise.

    Returns:
        The model and its step.
    """
    model = RevNet(dataclasses.replace(config, recompute=way in ("recomputed", "by hand")))
    if way == "recompute_grad":
        model.body.train = functools.partial(_train_checkpointed, model.body)
    images, labels = batch(config, batch_size)

    def step():
        if way == "by hand":
            _, saved = model(images, training=True)
            return model.compute_gradients(saved, labels)[0]
        with tf.GradientTape() as tape:
            loss = model.training_loss(labels, model(images, training=True)[0])
        return tape.gradient(loss, model.trainable_variables)

    return model, step


def batch(config, batch_size):
    """Returns random images, as the configuration wants them, and labels, int32."""
    shape = list(config.image_shape)
    if config.data_format == "channels_first":
        shape = [shape[2], *shape[:2]]
    images = tf.random.stateless_normal([batch_size, *shape], [1, 2])
    labels = tf.random.stateless_uniform([batch_size], [3, 4], 0, config.num_classes, tf.int32)
    return images, labels


def _in_session(model, grads):
    """Returns a function that computes gradients in a session, and moves the statistics."""
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    run = session.make_callable([grads, model.updates])
    return lambda: run()[0]


def _train_checkpointed(body, x, values):
    """Computes all stages as `Body.train` does, by units that TensorFlow computes twice."""

    def computed(unit, x1, x2, *values):
        y, kept, _ = unit.forward((x1, x2), list(values))
        return y, kept

    saved = []
    for stage, of_stage in zip(body.stages, values):
        saved.append([])
        for unit, values in zip(stage, of_stage):
            x, kept = tf.recompute_grad(functools.partial(computed, unit))(*x, *values)
            saved[-1].append(Saved((), kept, []))
    return x, saved
