"""A Keras optimizer in a `model_fn`, with the idiom of TensorFlow's migration guide.

Equal on uneven shards. The `model_fn` is that of `keras_optimizer`; one line of it is new.
"""

import replicate
from conformance import keras_optimizer, program


def train(optimizer, loss, model):
    return keras_optimizer.by_get_updates(replicate.TowerOptimizer(optimizer), loss, model)


PROGRAM = program.Program(
    lambda: keras_optimizer.model_fn_builder(train),
    keras_optimizer.rows,
    make_original=lambda: keras_optimizer.model_fn_builder(keras_optimizer.by_get_updates),
)
