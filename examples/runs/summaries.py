"""Summaries of a run for TensorBoard: in the graph, on TPUs from the host.

A *tag* is the name under which TensorBoard shows a scalar. Files are written to the checkpoint
directory every `tpu_iterations_per_loop` steps.
"""

import tensorflow.compat.v1 as tf

from replicate import estimator

# Tells TensorBoard what a tensor is. That of TensorFlow 1.15 takes the plugin's name for it.
_CLASS = {"data_class": "DATA_CLASS_SCALAR"} if hasattr(tf.SummaryMetadata, "data_class") else {}
_SCALAR = tf.SummaryMetadata(
    plugin_data=tf.SummaryMetadata.PluginData(plugin_name="scalars"), **_CLASS
)


def make_spec(mode, loss, train_op, scalars, params):
    """Returns the spec of a training step that reports scalars.

    Args:
        mode: `tf.estimator.ModeKeys.TRAIN`.
        loss: Float scalar tensor.
        train_op: The operation of the step.
        scalars: Dict of scalar tensors by tag, the same on all towers.
        params: Settings: `use_tpu`, with which the host writes the scalars, and for that
            `checkpoint_dir` and `tpu_iterations_per_loop`.

    Returns:
        An `EstimatorSpec`; a `TPUEstimatorSpec` with a `host_call` if `params['use_tpu']`.
    """
    if params.get("use_tpu"):
        return estimator.tpu.TPUEstimatorSpec(
            mode, loss=loss, train_op=train_op, host_call=_host_call(scalars, params)
        )
    with tf.name_scope(None):
        for tag, scalar in scalars.items():
            tf.summary.scalar(tag, scalar)
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def write_scalars(scalars, step):
    """Writes scalars by tag with the current writer of `tf.compat.v2.summary`."""
    for tag, value in scalars.items():
        # Not `summary.scalar`, for which newer TensorFlows need TensorBoard.
        tf.compat.v2.summary.write(tag, value, step=step, metadata=_SCALAR)


def _host_call(scalars, params):
    """Returns a `host_call`, to which TPUs hand over one vector of all values for each replica."""
    tags = sorted(scalars)
    values = tf.stack([tf.cast(scalars[tag], tf.float32) for tag in tags])[tf.newaxis, :]
    step = tf.reshape(tf.train.get_global_step(), [1])
    every = params["tpu_iterations_per_loop"]
    directory = params["checkpoint_dir"]

    def write(step, values):
        step = tf.cast(step[0], tf.int64)
        summary = tf.compat.v2.summary
        writer = summary.create_file_writer(directory, filename_suffix=".v2")
        means = tf.unstack(tf.reduce_mean(values, axis=0), len(tags))
        with writer.as_default(), summary.record_if(tf.equal(step % every, 0)):
            write_scalars(dict(zip(tags, means)), step)
            return tf.summary.all_v2_summary_ops()

    return write, [step, values]
