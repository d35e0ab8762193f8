"""How much memory a step of a graph needs: exactly, from TensorFlow's own record of it."""

import tensorflow.compat.v1 as tf


def peak_bytes(fetches):
    """Returns the most bytes that tensors of a step take at one time.

    The values of variables do not count, fetched values do. Operations run one after another, so
    that the figure does not depend on how fast they are. Kernels' own buffers are counted where
    they come from TensorFlow's allocator.

    Args:
        fetches: Structure of tensors and operations of the default graph, whose variables are
            initialised here.
    """
    one_by_one = tf.ConfigProto(inter_op_parallelism_threads=1)
    traced = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    metadata = tf.RunMetadata()
    with tf.Session(config=one_by_one) as session:
        session.run(tf.global_variables_initializer())
        session.run(fetches)  # The first step allocates what stays.
        session.run(fetches, options=traced, run_metadata=metadata)
    records = sorted(
        # Within a microsecond, memory is freed before any is allocated.
        (record.alloc_micros, record.alloc_bytes)
        for device in metadata.step_stats.dev_stats
        for node in device.node_stats
        for memory in node.memory
        for record in memory.allocation_records
    )
    in_use = peak = 0
    for _, allocated in records:
        in_use += allocated
        peak = max(peak, in_use)
    return peak
