"""Models that run on every engine: none of them knows where it runs.

`params["wrap"]` wraps optimizers: in nothing on one device without this library, else in
`TowerOptimizer`. Numbers are float64, but those of the real architecture search, which is float32.
`engines/data.py` has the features that they take. Examples are imported where they are used: tests
of the contract run without what examples need.
"""

import tensorflow.compat.v1 as tf

import replicate
from contract.models.parts import F64, GLOROT
from contract.models.row import Model
from replicate import estimator

TRAIN = estimator.ModeKeys.TRAIN


def weight(name, shape):
    return tf.get_variable(name, shape, F64, GLOROT())


def dense(features, labels, mode, params):
    """Two dense layers with a weight penalty, momentum, and the usual two lines."""
    penalty = tf.keras.regularizers.l2(0.01)
    hidden = tf.layers.dense(features["x"], 5, tf.tanh, kernel_initializer=GLOROT())
    kernel = weight("kernel", [5, 1])
    loss = tf.reduce_mean((hidden @ kernel - labels) ** 2) + penalty(kernel)
    optimizer = params["wrap"](tf.train.MomentumOptimizer(0.1, 0.9))
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def cnn(features, labels, mode, params):
    """Convolutions with batch norm over all towers, Adam, and update operations."""
    x = features["images"]
    for filters in (3, 4):
        x = tf.layers.conv2d(x, filters, 3, use_bias=False, kernel_initializer=GLOROT())
        x = tf.tanh(replicate.batch_normalization(x, momentum=0.8, training=mode == TRAIN))
    predictions = tf.reduce_mean(x, [1, 2]) @ weight("head", [4, 1])
    loss = tf.reduce_mean((predictions - labels) ** 2)
    optimizer = params["wrap"](tf.train.AdamOptimizer(0.05))
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def scaled_embedding(features, labels, mode, params):
    """Sparse gradients of a scaled loss, made by hand, clipped by their norm over the batch."""
    table, kernel = weight("table", [6, 3]), weight("kernel", [3, 1])
    rows = tf.reduce_sum(tf.nn.embedding_lookup(table, features["ids"]), axis=1)
    loss = tf.reduce_mean((tf.tanh(rows) @ kernel - labels) ** 2)
    variables = [table, kernel]
    optimizer = tf.train.AdagradOptimizer(0.3)
    if params["wrap"] is replicate.TowerOptimizer:
        optimizer = replicate.TowerOptimizer(optimizer, clip_norm=0.2, loss_scale=1000)
        grads = optimizer.unscale(tf.gradients(optimizer.scale_loss(loss), variables))
        assert isinstance(grads[0], tf.IndexedSlices)
    else:
        grads = tf.gradients(loss, variables)
        grads, _ = tf.clip_by_global_norm([tf.convert_to_tensor(grad) for grad in grads], 0.2)
    train_op = optimizer.apply_gradients(zip(grads, variables), tf.train.get_global_step())
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def adversary(features, labels, mode, params):
    """A generator and its adversary, a loss and an optimizer each, normalised by a global sum."""
    x, counted = features["x"], features["counted"]
    generated = tf.tanh(x @ weight("generator", [4, 2]))
    score = tf.sigmoid(generated @ weight("adversary", [2, 1]))
    # Only some rows count, another number of them on each tower.
    share = replicate.num_towers() * counted / replicate.cross_tower_sum(tf.reduce_sum(counted))
    adversary_loss = tf.reduce_sum(share * (score - labels) ** 2)
    loss = tf.reduce_sum(share * (1.0 - score) ** 2) + tf.reduce_mean(generated**2)
    first = params["wrap"](tf.train.RMSPropOptimizer(0.01)).minimize(
        adversary_loss, var_list=tf.trainable_variables("adversary")
    )
    with tf.control_dependencies([first]):
        second = params["wrap"](lambda: tf.train.AdamOptimizer(0.02)).minimize(
            loss, tf.train.get_global_step(), var_list=tf.trainable_variables("generator")
        )
    return estimator.EstimatorSpec(mode, loss=loss, train_op=second)


def search_step(features, labels, mode, params):
    """A search of two candidates in float64: weights, reward, baseline and controller in a step.

    All towers draw the same candidate, so that one device can do what they do.
    """
    from examples.nas_search import custom_layers, tpu_optimizer_ops

    step = tf.train.get_global_step()
    logits = tf.get_variable("logits", [2], F64, tf.zeros_initializer())
    uniform = tf.random.stateless_uniform([2], [3, tf.cast(step, tf.int32)], dtype=F64)
    drawn = tf.argmax(logits - tf.log(-tf.log(uniform)))
    mask = tf.one_hot(drawn, 2, dtype=F64)

    x = features["x"]
    kernels = [weight("narrow", [4, 1]), weight("wide", [4, 3])]

    def predict():
        narrow, wide = [tf.tanh(x @ kernel.read_value()) for kernel in kernels]
        return mask[0] * narrow + mask[1] * tf.reduce_sum(wide, axis=1, keepdims=True)

    loss = tf.reduce_mean((predict() - labels) ** 2)
    optimizer = params["wrap"](tf.train.RMSPropOptimizer(0.02, momentum=0.9, epsilon=1.0))
    update = optimizer.minimize(loss, var_list=kernels)
    with tf.control_dependencies([update]):
        reward = replicate.cross_tower_mean(-tf.reduce_mean(tf.abs(predict() - labels)))
    baseline = custom_layers.update_exponential_moving_average(reward, momentum=0.9)
    log_prob = tf.reduce_sum(mask * tf.nn.log_softmax(logits))
    controller_update = tpu_optimizer_ops.apply_adam(
        -tf.stop_gradient(reward - baseline) * log_prob,
        global_step=step,
        var_list=[logits],
        learning_rate=0.1,
    )
    return estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(update, controller_update))


def reversible(features, labels, mode, params):
    """The example's RevNet, a Keras model that computes its gradients by hand."""
    from examples import revnet

    config = revnet.RevNetConfig(
        image_shape=(6, 6, 2),
        num_classes=2,
        units=(2,),
        filters=(8,),
        initial_filters=4,
        dtype="float64",
        seed=1,
    )
    model = revnet.RevNet(config)
    _, saved_hidden = model(features["images"], training=True)
    grads, loss = model.compute_gradients(saved_hidden, tf.cast(labels[:, 0] > 0, tf.int32))
    optimizer = params["wrap"](tf.train.MomentumOptimizer(0.1, 0.9))
    pairs = zip(grads, model.trainable_variables)
    train_op = optimizer.apply_gradients(pairs, tf.train.get_global_step())
    return estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(train_op, *model.updates))


def architecture_search(features, labels, mode, params):
    """The flagship example's own step, in float32: every tower draws a network."""
    from examples.nas_search.search import model_fn as nas_search

    return nas_search.model_fn(features, labels, mode, params)


# Sums of graphs for TPUs: gradients, and what meets in the middle of the model: for each batch
# norm, two moments forward and two backward; the count of rows; the reward, the baseline, and
# Adam's two moments.
ROWS = {
    "dense": Model(dense, "engine", tpu_sums=3),
    "cnn": Model(cnn, "engine", tpu_sums=7 + 2 * (2 + 2)),
    "scaled_embedding": Model(scaled_embedding, "engine", tpu_sums=2),
    "adversary": Model(adversary, "engine", tpu_sums=2 + 1),
    "search_step": Model(search_step, "engine", tpu_sums=2 + 1 + 1 + 2),
    # 23 variables, and 6 batch norms, whose gradients are by hand.
    "reversible": Model(reversible, "engine", tpu_sums=23 + 6 * (2 + 2)),
    "architecture_search": Model(
        architecture_search, "engine", rtol=1e-5, rounding=1e-9, own_networks=True
    ),
}
