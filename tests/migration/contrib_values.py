"""Rows that compare replicate's names of `tf.contrib` with the originals: a row makes tensors.

A row is the name in `tf.contrib` and a function of what it stands for. It returns what a session
can fetch; the rest of a row's graph, such as its variables and losses, is compared as well.
"""

import os
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

X = np.linspace(-1.0, 2.0, 12).reshape(3, 4)


def dataset(transformation, stop=10):
    return elements(tf.data.Dataset.range(stop).apply(transformation))


def elements(made):
    batch = tf.data.make_one_shot_iterator(made).get_next()
    return lambda session: drained(session, batch)


def drained(session, batch):
    found = []
    while True:
        try:
            found.append(session.run(batch))
        except tf.errors.OutOfRangeError:
            return found


def initialized(shape, **options):
    def row(initializer):
        made = initializer(**options)
        return tf.get_variable("w", shape, options.get("dtype", tf.float32), made), made([3, 2])

    return row


def penalty(*args, **kwargs):
    def row(regularizer):
        with tf.variable_scope("a", regularizer=regularizer(*args, **kwargs)):
            tf.get_variable("w", [4], tf.float64, tf.constant_initializer(X[0]))
        return tf.losses.get_regularization_losses()

    return row


def summed(sum_regularizer):
    square = lambda w: tf.reduce_sum(w**2)  # noqa: E731
    return sum_regularizer([square, None, lambda w: None, square])(tf.constant(X)), (
        [] if sum_regularizer([None]) is None else 1
    )


def applied(apply_regularization):
    total = apply_regularization(tf.nn.l2_loss, [tf.constant(X), tf.constant(X[0])])
    tf.add_to_collection(tf.GraphKeys.WEIGHTS, tf.constant(X))
    return total, apply_regularization(lambda w: None), tf.losses.get_regularization_losses()


def head(labels, width=1, *args, **kwargs):
    def row(make):
        logits = tf.constant(X[:, :width], tf.float32)
        spec = make(*args, name="h", **kwargs).create_estimator_spec(
            {"weight": tf.constant([1.0, 2.0, 3.0])},
            tf.estimator.ModeKeys.EVAL,
            logits,
            labels=tf.constant(labels),
        )
        return spec.loss, spec.predictions, {k: v[1] for k, v in spec.eval_metric_ops.items()}

    return row


def clipped(clip_gradients_by_norm):
    optimizer = clip_gradients_by_norm(tf.train.MomentumOptimizer(0.1, 0.9), 0.5)
    w = tf.get_variable("w", initializer=tf.constant(X))
    step = tf.train.get_or_create_global_step()
    with tf.control_dependencies([optimizer.minimize(tf.reduce_sum(w**2), step)]):
        found = tf.identity(w.read_value()), step.read_value()
    return (
        found,
        optimizer.get_slot_names(),
        optimizer.get_slot(w, "momentum"),
        optimizer.get_name(),
    )


def checkpoint():
    """Returns the path of one with two variables."""
    path = os.path.join(tempfile.mkdtemp(), "model")
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("a/w", initializer=tf.constant(X))
        tf.get_variable("b", initializer=tf.constant(3.0))
        session.run(tf.global_variables_initializer())
        return tf.train.Saver().save(session, path)


def loaded(load_variable):
    path = checkpoint()
    return [load_variable(path, "a/w"), load_variable(checkpoint_dir=path, name="b:0")]


def listed(list_variables):
    return [str(list_variables(checkpoint())), str(list_variables(os.path.dirname(checkpoint())))]


def restored(init_from_checkpoint):
    path = checkpoint()
    with tf.variable_scope("x"):
        whole = tf.get_variable("w", [3, 4], tf.float64)
    single = tf.get_variable("c", [])
    init_from_checkpoint(path, {"a/": "x/", "b": single})
    return whole, single


def table(*args, **kwargs):
    def row(make):
        made = make(*args, **kwargs)
        return made.lookup(tf.constant(["b", "z", "a"]))

    return row


def hash_table(make):
    fill = tf.lookup.KeyValueTensorInitializer(["a", "b"], [1.0, 2.0])
    one, other = make(fill, -1.0, shared_name="s"), make(fill, default_value=-2.0, name="n")
    keys = tf.constant(["b", "z"])
    return one.lookup(keys), other.lookup(keys), other.export(), one.init.type, other.name


def strings(count):
    path = os.path.join(tempfile.mkdtemp(), "words")
    with open(path, "w") as file:
        file.write("a\nb\nc\n")
    return path if count is None else (path, count)


def stacked(make):
    cells = [[tf.nn.rnn_cell.LSTMCell(2) for _ in range(2)] for _ in range(2)]
    inputs = tf.constant(X.reshape(2, 3, 2), tf.float32)
    with tf.variable_scope("m", initializer=tf.glorot_uniform_initializer(seed=1)):
        again = make(*cells, inputs, dtype=tf.float32, sequence_length=[3, 2], scope="again")
        return again, make(*cells, inputs, dtype=tf.float32)


def placed(make):
    def row(strategy):
        choose = make(strategy)
        return [str(choose(tf.placeholder(tf.float32, [n], f"p{n}").op)) for n in (3, 2, 9, 1, 1)]

    return row


def scoped(get_name_scope):
    with tf.name_scope("a"), tf.name_scope("b"):
        return [get_name_scope()]


def reduced(reduce_dataset):
    reducer = tf.data.experimental.Reducer(lambda _: np.int64(1), lambda a, b: a * (b + 1), abs)
    return reduce_dataset(tf.data.Dataset.range(4), reducer)


def examples(read_batch_features):
    path = os.path.join(tempfile.mkdtemp(), "examples")
    with tf.io.TFRecordWriter(path) as file:
        for number in range(5):
            feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[number]))
            features = tf.train.Features(feature={"n": feature})
            file.write(tf.train.Example(features=features).SerializeToString())
    spec = {"n": tf.io.FixedLenFeature([], tf.int64)}
    batch = read_batch_features(path, 2, spec, randomize_input=False, num_epochs=2)
    return lambda session: drained(session, batch)


def extended(add_metrics):
    estimator = tf.estimator.LinearRegressor([tf.feature_column.numeric_column("x")])
    more = add_metrics(estimator, lambda labels, predictions: {"n": tf.metrics.mean(labels)})
    spec = more.model_fn({"x": X[:, 0]}, X[:, :1], "eval", more.config)
    return spec.loss, {name: value[1] for name, value in spec.eval_metric_ops.items()}


LABELS = np.array([0, 2, 1])
LOGITS = tf.constant  # Made in the row's own graph.
ROWS = [
    ("layers.xavier_initializer", initialized([3, 5])),
    ("layers.xavier_initializer", initialized([3, 3, 5, 2], seed=4, dtype=tf.float64)),
    ("layers.xavier_initializer", initialized([7], uniform=False)),
    ("layers.xavier_initializer", initialized([])),
    ("layers.xavier_initializer_conv2d", initialized([3, 3, 5, 2], uniform=False, seed=4)),
    ("layers.variance_scaling_initializer", initialized([3, 3, 5, 2])),
    ("layers.variance_scaling_initializer", initialized([3, 5], mode="FAN_OUT", uniform=True)),
    ("layers.variance_scaling_initializer", initialized([3, 5], factor=0.3, mode="FAN_AVG")),
    ("layers.l1_regularizer", penalty(0.1)),
    ("layers.l1_regularizer", penalty(0.0)),
    ("layers.l2_regularizer", penalty(0.1, "scope")),
    ("layers.l2_regularizer", penalty(0.0)),
    ("layers.l1_l2_regularizer", penalty(0.1, 0.2)),
    ("layers.l1_l2_regularizer", penalty(0.0, 0.2)),
    ("layers.l1_l2_regularizer", penalty(0.1, 0.0, "scope")),
    ("layers.sum_regularizer", summed),
    ("layers.apply_regularization", applied),
    ("estimator.multi_class_head", head(LABELS, 3, 3, weight_column="weight")),
    ("estimator.binary_classification_head", head([0, 1, 1], 1, thresholds=[0.3])),
    ("estimator.regression_head", head([[0.5], [1.0], [2.0]], weight_column="weight")),
    ("estimator.poisson_regression_head", head([[1.0], [1.0], [2.0]])),
    ("estimator.poisson_regression_head", head([[1.0], [2.0], [4.0]], compute_full_loss=False)),
    ("estimator.logistic_regression_head", head([[0.0], [1.0], [1.0]])),
    ("estimator.clip_gradients_by_norm", clipped),
    ("estimator.add_metrics", extended),
    ("framework.load_variable", loaded),
    ("framework.load_checkpoint", lambda load: [load(checkpoint()).get_tensor("b")]),
    ("framework.list_variables", listed),
    ("framework.init_from_checkpoint", restored),
    ("framework.get_name_scope", scoped),
    ("framework.assert_scalar_int", lambda check: check(tf.constant(3), name="n")),
    ("framework.assert_global_step", lambda check: [check(tf.train.create_global_step()) or 0]),
    (
        "framework.get_placeholders",
        lambda find: [tf.placeholder(tf.int32).name, find(tf.get_default_graph())[0].name],
    ),
    ("lookup.HashTable", hash_table),
    ("lookup.index_table_from_tensor", table(["a", "b", "c"], default_value=7)),
    ("lookup.index_table_from_tensor", table(["a", "b", "c"], num_oov_buckets=3)),
    ("lookup.string_to_index_table_from_tensor", table(["a", "b", "c"], 2)),
    ("lookup.string_to_index_table_from_file", table(strings(None))),
    ("lookup.string_to_index_table_from_file", table(*strings(3))),
    ("lookup.string_to_index", lambda find: find(tf.constant(["b", "z"]), ["a", "b"], -5)),
    ("lookup.index_to_string", lambda find: find(tf.constant([1, 9], tf.int64), ["a", "b"])),
    (
        "lookup.index_to_string_table_from_tensor",
        lambda make: make(["a", "b"], "?").lookup(tf.constant([1, 9], tf.int64)),
    ),
    ("rnn.stack_bidirectional_dynamic_rnn", stacked),
    ("training.RandomStrategy", placed(lambda cls: cls(5, seed=3))),
    ("training.GreedyLoadBalancingStrategy", placed(lambda cls: cls(3, lambda op: len(op.name)))),
    (
        "training.byte_size_load_fn",
        lambda size: [str(size(tf.get_variable("w", [3, 4], tf.float64).op))],
    ),
    ("data.batch_and_drop_remainder", lambda make: dataset(make(3))),
    ("data.padded_batch_and_drop_remainder", lambda make: dataset(make(3, [], np.int64(0)))),
    (
        "data.sloppy_interleave",
        lambda make: dataset(make(lambda n: tf.data.Dataset.from_tensors(n).repeat(2), 1), 4),
    ),
    ("data.reduce_dataset", reduced),
    ("data.read_batch_features", examples),
    ("metrics.confusion_matrix", lambda count: count([0, 1, 2], [0, 2, 2], 4, tf.float32)),
    (
        "metrics.aggregate_metrics",
        lambda join: join(tf.metrics.mean([1.0, 2.0]), tf.metrics.accuracy([1], [1])),
    ),
    ("metrics.aggregate_metric_map", lambda join: join({"m": tf.metrics.mean([1.0, 2.0])})),
    (
        "nn.deprecated_flipped_softmax_cross_entropy_with_logits",
        lambda loss: loss(tf.constant(X), tf.nn.softmax(-tf.constant(X))),
    ),
    (
        "nn.deprecated_flipped_sparse_softmax_cross_entropy_with_logits",
        lambda loss: loss(tf.constant(X), LABELS),
    ),
    (
        "nn.deprecated_flipped_sigmoid_cross_entropy_with_logits",
        lambda loss: loss(tf.constant(X), targets=tf.sigmoid(-tf.constant(X))),
    ),
]


def observed(row, thing):
    """Returns what a row computes, and what it leaves in its graph.

    Returns:
        The values, and the names of variables and of the regularization losses' operations.
    """
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.set_random_seed(3)
        made = row(thing)
        session.run(
            [
                tf.global_variables_initializer(),
                tf.local_variables_initializer(),
                tf.tables_initializer(),
            ]
        )
        values = made(session) if callable(made) else fetched(session, made)
        names = [variable.name for variable in tf.global_variables() + tf.local_variables()]
        losses = [len(graph.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES))]
        return values, sorted(names) + losses


def fetched(session, made):
    flat = tf.nest.flatten(made)
    graph = (tf.Tensor, tf.Variable, tf.Operation)
    return [session.run(one) if isinstance(one, graph) else one for one in flat]
