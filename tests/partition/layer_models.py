"""Networks of layers of every kind, each a function of `batch, training` that returns [n, 3]."""

import tensorflow.compat.v1 as tf

from partition import row_losses, tables
from partition.harness import ModeKeys
from partition.model_inputs import F64, GLOROT, Batch, get_variable


def model_of(network):
    """Returns the `model_fn` of a network."""

    def model(features, labels, mode, params):
        batch = Batch(**features, **(labels or {"y": None, "k": None}))
        h = network(batch, mode == ModeKeys.TRAIN)
        if labels is None:
            return tables.spec_of(mode, {"h": h}, None, params)
        loss = row_losses.mean(h, batch) + 0.5 * row_losses.root_of_a_mean(h, batch)
        return tables.spec_of(mode, {"h": h}, loss, params)

    return model


def dense(x, units=3, activation=None, **kwargs):
    return tf.layers.dense(x, units, activation, kernel_initializer=GLOROT(), **kwargs)


def conv(x, filters=3, size=3, **kwargs):
    return tf.layers.conv2d(x, filters, size, kernel_initializer=GLOROT(), **kwargs)


def pooled(image):
    """Means over an image, and a dense layer, [n, 3]."""
    return dense(tf.reduce_mean(image, [1, 2]))


def unfused(x, training, **kwargs):
    return tf.layers.batch_normalization(x, momentum=0.7, training=training, fused=False, **kwargs)


def layer_norm(x, name="norm"):
    """Over the last axis."""
    with tf.variable_scope(name):
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        scale = get_variable("scale", [x.shape[-1]], initializer=tf.ones_initializer())
        return (x - mean) * tf.rsqrt(variance + 1e-6) * scale + get_variable("b", [x.shape[-1]])


# Dense layers


def dense_layers(batch, training):
    return dense(dense(batch.x, 6, tf.nn.relu), 3, use_bias=False)


def activations(batch, training):
    x = batch.x
    for activation in (tf.nn.elu, tf.nn.selu, tf.nn.softplus, tf.nn.leaky_relu, tf.sigmoid):
        x = dense(x, 4, activation)
    return dense(x)


def dropout_of_nothing(batch, training):
    return dense(tf.layers.dropout(dense(batch.x, 5, tf.tanh), rate=0.0, training=training))


def of_every_step(batch, training):
    """A dense layer over the last of three axes."""
    return tf.reduce_max(dense(dense(batch.steps, 4, tf.tanh)), axis=1)


def highway(batch, training):
    gate = dense(batch.x, 4, tf.sigmoid)
    return dense(gate * dense(batch.x, 4, tf.tanh) + (1.0 - gate) * batch.x)


def maxout(batch, training):
    return tf.reduce_max(tf.reshape(dense(batch.x, 6), [-1, 3, 2]), axis=2)


def wide_and_deep(batch, training):
    crossed = tf.one_hot(batch.ids[:, 0] * 6 + batch.ids[:, 1], 36, dtype=F64)
    return dense(crossed, use_bias=False) + dense(dense(batch.x, 5, tf.nn.relu))


def experts(batch, training):
    """A mixture of dense layers, by a gate."""
    gate = tf.nn.softmax(dense(batch.x, 2))
    outputs = tf.stack([dense(batch.x, 3, tf.tanh), dense(batch.x, 3, tf.tanh)], axis=2)
    return dense(tf.reduce_sum(outputs * gate[:, None], axis=2))


def weight_norm(batch, training):
    v, g = get_variable("v", [4, 3]), get_variable("g", [3], initializer=tf.ones_initializer())
    return batch.x @ (g * tf.nn.l2_normalize(v, 0))


def spectral_norm(batch, training):
    """Its power iteration goes on in every step."""
    w = get_variable("w", [4, 3])
    u = get_variable("u", [3, 1], initializer=tf.ones_initializer(), trainable=False)
    left = tf.nn.l2_normalize(tf.matmul(w, u))
    right = tf.nn.l2_normalize(tf.matmul(w, left, transpose_a=True))
    if training:
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign(u, tf.stop_gradient(right)))
    return batch.x @ (w / tf.matmul(left, tf.matmul(w, right), transpose_a=True))


def regularised(batch, training):
    x = dense(batch.x, 4, tf.tanh, kernel_regularizer=lambda w: 0.1 * tf.nn.l2_loss(w))
    return dense(x + tf.add_n(tf.losses.get_regularization_losses(tables.own_scope())))


def partitioned_variables(batch, training):
    with tf.variable_scope("parts", partitioner=tf.fixed_size_partitioner(2)):
        return batch.x @ tf.convert_to_tensor(get_variable("w", [4, 3]))


def references(batch, training):
    """Layers of reference variables."""
    with tf.variable_scope("references", use_resource=False):
        hidden = tf.tanh(batch.x @ get_variable("w", [4, 5]) + get_variable("b", [5]))
        rows = tf.nn.embedding_lookup(get_variable("table", [6, 3]), batch.ids[:, 1])
        return hidden @ get_variable("v", [5, 3]) + rows


# Convolutions


def convolutions(batch, training):
    x = conv(batch.image, 4, padding="same", activation=tf.nn.relu)
    x = tf.layers.max_pooling2d(x, 2, 2)
    x = conv(x, 3, strides=2, padding="same", use_bias=False)
    return dense(tf.layers.flatten(tf.layers.average_pooling2d(x, 2, 1)))


def dilated(batch, training):
    return pooled(conv(tf.pad(batch.image, [[0, 0], [1, 1], [2, 0], [0, 0]]), dilation_rate=2))


def depthwise(batch, training):
    kernel = get_variable("kernel", [3, 3, 2, 2])
    return pooled(tf.nn.depthwise_conv2d(batch.image, kernel, [1, 1, 1, 1], "SAME"))


def separable(batch, training):
    return pooled(
        tf.layers.separable_conv2d(
            batch.image, 3, 3, depthwise_initializer=GLOROT(), pointwise_initializer=GLOROT()
        )
    )


def transposed(batch, training):
    """Down and up again."""
    x = conv(batch.image, 4, 2, strides=2, activation=tf.tanh)
    x = tf.layers.conv2d_transpose(x, 2, 2, 2, kernel_initializer=GLOROT())
    return pooled(tf.concat([x, batch.image], axis=3))


def over_time(batch, training):
    x = tf.layers.conv1d(batch.steps, 4, 2, kernel_initializer=GLOROT(), activation=tf.nn.relu)
    return dense(tf.reduce_mean(tf.layers.max_pooling1d(x, 2, 1), axis=1))


def rearranged(batch, training):
    x = tf.space_to_depth(batch.image, 2)
    x = tf.depth_to_space(conv(x, 8, 1), 2)
    return pooled(tf.reverse(tf.transpose(x, [0, 2, 1, 3]), [1]))


# Normalisation


def moments_of_training(batch, training):
    """Unfused batch norm of rows."""
    return dense(tf.tanh(unfused(dense(batch.x, 4), training)))


def moments_of_images(batch, training):
    return pooled(tf.nn.relu(unfused(conv(batch.image), training)))


def moments_at_rest(batch, training):
    """Moving averages are what normalises, in training, too."""
    return pooled(tf.nn.relu(unfused(conv(batch.image), training=False)))


def moments_of_groups(batch, training):
    """Ghost batch norm, of the first half of the rows and the rest."""
    x, half = dense(batch.x, 4), (tf.shape(batch.x)[0] + 1) // 2
    parts = [x[:half], x[half:]]
    made = []
    for part in parts:
        mean = tf.reduce_sum(part, 0) / tf.maximum(tf.cast(tf.shape(part)[0], F64), 1.0)
        made.append((part - mean) / (1.0 + tf.reduce_max(tf.abs(mean))))
    return dense(tf.concat(made, axis=0))


def moments_of_rows(batch, training):
    return dense(layer_norm(dense(batch.steps, 4, tf.tanh), "inner")[:, -1])


def moments_of_instances(batch, training):
    x = conv(batch.image, 4)
    mean, variance = tf.nn.moments(x, [1, 2], keepdims=True)
    return pooled(tf.nn.relu((x - mean) * tf.rsqrt(variance + 1e-3) + get_variable("shift", [4])))


def moments_of_channels(batch, training):
    """Group norm."""
    x = tf.reshape(conv(batch.image, 4, padding="same"), [-1, 6, 6, 2, 2])
    mean, variance = tf.nn.moments(x, [1, 2, 4], keepdims=True)
    return pooled(tf.reshape((x - mean) * tf.rsqrt(variance + 1e-3), [-1, 6, 6, 4]))


def residual(batch, training):
    """A small ResNet with unfused batch norm."""
    x = conv(batch.image, 4, padding="same", use_bias=False)
    for filters, stride in ((4, 1), (6, 2)):
        y = tf.nn.relu(unfused(x, training))
        short = x if stride == 1 else conv(y, filters, 1, strides=stride, use_bias=False)
        y = conv(y, filters, strides=stride, padding="same", use_bias=False)
        y = tf.nn.relu(unfused(y, training))
        x = short + conv(y, filters, padding="same", use_bias=False)
    return pooled(tf.nn.relu(unfused(x, training)))


NETWORKS = {
    function.__name__: function
    for function in (
        dense_layers,
        activations,
        dropout_of_nothing,
        of_every_step,
        highway,
        maxout,
        wide_and_deep,
        experts,
        weight_norm,
        spectral_norm,
        regularised,
        partitioned_variables,
        references,
        convolutions,
        dilated,
        depthwise,
        separable,
        transposed,
        over_time,
        rearranged,
        moments_of_training,
        moments_of_images,
        moments_at_rest,
        moments_of_groups,
        moments_of_rows,
        moments_of_instances,
        moments_of_channels,
        residual,
    )
}
