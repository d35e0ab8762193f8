"""Input, by `import ... as`, and names of names."""

import tensorflow as tf
import tensorflow.contrib.data as contrib_data
from tensorflow import flags
from tensorflow.contrib import lookup as lookup_tables
from tensorflow.contrib.data import AUTOTUNE, shuffle_and_repeat
from tensorflow.python.framework import ops

FLAGS = flags.FLAGS


def input_fn():
    table = lookup_tables.index_table_from_tensor(["a", "b", "c"])
    words = tf.constant(["a", "c", "b", "c", "a", "b"])
    dataset = tf.data.Dataset.from_tensor_slices(
        {"x": tf.reshape(tf.range(12.0), [6, 2]), "w": words}
    )
    dataset = dataset.apply(shuffle_and_repeat(1, 4, seed=1))
    dataset = dataset.apply(
        contrib_data.map_and_batch(
            lambda row: (row, tf.reduce_sum(row["x"])), 3, drop_remainder=True
        )
    )
    iterator = dataset.prefetch(AUTOTUNE).make_initializable_iterator()
    ops.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    rows, sums = iterator.get_next()
    return {"x": rows["x"], "w": table.lookup(rows["w"])}, sums
