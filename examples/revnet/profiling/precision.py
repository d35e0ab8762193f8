"""How exactly a RevNet is inverted, and how close its gradients are to plain backpropagation's."""

import dataclasses

import numpy as np
import tensorflow.compat.v1 as tf

from examples.revnet.network.model import RevNet
from examples.revnet.profiling.gradient_methods import batch

_LEARNING_RATE = 0.1
_MOMENTUM = 0.9


def measure(config, batch_size, train_steps):
    """Compares a network that recomputes its activations with one that stores them.

    Both have the same weights, and see the same random images. It needs TensorFlow's eager mode.

    Args:
        config: A `RevNetConfig` with a seed.
        batch_size: Images of the batch.
        train_steps: Steps of gradient descent before, on that batch.

    Returns:
        Dict of floats. `reconstruction_error`: of the input of any unit, when a stage is inverted
        from its last unit to its second, the largest difference from what it was, by the largest
        entry. `gradient_difference`: of all gradients as one vector, the norm of the difference, by
        the norm. `gradient_difference_max`: the largest such of a single tensor. `loss`: after the
        steps.
    """
    stored, recomputed = (
        RevNet(dataclasses.replace(config, recompute=recompute)) for recompute in (False, True)
    )
    images, labels = batch(config, batch_size)
    optimizer = tf.train.MomentumOptimizer(_LEARNING_RATE, _MOMENTUM)

    def gradients(model):
        _, saved_hidden = model(images, training=True)
        grads, loss = model.compute_gradients(saved_hidden, labels)
        return grads, loss

    @tf.function
    def step():
        grads, _ = gradients(stored)
        optimizer.apply_gradients(zip(grads, stored.trainable_variables))

    for _ in range(train_steps):
        step()
    for source, target in zip(stored.variables, recomputed.variables):
        target.assign(source)
    wanted, loss = tf.function(gradients)(stored)
    found, _ = tf.function(gradients)(recomputed)
    error = tf.function(_reconstruction_error)(stored, images)
    pairs = [(np.ravel(one), np.ravel(other)) for one, other in zip(found, wanted)]
    return {
        "reconstruction_error": float(error),
        "gradient_difference": _difference(*map(np.concatenate, zip(*pairs))),
        "gradient_difference_max": max(_difference(*pair) for pair in pairs),
        "loss": float(loss),
    }


def _difference(found, wanted):
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


def _reconstruction_error(model, images):
    """Returns how far off inputs of units are at most, a scalar."""
    (x, _), errors = model.stem.forward(tf.cast(images, model.dtype)), []
    for units in model.body.stages:
        passes = []
        for unit in units:
            y, kept, _ = unit.forward(x, unit.values())
            passes.append((unit, x, kept))
            x = y
        zeros = tuple(map(tf.zeros_like, y))
        for unit, true, kept in reversed(passes[1:]):
            y, _, _ = unit.backward(None, y, zeros, kept)
            for half, true_half in zip(y, true):
                distance = tf.reduce_max(tf.abs(half - true_half))
                errors.append(distance / tf.reduce_max(tf.abs(true_half)))
    return tf.reduce_max(errors)
