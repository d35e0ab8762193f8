"""Seeds of random operations that have none of their own: those of one device.

Newer TensorFlows count the seeds that they give out in a graph. TensorFlow 1.15 takes the number of
the last operation, so that what towers add to a graph would change initial weights.
"""

import contextlib

import tensorflow.compat.v1 as tf
from tensorflow.python.framework import random_seed


@contextlib.contextmanager
def of_one_device(graph, added):
    """A scope in which what towers add to a graph does not change the seeds of what is made.

    Args:
        graph: The graph.
        added: Function that returns how many operations they have added until now.
    """
    original = random_seed.get_seed
    if hasattr(random_seed, "_graph_to_seed_dict"):
        yield
        return

    def get_seed(op_seed):
        if op_seed is None and graph.seed is not None and tf.get_default_graph() is graph:
            op_seed = graph._last_id - added()
        return original(op_seed)

    random_seed.get_seed = get_seed
    try:
        yield
    finally:
        random_seed.get_seed = original
