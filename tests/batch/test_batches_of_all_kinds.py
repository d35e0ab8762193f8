"""Batches that are no plain tensors train over towers what they train on one device, float64."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import bodies
import contract
import replicate
import selection
from contract import MEAN, SUM, ModeKeys

TOWERS = [selection.cell(2, is_quick=False), 3]
ROWS = np.array([[1.0], [2.0], [3.0], [-4.0], [5.0], [0.5], [1.5]])
TARGETS = np.array([1.0, 0.0, 2.0, -1.0, 3.0, 0.25, 1.0])


def minimize(mode, loss, params):
    optimizer = params["wrap"](tf.train.GradientDescentOptimizer(0.125))
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, predictions=None, loss=loss, train_op=train_op)


def weight(shape=()):
    return tf.get_variable("w", shape, tf.float64, tf.constant_initializer(0.5))


def steps_of(model_fn, batch, num_towers=1, reduction=MEAN, steps=3, **kwargs):
    """Returns `w` after each of some steps on what the function `batch` returns, not a dataset."""
    wrap = contract.plain
    if num_towers > 1:
        model_fn = contract.replicated(model_fn, num_towers, reduction, **kwargs)
        wrap = replicate.TowerOptimizer
    with tf.Graph().as_default():
        tf.train.create_global_step()
        params = {"wrap": wrap, "reduction": reduction}
        spec = model_fn(*batch(), mode=ModeKeys.TRAIN, params=params)
        (variable,) = tf.trainable_variables()
        values = []
        config = replicate.session_config(contract.device_names(num_towers))
        with tf.Session(config=config) as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            for _ in range(steps):
                session.run(spec.train_op)
                values.append(session.run(variable))
    return values


def assert_trains_alike(model_fn, batch, num_towers, **kwargs):
    want = steps_of(model_fn, batch, reduction=kwargs.get("reduction", MEAN))
    got = steps_of(model_fn, batch, num_towers, **kwargs)
    np.testing.assert_allclose(got, want, rtol=1e-12)
    assert np.ptp(want) > 1e-3  # Something is trained.


# ---- Python lists


def of_lists(features, labels, mode, params):
    x = tf.cast(features["x"], tf.float64)
    targets = tf.cast(labels, tf.float64)
    losses = tf.square(tf.reduce_sum(x, axis=1) * weight() - targets)
    reduce = tf.reduce_sum if params["reduction"] == SUM else tf.reduce_mean
    return minimize(mode, reduce(losses) / 10, params)


@pytest.mark.parametrize("num_towers", TOWERS)
@pytest.mark.parametrize("reduction", [MEAN, SUM])
@pytest.mark.parametrize("which", ["features", "labels", "both"])
def test_python_lists_are_split(num_towers, reduction, which):
    def batch():
        x = ROWS if which == "labels" else ROWS.tolist()
        return {"x": x}, TARGETS if which == "features" else TARGETS.tolist()

    assert_trains_alike(of_lists, batch, num_towers, reduction=reduction)


def test_the_weight_of_a_list_by_hand():
    def model_fn(features, labels, mode, params):
        loss = tf.reduce_mean(tf.cast(features["x"], tf.float64)) * weight()
        return minimize(mode, loss, params)

    # 0.5 - 0.125·mean(x), and mean(x) = 2.5.
    (got,) = steps_of(model_fn, lambda: ({"x": [[1.0], [2.0], [3.0], [4.0]]}, None), 2, steps=1)
    np.testing.assert_allclose(got, 0.1875, rtol=1e-12)


@pytest.mark.parametrize("num_towers", TOWERS)
def test_words_in_a_python_list_are_split(num_towers):
    words = ["one", "two", "three", "four", "five", "six", "seven"]

    def model_fn(features, labels, mode, params):
        table = tf.cast(tf.strings.length(features["words"]), tf.float64)
        losses = tf.square(table * weight() - tf.cast(labels, tf.float64))
        return minimize(mode, tf.reduce_mean(losses) / 10, params)

    assert_trains_alike(model_fn, lambda: ({"words": words}, TARGETS.tolist()), num_towers)


# ---- sparse rows of varying length

SENTENCES = [[4], [1, 2], [], [3, 1, 2, 1], [2, 2, 4], [1], [4, 3]]


def parsed():
    """Returns what `tf.io.parse_example` makes of the sentences."""
    records = []
    for words in SENTENCES:
        feature = {
            "ids": tf.train.Feature(int64_list=tf.train.Int64List(value=words)),
            "length": tf.train.Feature(int64_list=tf.train.Int64List(value=[len(words)])),
        }
        example = tf.train.Example(features=tf.train.Features(feature=feature))
        records.append(example.SerializeToString())
    spec = {"ids": tf.io.VarLenFeature(tf.int64), "length": tf.io.FixedLenFeature([], tf.int64)}
    return tf.io.parse_example(records, spec), TARGETS


def of_sentences(features, labels, mode, params):
    """Combines a tensor as wide as the sparse one with a tensor as wide as the longest row."""
    ids = tf.sparse.to_dense(features["ids"])
    mask = tf.sequence_mask(features["length"], dtype=tf.float64)
    scores = tf.reduce_sum(tf.gather(weight([5]), ids) * mask, axis=1)
    return minimize(mode, tf.reduce_mean(tf.square(scores - labels)) / 10, params)


@pytest.mark.parametrize("num_towers", TOWERS)
def test_a_model_may_pad_to_its_own_longest_row(num_towers):
    assert_trains_alike(of_sentences, parsed, num_towers)


@pytest.mark.parametrize("num_towers", TOWERS)
def test_datasets_of_sparse_rows_may_be_padded_likewise(num_towers):
    def batch():
        dataset = tf.data.Dataset.from_tensors(parsed()).repeat()
        return tf.data.make_one_shot_iterator(dataset).get_next()

    assert_trains_alike(of_sentences, batch, num_towers)


@pytest.mark.parametrize("num_towers", TOWERS)
def test_multi_hot_rows_keep_their_width(num_towers):
    columns = [[0], [1, 4], [], [2], [0, 3], [1], [0]]

    def batch():
        indices = [[row, column] for row, some in enumerate(columns) for column in some]
        shape = tf.placeholder_with_default(np.array([7, 5], np.int64), [2])
        return {"hot": tf.SparseTensor(indices, tf.ones([9], tf.float64)[:8], shape)}, TARGETS

    def model_fn(features, labels, mode, params):
        hot = tf.sparse.to_dense(features["hot"])
        scores = tf.matmul(tf.reshape(hot, [-1, 5]), weight([5, 1]))[:, 0]
        return minimize(mode, tf.reduce_mean(tf.square(scores - labels)) / 10, params)

    assert_trains_alike(model_fn, batch, num_towers)


@pytest.mark.parametrize("num_towers", [*TOWERS, 9])
@pytest.mark.parametrize("mode", [ModeKeys.EVAL, ModeKeys.PREDICT])
def test_padded_rows_are_evaluated_and_predicted_alike(num_towers, mode):
    def model_fn(features, labels, mode, params=None):
        ids = tf.cast(tf.sparse.to_dense(features["ids"]), tf.float64)
        scores = tf.reduce_sum(ids * tf.sequence_mask(features["length"], dtype=ids.dtype), axis=1)
        metrics = {"mean": tf.metrics.mean(scores)} if mode == ModeKeys.EVAL else None
        loss = tf.reduce_mean(scores) if mode == ModeKeys.EVAL else None
        return tf.estimator.EstimatorSpec(mode, scores, loss, eval_metric_ops=metrics)

    def values(model_fn):
        with tf.Graph().as_default():
            features, labels = parsed()
            spec = model_fn(features, labels, mode=mode)
            fetches = [spec.predictions, *(metric[1] for metric in spec.eval_metric_ops.values())]
            config = replicate.session_config(contract.device_names(num_towers))
            with tf.Session(config=config) as session:
                session.run(tf.local_variables_initializer())
                return session.run(fetches)

    for got, want in zip(values(contract.replicated(model_fn, num_towers)), values(model_fn)):
        np.testing.assert_allclose(got, want, rtol=1e-6)


# ---- what goes to every tower whole


@pytest.mark.parametrize("num_towers", TOWERS)
@pytest.mark.parametrize("kind", [np.array, tf.constant, list], ids=["array", "tensor", "list"])
def test_class_weights_are_whole_where_there_are_as_many_classes_as_rows(num_towers, kind):
    classes = [0, 6, 5, 1, 2, 4, 3]

    def batch():
        class_weights = kind([0.5, 1.0, 2.0, 3.0, 1.5, 0.25, 4.0])
        features = {"x": ROWS, "classes": np.array(classes), "extra": {"weights": class_weights}}
        return features, {"y": TARGETS, "scale": kind([1.0, 2.0])}

    def model_fn(features, labels, mode, params):
        class_weights = tf.cast(features["extra"]["weights"], tf.float64)
        weights = tf.gather(class_weights, features["classes"])
        losses = weights * tf.square(features["x"][:, 0] * weight() - labels["y"])
        scale = tf.reduce_sum(tf.cast(labels["scale"], tf.float64))
        return minimize(mode, tf.reduce_mean(losses) * scale / 100, params)

    names = ["extra/weights", "labels/scale"]
    assert_trains_alike(model_fn, batch, num_towers, unsplit_features=names)


@pytest.mark.parametrize("num_towers", TOWERS)
def test_a_ragged_table_is_whole_beside_ragged_rows(num_towers):
    """Values made from the table alone are whole; towers have different numbers of rows."""
    sizes = np.array([2, 0, 3, 1, 1, 4, 2])

    def batch():
        table = tf.RaggedTensor.from_row_lengths(np.arange(6.0), [1, 3, 2])
        rows = tf.RaggedTensor.from_row_lengths(np.cos(np.arange(13.0)), sizes)
        return {"x": rows, "table": table, "dense": ROWS}, TARGETS

    def model_fn(features, labels, mode, params):
        assert num_towers == 1 or features["table"].shape.as_list()[0] == 3
        w = weight()
        penalty = tf.reduce_sum(features["table"].flat_values) * w**2 / 1000
        scores = tf.reduce_sum(features["x"], axis=1) * w + features["dense"][:, 0]
        return minimize(mode, tf.reduce_mean(tf.square(scores - labels)) / 10 + penalty, params)

    assert_trains_alike(model_fn, batch, num_towers, unsplit_features=["table"])


def test_names_may_come_from_an_iterator_and_serve_every_mode():
    def model_fn(features, labels, mode, params=None):
        table = features["table"]
        assert table.shape.as_list() == [4]
        predictions = features["x"] + tf.reduce_sum(table)
        if mode == ModeKeys.TRAIN:
            return minimize(mode, tf.reduce_mean(predictions) * weight(), params)
        return tf.estimator.EstimatorSpec(mode, predictions, tf.reduce_mean(predictions))

    # Of labels, there are none where the model predicts.
    names = iter(["table", "labels/table"])
    replicated = contract.replicated(model_fn, 2, unsplit_features=names)
    params = {"wrap": replicate.TowerOptimizer}
    for mode in (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT):
        with tf.Graph().as_default():
            tf.train.create_global_step()
            features = {"x": tf.ones([4], tf.float64), "table": tf.ones([4], tf.float64)}
            labels = None if mode == ModeKeys.PREDICT else {"table": tf.ones([3])}
            spec = replicated(features, labels, mode=mode, params=params)
            if mode == ModeKeys.PREDICT:
                with tf.Session() as session:
                    np.testing.assert_array_equal(session.run(spec.predictions), [5.0] * 4)


def test_sparse_entries_are_padded_to_the_longest_of_the_batch(warnings):
    def model_fn(features, labels, mode):
        ids = tf.sparse.to_dense(features["ids"])
        w = tf.get_variable("w", [], initializer=tf.ones_initializer())
        loss = tf.reduce_mean(tf.cast(ids, tf.float32)) * w
        train_op = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    indices = tf.placeholder_with_default(np.array([[0, 0], [1, 0], [1, 1]]), [None, 2])
    shape = tf.placeholder_with_default(np.array([2, 2]), [2])
    ids = tf.SparseTensor(indices, tf.constant([1, 2, 3]), shape)
    replicated = replicate.replicate_model_fn(model_fn, devices=["/cpu:0", "/cpu:1"])
    spec = replicated({"ids": ids}, None, "train")
    with bodies.session(2) as session:
        session.run(tf.global_variables_initializer())
        assert session.run(spec.loss) == 1.5  # Of [[1, 0], [2, 3]].
        session.run(spec.train_op)
        assert session.run(tf.trainable_variables()) == [-0.5]
    assert warnings() == []


@pytest.mark.parametrize("rows", [1, 2])
def test_a_batch_known_to_be_small_is_trained_by_as_many_towers(rows, warnings):
    seen = []

    def body(index, features):
        seen.append(replicate.num_towers())
        w = tf.get_variable("w", [], initializer=tf.ones_initializer())
        loss = tf.reduce_mean(tf.square(w * features))
        train_op = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.1)).minimize(loss)
        return bodies.spec(ModeKeys.TRAIN, loss, train_op)

    with tf.Graph().as_default(), bodies.session(3) as session:
        made = bodies.build(body, tf.reshape(tf.range(1.0, rows + 1.0), [rows, 1]), num_towers=3)
        session.run(tf.global_variables_initializer())
        loss, _ = session.run([made.loss, made.train_op])
        mean = np.mean(np.arange(1.0, rows + 1.0) ** 2)
        assert loss == pytest.approx(mean)
        assert session.run(tf.trainable_variables()) == [pytest.approx(1.0 - 0.2 * mean)]
    assert seen == [rows]
    (warning,) = warnings()
    assert f"a training batch has {rows} rows, fewer than the 3 towers" in warning


@pytest.mark.parametrize("mode", [ModeKeys.TRAIN, ModeKeys.EVAL])
def test_scalars_alone_are_taken_by_one_tower(mode, warnings):
    def body(index, features):
        return bodies.spec(mode, features["a"] * replicate.num_towers())

    made = bodies.build(body, {"a": tf.constant(2.0), "b": None}, mode, num_towers=3)
    with bodies.session(3) as session:
        assert session.run(made.loss) == 2.0
    (warning,) = warnings()
    assert "there are no rows to split, and one of 3 towers computes all" in warning
