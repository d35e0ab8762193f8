"""How TPUs take images: with their rows last, and in full batches.

A `Data` that was opened with the setting `use_tpu` has its rows last. `network_input` undoes it.
"""

import tensorflow.compat.v1 as tf


def network_input(images, params):
    """Returns images as networks take them: [rows, height, width, channels], in their type.

    Args:
        images: Float [rows, height, width, channels]; for TPUs [height, width, channels, rows],
            which is how they take them fastest.
        params: Settings. Those used are `use_tpu`, false if not there, and what
            `computes_in_bfloat16` takes.
    """
    if params.get("use_tpu"):
        images = tf.transpose(images, [3, 0, 1, 2])
    return tf.cast(images, tf.bfloat16) if computes_in_bfloat16(params) else images


def computes_in_bfloat16(params):
    """Whether networks compute in bfloat16.

    Args:
        params: Settings. Those used are `use_bfloat16`: a bool, 'true', 'false', 'ontpu' for TPUs
            alone, or 'auto': 'ontpu' for the V3-like space, whose name is `ssd`, else false. False
            if not there.

    Raises:
        ValueError: If `use_bfloat16` is something else.
    """
    when = params.get("use_bfloat16", False)
    if isinstance(when, bool):
        return when
    if when == "auto":
        when = "ontpu" if params.get("ssd") == "mobilenet_v3_like_search" else "false"
    if when not in ("true", "false", "ontpu"):
        raise ValueError(
            "`use_bfloat16` must be True, False, 'true', 'false', 'ontpu' or 'auto', but is "
            f"{when!r}. Pass 'false' to compute in float32."
        )
    return when == "true" or (when == "ontpu" and bool(params.get("use_tpu")))


def complete(batches, rows, context=None):
    """Makes batches fit for TPUs, which take full ones only, and as many as they ask for.

    Args:
        batches: `tf.data.Dataset` of images, [height, width, channels, at most `rows`], and labels,
            [at most `rows`, classes].
        rows: Rows of a batch.
        context: The `TPUContext` of this host; hosts take different batches. None: there is one.

    Returns:
        An endless dataset of batches of `rows` rows. Those that were added have labels of zeros.
    """
    if context is not None:
        batches = batches.shard(context.num_hosts, context.current_host)

    def fill(images, labels):
        missing = rows - tf.shape(labels)[0]
        images = tf.pad(images, [[0, 0], [0, 0], [0, 0], [0, missing]])
        labels = tf.pad(labels, [[0, missing], [0, 0]])
        return (
            tf.ensure_shape(images, [*images.shape[:3], rows]),
            tf.ensure_shape(labels, [rows, labels.shape[1]]),
        )

    filled = batches.map(fill)
    zeros = tf.nest.map_structure(lambda x: tf.zeros(x.shape, x.dtype), filled.element_spec)
    return filled.concatenate(tf.data.Dataset.from_tensors(zeros).repeat())
