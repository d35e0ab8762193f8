"""Models of sparse rows, of masks and of sorted rows, in double precision except for columns.

Features come from `batches`; each model is a `model_fn`.
"""

import numpy as np
import tensorflow.compat.v1 as tf

F64 = tf.float64
MODELS = {}
NAMES = ("indices", "ids", "words", "weights", "shape", "dense", "category", "text")


def batches(sizes, seed=3):
    """Yields features and labels of batches of so many rows; a row has up to three values.

    Features by name: `indices` [m, 2] and `shape` [2] of sparse tensors; `ids` [m] of nine, `words`
    [m] of four and `weights` [m]; `dense` [n, 3]; `category` [n] of five, or -1; `text` [n]. Labels
    are [n, 1].
    """
    draw = np.random.RandomState(seed)
    for rows in sizes:
        lengths = draw.randint(0, 4, rows)
        indices = [(row, column) for row in range(rows) for column in range(lengths[row])]
        many = len(indices)
        words = [b"a", b"b", b"c", b"d"]
        sentences = [
            b" ".join(words[word] for word in draw.randint(4, size=draw.randint(4)))
            for _ in range(rows)
        ]
        features = (
            np.array(indices, np.int64).reshape(-1, 2),
            draw.randint(9, size=many).astype(np.int64),
            np.array([words[word] for word in draw.randint(4, size=many)], object),
            draw.uniform(0.1, 1, many),
            np.array([rows, max(lengths.max(), 1)], np.int64),
            draw.normal(size=(rows, 3)),
            draw.randint(-1, 5, rows).astype(np.int64),
            np.array(sentences, object),
        )
        yield (*features, draw.normal(size=(rows, 1)))


def dataset(sizes, is_static):
    """Returns the batches as features and labels; sparse tensors are put together."""
    rows = sizes[0] if is_static else None
    types = (tf.int64, tf.int64, tf.string, F64, tf.int64, F64, tf.int64, tf.string, F64)
    shapes = ([None, 2], [None], [None], [None], [2], [rows, 3], [rows], [rows], [rows, 1])

    def named(*values):
        given, labels = dict(zip(NAMES, values)), values[-1]
        indices, shape = given.pop("indices"), given.pop("shape")
        for name in ("ids", "words", "weights"):
            given[name] = tf.SparseTensor(indices, given[name], shape)
        return given, labels

    made = tf.data.Dataset.from_generator(lambda: batches(sizes), types, shapes)
    return made.map(named)


def model(loss):
    """Enters the `model_fn` that minimises a function of features and labels."""

    def model_fn(features, labels, mode, params):
        made = loss(features, labels)
        optimizer = params["wrap"](tf.train.GradientDescentOptimizer(0.1))
        train_op = optimizer.minimize(made, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=made, train_op=train_op)

    MODELS[loss.__name__] = model_fn
    return loss


def weight(name, shape, dtype=F64):
    initializer = tf.random_normal_initializer(seed=5)
    return tf.get_variable(name, tf.TensorShape(shape).as_list(), dtype, initializer)


def layer(x, units, name="layer"):
    return x @ weight(name, [x.shape[-1], units], x.dtype)


def error(x, labels):
    return tf.reduce_mean((layer(x, 1, "last") - tf.cast(labels, x.dtype)) ** 2)


@model
def mean_of_embeddings(features, labels):
    table = [weight("table", [9, 4])]
    found = tf.nn.safe_embedding_lookup_sparse(table, features["ids"])
    return error(tf.concat([found, features["dense"]], 1), labels)


@model
def weighted_embeddings(features, labels):
    table = [weight("table", [9, 4])]
    found = tf.nn.safe_embedding_lookup_sparse(
        table, features["ids"], features["weights"], combiner="sqrtn"
    )
    return error(tf.concat([found, features["dense"]], 1), labels)


@model
def embeddings_without_the_last_rows(features, labels):
    """`embedding_lookup_sparse` has no rows beyond the last that has a value."""
    found = tf.nn.embedding_lookup_sparse(
        weight("table", [9, 4]), features["ids"], None, combiner="sum"
    )
    missing = tf.shape(features["dense"])[0] - tf.shape(found)[0]
    found = tf.pad(found, [[0, missing], [0, 0]])
    return error(tf.concat([found, features["dense"]], 1), labels)


@model
def tokens(features, labels):
    split = tf.string_split(features["text"])
    ids = tf.string_to_hash_bucket_fast(split.values, 9)
    sparse = tf.SparseTensor(split.indices, ids, split.dense_shape)
    padded = tf.sparse.to_dense(sparse, 8)  # As wide as the longest row.
    table = weight("table", [9, 4])
    found = tf.nn.safe_embedding_lookup_sparse([table], sparse, combiner="sum")
    others = tf.reduce_mean(tf.gather(table, padded), 1)
    return error(tf.concat([found, others, features["dense"]], 1), labels)


@model
def dense_of_sparse(features, labels):
    dense = tf.sparse.to_dense(features["weights"], -1.0)
    largest = tf.reduce_max(dense, 1, keepdims=True)
    total = tf.sparse.reduce_sum(features["weights"], 1, keepdims=True)
    total.set_shape([None, 1])
    return error(tf.concat([largest * features["dense"], total * features["dense"]], 1), labels)


@model
def sparse_matrix(features, labels):
    given = features["weights"]
    values = given.values * weight("factor", [])
    matrix = tf.SparseTensor(given.indices, values, [given.dense_shape[0], 4])
    found = tf.sparse.sparse_dense_matmul(matrix, weight("table", [4, 5]))
    return error(tf.concat([found, features["dense"]], 1), labels)


@model
def expanded(features, labels):
    """A new axis in front: the first column of the indices counts no rows any more."""
    given = tf.sparse.expand_dims(features["weights"], 0)
    places = tf.cast(tf.reduce_sum(given.indices * [1, 2, 3], 1), F64)
    total = tf.reduce_sum(places * given.values) * weight("factor", [])
    return error(features["dense"], labels) + 0.01 * total**2


@model
def of_many_columns(features, labels):
    """The shape of hashed columns is larger than int32; the values are between two bounds."""
    given = features["ids"]
    hashed = tf.SparseTensor(given.indices, given.values, [given.dense_shape[0], 2**33])
    twice = tf.sparse.concat(1, [hashed, hashed])
    columns = tf.gather(weight("table", [13]), twice.indices[:, 1] % 13)
    largest = tf.clip_by_value(tf.reduce_max(columns), -2.0, 2.0)
    size = 1e-10 * tf.cast(twice.dense_shape[1], F64)
    return error(features["dense"], labels) + tf.reduce_mean(columns) ** 2 * size + largest**2


@model
def masked(features, labels):
    """Rows that are kept, and entries; the mean of those that are, and their number."""
    h = tf.tanh(layer(features["dense"], 4))
    keep = features["dense"][:, 0] > 0
    kept, wanted = tf.boolean_mask(h, keep), tf.boolean_mask(labels, keep)
    entries = tf.boolean_mask(h, h > 0.1)
    loss = tf.reduce_sum((layer(kept, 1, "kept") - wanted) ** 2)
    count = tf.cast(tf.maximum(1, tf.shape(kept)[0]), F64)
    largest = tf.reduce_max(tf.concat([entries, tf.zeros([1], F64)], 0))
    return loss / count + tf.reduce_mean(entries) * largest


@model
def sorted_rows(features, labels):
    """A mixture of two experts."""
    h = tf.tanh(layer(features["dense"], 4))
    which = tf.cast(features["dense"][:, 1] > 0, tf.int32)
    ones, others = tf.dynamic_partition(h, which, 2)
    places = tf.dynamic_partition(tf.range(tf.shape(h)[0]), which, 2)
    found = tf.dynamic_stitch(places, [layer(ones, 3, "one"), tf.tanh(layer(others, 3, "other"))])
    return error(found, labels)


@model
def picked(features, labels):
    """Values of actions, by coordinates."""
    h = tf.tanh(layer(features["dense"], 5))
    actions = tf.cast(features["category"] + 1, tf.int32) % 5
    places = tf.stack([tf.range(tf.shape(h)[0]), actions], 1)
    taken = tf.gather_nd(h, places)
    back = tf.scatter_nd(places, taken, tf.shape(h))
    return tf.reduce_mean((taken - labels[:, 0]) ** 2) + tf.reduce_sum(back**3)


@model
def pairs_of_classes(features, labels):
    """Each positive with each negative: in some batch there is one positive, and in one tower."""
    h = layer(tf.tanh(layer(features["dense"], 5)), 1, "scores")[:, 0]
    positive = tf.where(labels[:, 0] > 0.5)[:, 0]
    rows = tf.range(tf.size(h, out_type=tf.int64))
    negative = tf.sets.difference([rows], [positive]).values
    x, y = tf.meshgrid(tf.gather(h, positive), tf.gather(h, negative))
    pairs = tf.cast(tf.size(x), F64)
    return tf.reduce_sum(tf.nn.softplus(y - x)) / (1.0 + pairs) + 0.1 * tf.reduce_mean(h**2)


def _columns(features):
    make = tf.feature_column
    ids = make.categorical_column_with_identity("ids", 9)
    category = make.categorical_column_with_identity("category", 5)
    words = make.categorical_column_with_vocabulary_list("words", ["a", "b"], num_oov_buckets=1)
    numbers = make.numeric_column("dense", (3,))
    buckets = make.bucketized_column(numbers, [-0.5, 0.0, 0.5])
    crossed = make.crossed_column(["words", category], 20)
    return ids, category, words, numbers, buckets, crossed


@model
def embedded_columns(features, labels):
    ids, category, words, numbers, buckets, crossed = _columns(features)
    initializer = tf.random_normal_initializer(seed=3)

    def embedded(column):
        return tf.feature_column.embedding_column(column, 2, initializer=initializer)

    columns = [embedded(ids), embedded(crossed), embedded(buckets), numbers]
    columns += [tf.feature_column.indicator_column(column) for column in (category, words)]
    return error(tf.feature_column.input_layer(features, columns), labels)


@model
def linear_columns(features, labels):
    made = tf.feature_column.linear_model(features, _columns(features))
    return tf.reduce_mean((made - tf.cast(labels, tf.float32)) ** 2)
