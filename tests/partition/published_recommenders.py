"""Recommenders as their authors publish them, of ids and of what has been clicked."""

import tensorflow.compat.v1 as tf

from partition import tables
from partition.harness import ModeKeys
from partition.layer_models import dense
from partition.model_inputs import F64, get_variable
from partition.published_inputs import with_values


def _entropy(labels, logits):
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))


def _dice(x, name, training):
    """The activation of DIN: a gate by what is normalised over the batch."""
    alpha = get_variable(f"alpha_{name}", [x.shape[-1]])
    normed = tf.layers.batch_normalization(
        x, center=False, scale=False, name=f"dice_{name}", training=training, momentum=0.8
    )
    gate = tf.sigmoid(normed)
    return alpha * (1.0 - gate) * x + gate * x


def _attention(query, keys, lengths):
    """Weights of what has been clicked, by a network of both and their products."""
    width = keys.shape[-1]
    queries = tf.reshape(tf.tile(query, [1, tf.shape(keys)[1]]), [-1, tf.shape(keys)[1], width])
    both = tf.concat([queries, keys, queries - keys, queries * keys], axis=-1)
    both = dense(both, 6, tf.nn.sigmoid, name="f1_att", reuse=tf.AUTO_REUSE)
    scores = dense(both, 1, name="f2_att", reuse=tf.AUTO_REUSE)
    scores = tf.reshape(scores, [-1, 1, tf.shape(keys)[1]])
    masks = tf.expand_dims(tf.sequence_mask(lengths, tf.shape(keys)[1]), 1)
    scores = tf.where(masks, scores, tf.ones_like(scores) * (-(2.0**32) + 1))
    weights = tf.nn.softmax(scores / (width.value if hasattr(width, "value") else width) ** 0.5)
    return tf.reshape(tf.matmul(weights, keys), [-1, width])


def din(features, labels, mode, params):
    """Zhou et al.: items and their categories, attention, dice, clipped slices of gradients."""
    items, categories = get_variable("items", [12, 4]), get_variable("categories", [3, 2])
    bias, category_of = get_variable("bias", [12]), tf.constant([0, 1, 2] * 4, tf.int64)

    def embedded(ids):
        kinds = tf.nn.embedding_lookup(categories, tf.gather(category_of, ids))
        return tf.concat([tf.nn.embedding_lookup(items, ids), kinds], -1)

    item, past = embedded(features["item"]), embedded(features["history"])
    user = _attention(item, past, features["num_history"])
    x = tf.concat([user, item, user * item], axis=-1)
    training = mode == ModeKeys.TRAIN
    x = tf.layers.batch_normalization(x, name="b1", training=training, momentum=0.8)
    x = _dice(dense(x, 6, name="f1"), "one", training)
    logits = tf.gather(bias, features["item"]) + tf.squeeze(dense(x, 1, name="f3"), 1)
    predictions = {"score": tf.sigmoid(logits)}
    if mode != ModeKeys.TRAIN:
        loss = None if labels is None else _entropy(labels["click"][:, 0], logits)
        metrics = labels and {"auc": tf.metrics.auc(labels["click"][:, 0], tf.sigmoid(logits))}
        return tables.spec_of(mode, predictions, loss, params, metrics)
    loss = _entropy(labels["click"][:, 0], logits)
    variables = tables.own_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 0.5)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS, tables.own_scope())):
        train_op = params["optimizer"]().apply_gradients(list(zip(gradients, variables)))
    return tf.estimator.EstimatorSpec(mode, predictions, loss, train_op)


def esmm(features, labels, mode, params):
    """Predicts purchases among all impressions: pCTCVR = pCTR * pCVR."""
    table = get_variable("table", [10, 4])
    shared = tf.reshape(tf.nn.embedding_lookup(table, features["feat_ids"]), [-1, 12])

    def tower(name):
        with tf.variable_scope(name):
            return tf.sigmoid(dense(dense(shared, 5, tf.nn.relu), 1))

    pctr, pcvr = tower("ctr"), tower("cvr")
    pctcvr = pctr * pcvr
    predictions = {"ctr": pctr, "cvr": pcvr, "ctcvr": pctcvr}
    if labels is None:
        return tables.spec_of(mode, predictions, None, params)
    both = labels["click"] * labels["bought"]
    clicked = labels["click"]
    ctr_loss = clicked * tf.log(pctr + 1e-7) + (1 - clicked) * tf.log(1 - pctr + 1e-7)
    loss = -tf.reduce_mean(ctr_loss) - tf.reduce_sum(both * tf.log(pctcvr)) / 11.0
    metrics = {
        "ctr": tf.metrics.auc(clicked, pctr),
        "cvr": tf.metrics.mean(pcvr, weights=clicked),
        "ctcvr": tf.metrics.auc(both, pctcvr),
    }
    return tables.spec_of(mode, predictions, loss, params, metrics)


def xdeepfm(features, labels, mode, params):
    """Compressed interactions: products of fields for each place of an embedding, convolved."""
    fields, dim = 3, 4
    table = get_variable("table", [10, dim])
    rows = tf.nn.embedding_lookup(table, features["feat_ids"])
    x = rows * features["feat_vals"][:, :, None]
    first = tf.split(x, dim * [1], 2)
    layer, made, width = x, [], fields
    for index, size in enumerate((4, 2)):
        parts = tf.split(layer, dim * [1], 2)
        products = tf.matmul(first, parts, transpose_b=True)
        products = tf.reshape(products, [dim, -1, fields * width])
        products = tf.transpose(products, perm=[1, 0, 2])
        filters = get_variable(f"f_{index}", [1, fields * width, size])
        out = tf.nn.conv1d(products, filters=filters, stride=1, padding="VALID")
        out = tf.transpose(
            tf.nn.relu(tf.nn.bias_add(out, get_variable(f"b_{index}", [size]))), [0, 2, 1]
        )
        if index:
            made.append(out)
        else:
            layer, direct = tf.split(out, 2 * [size // 2], 1)
            made.append(direct)
        width = size // 2
    crossed = tf.reduce_sum(tf.concat(made, 1), -1)
    deep = dense(tf.reshape(x, [-1, fields * dim]), 6, tf.nn.relu)
    linear = tf.reduce_sum(
        tf.gather(get_variable("linear", [10, 1]), features["feat_ids"])[:, :, 0]
        * features["feat_vals"],
        1,
        keepdims=True,
    )
    logits = dense(crossed, 1) + dense(deep, 1) + linear
    penalty = 0.01 * tf.nn.l2_loss(table) + 0.01 * tf.nn.l2_loss(rows)
    loss = None if labels is None else _entropy(labels["click"], logits) + penalty
    return tables.spec_of(mode, {"score": tf.sigmoid(logits)}, loss, params)


def deepfm(features, labels, mode, params):
    """`feat_ids` and `feat_vals`, as lambdaji publishes it."""
    bias, first = get_variable("bias", [1]), get_variable("first", [10])
    second = get_variable("second", [10, 4])
    ids = tf.reshape(features["feat_ids"], [-1, 3])
    values = tf.reshape(features["feat_vals"], [-1, 3])
    linear = tf.reduce_sum(tf.multiply(tf.nn.embedding_lookup(first, ids), values), 1)
    x = tf.multiply(tf.nn.embedding_lookup(second, ids), tf.reshape(values, [-1, 3, 1]))
    square = tf.square(tf.reduce_sum(x, 1))
    pairs = 0.5 * tf.reduce_sum(square - tf.reduce_sum(tf.square(x), 1), 1)
    deep = tf.reshape(x, shape=[-1, 3 * 4])
    for units in (6, 5):
        deep = dense(deep, units, tf.nn.relu)
        deep = tf.layers.batch_normalization(deep, training=mode == ModeKeys.TRAIN, momentum=0.9)
    logits = bias * tf.ones_like(linear) + linear + pairs + tf.reshape(dense(deep, 1), [-1])
    if labels is None:
        return tables.spec_of(mode, {"prob": tf.sigmoid(logits)}, None, params)
    loss = _entropy(labels["click"][:, 0], logits)
    loss += 0.01 * tf.nn.l2_loss(first) + 0.01 * tf.nn.l2_loss(second)
    return tables.spec_of(mode, {"prob": tf.sigmoid(logits)}, loss, params)


def deepfm_sparse(features, labels, mode, params):
    """Sparse rows with weights: `embedding_lookup_sparse` for all three parts."""
    bag = features["bag"]
    weights = with_values(bag, tf.cast(features["bag_weights"].values, F64))
    linear = tf.nn.embedding_lookup_sparse(get_variable("w", [12, 1]), bag, weights, combiner="sum")
    table = get_variable("v", [12, 4])
    sums = tf.nn.embedding_lookup_sparse(table, bag, weights, combiner="sum")
    squares = tf.nn.embedding_lookup_sparse(
        tf.square(table), bag, with_values(weights, tf.square(weights.values)), combiner="sum"
    )
    pairs = 0.5 * tf.reduce_sum(tf.square(sums) - squares, 1, keepdims=True)
    means = tf.nn.embedding_lookup_sparse(table, bag, None, combiner="mean")
    rooted = tf.nn.safe_embedding_lookup_sparse(table, bag, weights, combiner="sqrtn")
    deep = dense(dense(tf.concat([means, rooted], 1), 6, tf.nn.relu), 1)
    logits = linear + pairs + deep + get_variable("b", [1])
    dense_bag = tf.sparse.to_dense(weights)
    logits += dense(tf.reshape(dense_bag, [-1, 5]), 1)
    loss = None
    if labels is not None:
        loss = _entropy(labels["click"], logits) + 0.01 * tf.nn.l2_loss(means)
        loss += 0.1 * tf.reduce_mean(tf.sparse.reduce_sum(weights, 1)) * tf.reduce_mean(logits)
    return tables.spec_of(mode, {"score": tf.sigmoid(logits)}, loss, params)


def sparse_products(features, labels, mode, params):
    """A factorisation machine by `sparse_tensor_dense_matmul`, of multi-hot rows."""
    bag = features["bag"]
    places = tf.stack([bag.indices[:, 0], bag.values], 1)
    values = tf.cast(features["bag_weights"].values, F64)
    shape = tf.stack([bag.dense_shape[0], 12])
    x = tf.sparse.reorder(tf.SparseTensor(places, values, shape))
    w, v = get_variable("w", [12, 1]), get_variable("v", [12, 4])
    linear = tf.sparse.sparse_dense_matmul(x, w)
    square = tf.square(tf.sparse.sparse_dense_matmul(x, v))
    squares = with_values(x, tf.square(x.values))
    pairs = square - tf.sparse.sparse_dense_matmul(squares, tf.square(v))
    logits = linear + 0.5 * tf.reduce_sum(pairs, 1, keepdims=True)
    loss = None if labels is None else tf.reduce_mean((logits - labels["y"]) ** 2)
    return tables.spec_of(mode, {"score": logits}, loss, params)


MODELS = {
    model.__name__: model for model in (din, esmm, xdeepfm, deepfm, deepfm_sparse, sparse_products)
}
