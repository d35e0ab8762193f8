"""Models of feature columns, of words and of serialized examples, as their authors publish them."""

import tensorflow.compat.v1 as tf

from partition import tables
from partition.harness import ModeKeys
from partition.model_inputs import GLOROT
from partition.published_inputs import CITIES, WORDS

COLUMN = tf.feature_column


def dense(x, units, activation=None):
    return tf.layers.dense(x, units, activation, kernel_initializer=GLOROT())


def _of_columns(features):
    """Returns the features that columns take."""
    names = "item", "city", "age", "bag", "bag_weights", "names", "feat_ids"
    return {name: features[name] for name in names}


def columns():
    """Returns wide columns, and deep ones."""
    item = COLUMN.categorical_column_with_identity("item", 12)
    city = COLUMN.categorical_column_with_vocabulary_list("city", CITIES, num_oov_buckets=2)
    hashed = COLUMN.categorical_column_with_hash_bucket("names", 7)
    ages = COLUMN.bucketized_column(COLUMN.numeric_column("age"), [20, 35, 50])
    bag = COLUMN.categorical_column_with_identity("bag", 12)
    weighted = COLUMN.weighted_categorical_column(bag, "bag_weights")
    crossed = COLUMN.crossed_column(["city", ages], 11)
    crossed_keys = COLUMN.crossed_column(["names", "city"], 13)
    wide = [item, city, hashed, ages, weighted, crossed, crossed_keys]
    deep = [
        COLUMN.embedding_column(item, 3),
        COLUMN.embedding_column(hashed, 2, combiner="sqrtn"),
        COLUMN.embedding_column(weighted, 3, combiner="sum", max_norm=1.5),
        COLUMN.embedding_column(crossed_keys, 2),
        COLUMN.indicator_column(city),
        COLUMN.indicator_column(bag),
        COLUMN.numeric_column("age", normalizer_fn=lambda age: (age - 40.0) / 20.0),
    ]
    return wide, deep


def _shared(function):
    """Returns shared embeddings of ids; TensorFlow 1.15 has them in graphs under this name."""
    ids = [COLUMN.categorical_column_with_identity(name, 12) for name in ("item", "feat_ids")]
    return function(ids, 3)


def _entropy(labels, logits):
    clicked = tf.cast(labels["click"], tf.float32)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=clicked, logits=logits))


def wide_and_deep(features, labels, mode, params):
    """All kinds of columns, and a penalty of what is embedded."""
    given, (wide, deep) = _of_columns(features), columns()
    with tf.variable_scope("wide"):
        logits = COLUMN.linear_model(given, wide, sparse_combiner="mean")
    with tf.variable_scope("deep"):
        embedded = COLUMN.input_layer(given, deep)
        logits += dense(dense(embedded, 6, tf.nn.relu), 1)
    predictions = {"score": tf.sigmoid(logits), "embedded": embedded}
    if labels is None:
        return tables.spec_of(mode, predictions, None, params)
    tables_ = [one for one in tables.own_variables("deep") if "embedding_weights" in one.name]
    loss = _entropy(labels, logits) + 0.01 * tf.add_n([tf.nn.l2_loss(one) for one in tables_])
    return tables.spec_of(mode, predictions, loss + 0.001 * tf.nn.l2_loss(embedded), params)


def shared_embeddings(features, labels, mode, params):
    """Items that are shown and those that were clicked have one table."""
    given = _of_columns(features)
    if hasattr(COLUMN, "shared_embedding_columns"):
        both = _shared(COLUMN.shared_embedding_columns)
    else:
        both = _shared(COLUMN.shared_embeddings)
    shown, clicked = [COLUMN.input_layer(given, column) for column in both]
    logits = tf.reduce_sum(shown * clicked, 1, keepdims=True) + dense(clicked, 1)
    loss = None if labels is None else _entropy(labels, logits)
    return tables.spec_of(mode, {"score": logits}, loss, params)


def normalised_columns(features, labels, mode, params):
    """Batch norm, fused and not, behind embedding columns."""
    training = mode == ModeKeys.TRAIN
    x = COLUMN.input_layer(_of_columns(features), columns()[1])
    x = tf.layers.batch_normalization(x, training=training, momentum=0.8)
    x = dense(x, 8, tf.nn.sigmoid)
    x = tf.reshape(x, [-1, 2, 2, 2])
    x = tf.layers.batch_normalization(x, training=training, momentum=0.8, fused=True)
    logits = dense(tf.reshape(tf.nn.relu(x), [-1, 8]), 1)
    loss = None if labels is None else _entropy(labels, logits)
    return tables.spec_of(mode, {"score": logits}, loss, params)


def words_of_text(features, labels, mode, params):
    """Text is split, looked up in a vocabulary, embedded, and averaged; rows may have no words."""
    table = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(WORDS[:5], list(range(5)), value_dtype=tf.int64), 3
    )
    tokens = tf.string_split(features["text"])
    ids = tf.SparseTensor(tokens.indices, table.lookup(tokens.values), tokens.dense_shape)
    weights = tf.get_variable("words", [9, 4], initializer=GLOROT())
    mean = tf.nn.safe_embedding_lookup_sparse(weights, ids, combiner="mean")
    padded = tf.sparse.to_dense(ids, default_value=8)
    mask = tf.cast(tf.not_equal(padded, 8), tf.float32)[:, :, None]
    total = tf.reduce_sum(tf.nn.embedding_lookup(weights, padded) * mask, 1)
    logits = dense(tf.concat([mean, total], 1), 1)
    predictions = {"score": logits, "padded": padded, "mean": mean}
    loss = None if labels is None else _entropy(labels, logits)
    return tables.spec_of(mode, predictions, loss, params)


def parsed(features, labels, mode, params):
    """Serialized examples are parsed in the model, as a serving function does."""
    spec = {
        "ids": tf.VarLenFeature(tf.int64),
        "weights": tf.VarLenFeature(tf.float32),
        "city": tf.FixedLenFeature([], tf.string),
        "age": tf.FixedLenFeature([1], tf.float32),
    }
    found = tf.parse_example(features["example"], spec)
    weights = tf.get_variable("table", [9, 3], initializer=GLOROT())
    mean = tf.nn.safe_embedding_lookup_sparse(weights, found["ids"], found["weights"])
    city = tf.strings.to_hash_bucket_fast(found["city"], 5)
    x = tf.concat([mean, tf.one_hot(city, 5), found["age"]], 1)
    logits = dense(dense(x, 5, tf.nn.relu), 1)
    loss = None if labels is None else _entropy(labels, logits)
    return tables.spec_of(mode, {"score": logits}, loss, params)


def parsed_columns(features, labels, mode, params):
    """The same, by the columns' own specification."""
    made = [
        COLUMN.embedding_column(COLUMN.categorical_column_with_identity("ids", 9), 3),
        COLUMN.indicator_column(COLUMN.categorical_column_with_vocabulary_list("city", CITIES)),
        COLUMN.numeric_column("age"),
    ]
    found = tf.parse_example(features["example"], COLUMN.make_parse_example_spec(made))
    logits = dense(dense(COLUMN.input_layer(found, made), 5, tf.nn.relu), 1)
    wide = COLUMN.categorical_column_with_hash_bucket("city", 8)
    logits += COLUMN.linear_model(found, [wide])
    loss = None if labels is None else _entropy(labels, logits)
    return tables.spec_of(mode, {"score": logits}, loss, params)


def parsed_lists(features, labels, mode, params):
    """Lists that are padded to the longest of the batch."""
    spec = {
        "ids": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True, default_value=9),
        "age": tf.FixedLenFeature([1], tf.float32),
    }
    found = tf.parse_example(features["example"], spec)
    table = tf.get_variable("table", [10, 3], initializer=GLOROT())
    mask = tf.cast(found["ids"] < 9, tf.float32)[:, :, None]
    total = tf.reduce_sum(tf.gather(table, found["ids"]) * mask, 1)
    logits = dense(dense(tf.concat([total, found["age"]], 1), 5, tf.nn.relu), 1)
    predictions = {"score": logits, "ids": found["ids"]}
    loss = None if labels is None else _entropy(labels, logits)
    return tables.spec_of(mode, predictions, loss, params)


def parsed_ragged(features, labels, mode, params):
    """Ragged rows of a parser; TensorFlow 1.15 has none, and takes lists instead."""
    if not hasattr(tf.io, "RaggedFeature"):
        return parsed_lists(features, labels, mode, params)
    found = tf.parse_example(features["example"], {"ids": tf.io.RaggedFeature(tf.int64)})["ids"]
    table = tf.get_variable("table", [10, 3], initializer=GLOROT())
    total = tf.reduce_sum(found.with_flat_values(tf.gather(table, found.flat_values)), 1)
    logits = dense(dense(tf.reshape(total, [-1, 3]), 5, tf.nn.relu), 1)
    loss = None if labels is None else _entropy(labels, logits)
    return tables.spec_of(mode, {"score": logits}, loss, params)


def columns_of_sequences(features, labels, mode, params):
    """Sequence columns and their lengths enter a recurrence."""
    clicked = COLUMN.sequence_categorical_column_with_identity("bag", 12)
    named = COLUMN.sequence_categorical_column_with_hash_bucket("names", 5)
    made = [COLUMN.embedding_column(clicked, 3), COLUMN.indicator_column(named)]
    layer = tf.keras.experimental.SequenceFeatures(made)
    x, lengths = layer({"bag": features["bag"], "names": features["names"]})
    cell = tf.nn.rnn_cell.GRUCell(4, kernel_initializer=GLOROT())
    _, state = tf.nn.dynamic_rnn(cell, x, lengths, dtype=tf.float32)
    logits = dense(state, 1)
    predictions = {"score": logits, "lengths": lengths}
    loss = None if labels is None else _entropy(labels, logits)
    return tables.spec_of(mode, predictions, loss, params)


MODELS = {
    model.__name__: tables.of_old_control_flow(model)
    for model in (
        wide_and_deep,
        shared_embeddings,
        normalised_columns,
        words_of_text,
        columns_of_sequences,
    )
}
PARSED = {model.__name__: model for model in (parsed, parsed_columns, parsed_lists, parsed_ragged)}
