"""The ancestor of this library, `tf.contrib.estimator.replicate_model_fn`, as an engine to measure.

TensorFlow 1.15 has it. It gets the session's configuration that `replicate` gets, so that the cores
are divided among its towers, too.
"""

import sys

import tensorflow as tf1
import tensorflow.compat.v1 as tf

import replicate
from replicate.bench import engines, models


def _ancestor(case, devices, choice):
    del choice
    contrib = tf1.contrib.estimator

    def make_optimizer():
        return contrib.TowerOptimizer(models.OPTIMIZERS[case.optimizer]())

    model_fn = contrib.replicate_model_fn(
        models.make_model_fn(case, make_optimizer), tf.losses.Reduction.MEAN, devices
    )
    session_config = replicate.session_config(devices)
    return model_fn, engines.run_config(devices).replace(session_config=session_config), 1


engines.ENGINES["ancestor"] = _ancestor

if __name__ == "__main__":
    engines.main(sys.argv[1:])
