"""Batches of every kind train over towers what they train on one device, in float64."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import bodies
import contract
import replicate
import selection
from batch.batches_of_rows import axes_of, kinds, parsed, tensors_of
from contract import MEAN, SUM, ModeKeys

F64 = tf.float64
TIME, WIDTH = 4, 3
# Rows of the batches of a run: over 2 and 3 towers, of equal and of unequal shards.
SIZES = [7, 6, 5]
TOWERS = [selection.cell(2, is_quick=False), 3]
ROWS = np.array([[1.0], [2.0], [3.0], [-4.0], [5.0], [0.5], [1.5]])
TARGETS = np.array([1.0, 0.0, 2.0, -1.0, 3.0, 0.25, 1.0])


def rows_of(size, seed=0):
    random = np.random.RandomState(seed)
    frames = random.normal(size=(TIME, size, WIDTH))
    return frames, np.sin(frames.sum(axis=(0, 2)))


def dataset(sizes, make=lambda frames, y: ({"frames": frames, "bias": y / 7}, y)):
    """Returns a dataset of time-major batches; of a static shape if all are of one size."""
    parts = [
        tf.data.Dataset.from_tensors(make(*rows_of(size, seed))) for seed, size in enumerate(sizes)
    ]
    return functools.reduce(lambda one, other: one.concatenate(other), parts)


def next_of(data):
    return tf.data.make_one_shot_iterator(data).get_next()


def weight(name, shape=()):
    return tf.get_variable(name, shape, F64, tf.constant_initializer(0.3, F64))


def average(name, shape=(), **kwargs):
    zeros = tf.zeros_initializer(F64)
    return tf.get_variable(name, shape, F64, zeros, trainable=False, **kwargs)


def spec_of(mode, loss, params, updates=(), predictions=None, **kwargs):
    if mode != ModeKeys.TRAIN:
        return tf.estimator.EstimatorSpec(mode, predictions, loss, **kwargs)
    optimizer = params["wrap"](tf.train.GradientDescentOptimizer(0.25))
    with tf.control_dependencies(updates):
        train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, predictions, loss, train_op)


def reduce(losses, params):
    return (tf.reduce_sum if params["reduction"] == SUM else tf.reduce_mean)(losses)


# ---- batches of every kind, which need not come from a dataset


def steps_of(losses, shape, batch, num_towers=1, reduction=MEAN, steps=3, **kwargs):
    """Returns the loss of each step on what `batch()` returns, and the weights after it.

    `losses(features, labels, w)` gives the losses of the rows; `w` has this shape.
    """

    def model_fn(features, labels, mode, params):
        loss = reduce(losses(features, labels, weight("w", shape)), params) / 10
        return spec_of(mode, loss, params)

    wrap = contract.plain
    if num_towers > 1:
        model_fn = contract.replicated(model_fn, num_towers, reduction, **kwargs)
        wrap = replicate.TowerOptimizer
    with tf.Graph().as_default():
        tf.train.create_global_step()
        params = {"wrap": wrap, "reduction": reduction}
        spec = model_fn(*batch(), mode=ModeKeys.TRAIN, params=params)
        found = []
        config = replicate.session_config(contract.device_names(num_towers))
        with tf.Session(config=config) as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            for _ in range(steps):
                loss, _ = session.run([spec.loss, spec.train_op])
                found.append((loss, session.run(tf.trainable_variables()[0])))
    return found


def assert_trains_alike(losses, shape, batch, num_towers, reduction=MEAN, **kwargs):
    want = steps_of(losses, shape, batch, reduction=reduction)
    got = steps_of(losses, shape, batch, num_towers, reduction, **kwargs)
    for one, other in zip(got, want):
        tf.nest.map_structure(functools.partial(np.testing.assert_allclose, rtol=1e-10), one, other)
    assert np.ptp([w for _, w in want], axis=0).max() > 1e-3  # Something is trained.


def score(leaf, value):
    """Returns a number for each row of the tensor of a `Leaf`: the sum of what is in it."""
    if leaf.dtype == "str":
        value = tf.strings.length(value)
    if isinstance(value, tf.SparseTensor):
        value = tf.sparse.to_dense(value)
    if isinstance(value, tf.RaggedTensor):
        value = tf.reduce_sum(value, axis=1)
    value = tf.cast(value, F64)
    rank = 1 if leaf.kind == "ragged" else len(leaf.row) + 1
    return tf.reduce_sum(value, [axis for axis in range(rank) if axis != leaf.axis % rank]) / 30


QUICK = ("sparse", "words", "last", "sparse_last")
KINDS = [
    selection.cell(leaf, is_quick=name in QUICK, id=f"{name}-{axis}-{shape}")
    for axis, shape in ((0, "static"), (0, "dynamic"), (1, "dynamic"))
    for name, leaf in kinds(axis, shape).items()
]


@pytest.mark.parametrize("leaf", KINDS)
def test_batches_of_every_kind_train_alike(leaf, warnings):
    def losses(features, labels, w):
        return tf.square(score(leaf, features["x"]) * w - labels)

    def batch():
        return tensors_of({"x": leaf}, 7), TARGETS

    assert_trains_alike(losses, [], batch, 3, batch_axis=axes_of({"x": leaf}))
    assert warnings() == []


def of_x(features, labels, w):
    return tf.square(tf.cast(features["x"], F64)[:, 0] * w - tf.cast(labels, F64))


@pytest.mark.parametrize("num_towers", TOWERS)
@pytest.mark.parametrize("reduction", [MEAN, SUM])
@pytest.mark.parametrize("which", ["features", "labels", "both"])
def test_python_lists_are_split(num_towers, reduction, which):
    def batch():
        x = ROWS if which == "labels" else ROWS.tolist()
        return {"x": x}, TARGETS if which == "features" else TARGETS.tolist()

    assert_trains_alike(of_x, [], batch, num_towers, reduction)


def test_the_weight_of_a_list_by_hand():
    def batch():
        return {"x": [[1.0], [2.0], [3.0], [4.0]]}, None

    ((loss, w),) = steps_of(lambda x, _, w: tf.cast(x["x"], F64) * w, [], batch, 2, steps=1)
    # A tenth of mean(x) = 2.5 is the gradient.
    np.testing.assert_allclose([loss, w], [0.3 * 0.25, 0.3 - 0.25 * 0.25], rtol=1e-12)


def of_several_sizes():
    """Rows, three others for each of them, a table, and time-major frames, of static shapes."""
    frames, _ = rows_of(7)
    others = np.sin(np.arange(21 * 2.0)).reshape(21, 2)
    table = np.linspace(-1, 1, 10).reshape(5, 2)
    x = np.concatenate([ROWS, ROWS**2 / 9], 1)
    return {"x": x, "others": others, "table": table, "frames": frames}, TARGETS


def told_apart(features, labels, w):
    """Embeds rows and others at once, as in semi-supervised learning."""
    x, others = features["x"], features["others"]
    embedded = tf.tanh(
        tf.concat([x, others], 0) @ tf.linalg.diag(w) @ tf.transpose(features["table"])
    )
    rows, more = tf.split(embedded, [7, 21])
    seen = tf.reduce_sum(features["frames"], [0, 2]) / 9
    return tf.square(tf.reduce_sum(rows, 1) + seen * w[0] - labels) + tf.reduce_mean(more**2)


@pytest.mark.parametrize("num_towers", TOWERS)
def test_tensors_of_other_sizes_are_split_or_whole(num_towers, warnings):
    assert_trains_alike(told_apart, [2], of_several_sizes, num_towers)
    assert warnings() == []


def sentences():
    return parsed([[4], [1, 2], [], [3, 1, 2, 1], [2, 2, 4], [1], [4, 3]]), TARGETS


def padded(features, labels, w):
    """Combines a tensor as wide as the sparse one with a tensor as wide as the longest row."""
    ids = tf.sparse.to_dense(features["ids"])
    mask = tf.sequence_mask(features["length"], dtype=F64)
    return tf.square(tf.reduce_sum(tf.gather(w, ids) * mask, axis=1) - labels)


@pytest.mark.parametrize("num_towers", TOWERS)
@pytest.mark.parametrize(
    ("losses", "shape", "batch"),
    [
        (padded, [5], lambda: next_of(tf.data.Dataset.from_tensors(sentences()).repeat())),
        (padded, [5], sentences),
        # Their mean depends on how many there are: as many as in the longest row of the batch.
        (lambda x, _, w: tf.cast(tf.sparse.to_dense(x["ids"]), F64) * w, [], sentences),
    ],
    ids=["of a dataset", "padded to the longest", "all entries"],
)
def test_sparse_rows_are_as_wide_as_on_one_device(losses, shape, batch, num_towers, warnings):
    assert_trains_alike(losses, shape, batch, num_towers)
    assert warnings() == []


def ragged_table():
    """A ragged table stands beside ragged rows."""
    lengths = np.array([2, 0, 3, 1, 1, 4, 2])
    table = tf.RaggedTensor.from_row_lengths(np.arange(6.0), [1, 3, 2])
    rows = tf.RaggedTensor.from_row_lengths(np.cos(np.arange(13.0)), lengths)
    return {"x": rows, "table": table, "dense": ROWS}, TARGETS


def with_penalty(features, labels, w):
    """Values made from the table alone are whole; towers have different numbers of rows."""
    assert features["table"].shape.as_list()[0] == 3
    penalty = tf.reduce_sum(features["table"].flat_values) * w**2 / 100
    scores = tf.reduce_sum(features["x"], axis=1) * w + features["dense"][:, 0]
    return tf.square(scores - labels) + penalty


def class_weights(kind):
    """There are as many classes as rows."""
    weights = kind([0.5, 1.0, 2.0, 3.0, 1.5, 0.25, 4.0])
    classes = np.array([0, 6, 5, 1, 2, 4, 3])
    features = {"x": ROWS, "classes": classes, "extra": {"weights": weights}}
    return features, {"y": TARGETS, "scale": kind([1.0, 2.0])}


def weighted(features, labels, w):
    weights = tf.gather(tf.cast(features["extra"]["weights"], F64), features["classes"])
    scale = tf.reduce_sum(tf.cast(labels["scale"], F64)) / 10
    return weights * tf.square(features["x"][:, 0] * w - labels["y"]) * scale


def time_major_sparse():
    frames, y = rows_of(7)
    sparse = tf.sparse.from_dense(np.maximum(frames[:, :, 0], 0.0))
    return {"sparse": sparse, "table": np.arange(4.0) / 4}, y


def by_table(features, labels, w):
    dense = tf.sparse.to_dense(features["sparse"])  # [time, n]
    return tf.square(tf.tensordot(features["table"], dense, 1) * w - labels)


TABLE, WEIGHTS = ["table"], ["extra/weights", "labels/scale"]
WHOLE = {
    "ragged": (with_penalty, ragged_table, {"unsplit_features": TABLE}),
    **{
        name: (weighted, functools.partial(class_weights, kind), {"unsplit_features": WEIGHTS})
        for name, kind in (("array", np.array), ("tensor", tf.constant), ("list", list))
    },
    "axis": (by_table, time_major_sparse, {"unsplit_features": TABLE, "batch_axis": {"sparse": 1}}),
}


@pytest.mark.parametrize("num_towers", TOWERS)
@pytest.mark.parametrize("name", WHOLE)
def test_entries_may_be_whole(name, num_towers):
    losses, batch, kwargs = WHOLE[name]
    assert_trains_alike(losses, [], batch, num_towers, **kwargs)


def as_dicts(frames, y):
    return {"x": frames}, {"y": y[np.newaxis]}


@pytest.mark.parametrize(
    ("names", "make"),
    [
        ({"features": 1}, lambda frames, y: (frames, y)),
        (1, as_dicts),
        ({"x": 1, "labels/y": 1}, as_dicts),
        ({"features": 1, "labels": 1}, as_dicts),
    ],
    ids=["one tensor", "all", "each", "features and labels"],
)
def test_axes_by_name(names, make):
    def losses(features, labels, w):
        x = features["x"] if isinstance(features, dict) else features
        y = labels["y"][0] if isinstance(labels, dict) else labels
        return tf.square(tf.reduce_sum(x * w, axis=[0, 2]) - y)

    def batch():
        return next_of(dataset(SIZES, make))

    assert_trains_alike(losses, [WIDTH], batch, 2, batch_axis=names)


def test_names_may_come_from_an_iterator_and_serve_every_mode():
    def model_fn(features, labels, mode, params=None):
        table = features["table"]
        assert table.shape.as_list() == [4]
        predictions = features["x"] + tf.reduce_sum(table)
        if mode == ModeKeys.TRAIN:
            return spec_of(mode, tf.reduce_mean(predictions) * weight("w"), params)
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
@pytest.mark.parametrize("features", [{"a": 2.0, "b": None}, {}], ids=["scalars", "nothing"])
def test_scalars_alone_are_taken_by_one_tower(mode, features, warnings):
    def body(index, features):
        return bodies.spec(mode, features.get("a", tf.constant(2.0)) * replicate.num_towers())

    features = {name: value and tf.constant(value) for name, value in features.items()}
    made = bodies.build(body, features, mode, num_towers=3)
    with bodies.session(3) as session:
        assert session.run(made.loss) == 2.0
    (warning,) = warnings()
    assert "there are no rows to split, and one of 3 towers computes all" in warning


# ---- models of time-major batches


def recurrent(features, labels, mode, params):
    inner, outer = weight("inner", [2, 2]), weight("outer", [WIDTH, 2])
    start = tf.zeros(tf.stack([tf.shape(labels)[0], 2]), F64)

    def step(before, frame):
        return tf.tanh(tf.matmul(before, inner) + tf.matmul(frame, outer))

    outputs = tf.scan(step, features["frames"], start)
    scores = tf.reduce_sum(outputs[-1] * weight("w", [2]), axis=1) + features["bias"]
    loss = reduce(tf.square(scores - labels), params)
    metrics = {"mean": tf.metrics.mean(scores)} if mode == ModeKeys.EVAL else {}
    return spec_of(mode, loss, params, predictions=scores, eval_metric_ops=metrics)


def pointwise(features, labels, mode, params):
    """A loss of shape [time, n], and moving averages of what is time-major."""
    x, w = features["frames"], weight("w", [WIDTH])
    scores = tf.reduce_sum(tf.tanh(x * w), axis=2) + features["bias"]
    losses = tf.square(scores - labels)
    mean, variance = tf.nn.moments(x, axes=[0, 1])
    means = {
        "all": tf.reduce_mean(losses),
        "mean": mean,
        "variance": variance if params.get("variance") else mean,
        "by_time": tf.reduce_mean(losses, axis=1),
        "last": tf.reduce_mean(x[-1], axis=0),
        "some": tf.reduce_mean(tf.reduce_max(x[1:3], axis=2, keepdims=True), axis=[1, 2]),
        "batch_major": tf.reduce_mean(tf.transpose(x, [1, 0, 2]), axis=0),
        "twice_transposed": tf.reduce_mean(tf.transpose(tf.transpose(x, [1, 2, 0])), axis=2),
        "squeezed": tf.reduce_mean(tf.squeeze(tf.expand_dims(x[:, :, 0], 1), [1]), axis=1),
        "by_count": tf.reduce_sum(losses, axis=1) / tf.cast(tf.shape(losses)[1], F64),
        "by_size": tf.reduce_sum(losses) / tf.cast(tf.size(losses), F64),
        "ones": tf.reduce_mean(losses * tf.ones_like(losses)),
        "looked_up": tf.reduce_mean(tf.gather(w * 1.0, tf.cast(x[:, :, 0] > 0, tf.int32)), axis=1),
        "one_hot": tf.reduce_mean(tf.one_hot(tf.cast(x[:, :, 1] > 0, tf.int32), 2, dtype=F64), 1),
        "biased": tf.reduce_mean(tf.nn.bias_add(x, w), axis=[0, 1]),
    }
    updates = []
    for name, value in means.items():
        kept = average(name, value.shape)
        updates.append(kept.assign(0.9 * kept + 0.1 * value))
    return spec_of(mode, reduce(losses, params) / 4, params, updates)


def vectors(features, labels, mode, params):
    """Gradients of losses that are no scalars: one for each row, or a mean for each time."""
    w, v = weight("w", [WIDTH]), weight("v", [WIDTH])
    losses = [tf.square(tf.reduce_sum(features["frames"] * x, axis=2) - labels) for x in (w, v)]
    by_time = (tf.reduce_sum if params["reduction"] == SUM else tf.reduce_mean)(losses[1], axis=1)
    grads = [*tf.gradients(losses[0], [w]), *tf.gradients(by_time, [v])]
    optimizer = params["wrap"](tf.train.GradientDescentOptimizer(0.002))
    train_op = optimizer.apply_gradients(zip(grads, [w, v]), tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, None, reduce(losses[0], params), train_op)


def slices(features, labels, mode, params):
    """Updates of entries of a variable, by indices and values that are time-major."""
    x = features["frames"]
    sums = average("sums", [3], use_resource=True)
    ids = tf.cast(tf.abs(x[:, :, 0]) * 10, tf.int32) % 3
    updates = [sums.scatter_add(tf.IndexedSlices(x[:, :, 1], ids))]
    loss = reduce(tf.square(tf.reduce_sum(x * weight("w", [WIDTH]), 2) - labels), params)
    return spec_of(mode, loss / 4, params, updates)


MODELS = [recurrent, pointwise, vectors, slices]


def record(model_fn, data, num_towers=1, reduction=MEAN, wrap=contract.plain, **kwargs):
    if num_towers > 1:
        model_fn = contract.replicated(model_fn, num_towers, reduction, **kwargs)
    return contract.record(model_fn, data, {"wrap": wrap, "reduction": reduction}, num_towers)


def runs():
    """Yields every model with each reduction, static or not, over 3 towers, and all over 2."""
    columns = enumerate(itertools.product([MEAN, SUM], ["static", "dynamic"]))
    cells = itertools.product(enumerate(MODELS), columns, [2, 3])
    for (row, model_fn), (column, (reduction, shape)), num_towers in cells:
        is_quick = num_towers == 3 and selection.on_diagonal(row, column in (1, 2), 2)
        name = f"{model_fn.__name__}-{reduction}-{shape}-{num_towers}"
        cell = model_fn, reduction, shape == "static", num_towers
        yield selection.cell(*cell, is_quick=is_quick, id=name)


@pytest.mark.parametrize(("model_fn", "reduction", "static", "num_towers"), list(runs()))
def test_time_major_batches_train_alike(model_fn, reduction, static, num_towers, warnings):
    sizes = [SIZES[num_towers - 2]] * 3 if static else SIZES
    data = functools.partial(dataset, sizes)
    want = record(model_fn, data, reduction=reduction)
    axes = {"frames": -2 if static else 1}
    wrap = replicate.TowerOptimizer
    got = record(model_fn, data, num_towers, reduction, wrap, batch_axis=axes)
    contract.assert_same_run(got, want)
    assert np.ptp([values["w:0"] for values in want.variables]) > 1e-3  # Something is trained.
    assert warnings() == []


def assert_evaluates_alike(model_fn, data, mode, num_towers, **kwargs):
    params = {"wrap": contract.plain, "reduction": MEAN}
    want = contract.evaluate(model_fn, data, 1, mode, params)
    model_fn = contract.replicated(model_fn, num_towers, **kwargs)
    got = contract.evaluate(model_fn, data, num_towers, mode, params)
    assert sorted(got) == sorted(want)
    for name, value in want.items():
        if name == "mean":  # A metric of float32.
            np.testing.assert_allclose(got[name], value, rtol=1e-4)
            continue
        assert len(got[name]) == len(value) > 1
        for one, other in zip(got[name], value):
            np.testing.assert_allclose(one, other, rtol=1e-9)


EVALUATING = [selection.cell(2, is_quick=False), 3, 8]


@pytest.mark.parametrize("num_towers", EVALUATING)
@pytest.mark.parametrize("mode", [ModeKeys.EVAL, ModeKeys.PREDICT])
def test_metrics_and_predictions_whose_rows_come_first(mode, num_towers):
    data = functools.partial(dataset, SIZES)
    assert_evaluates_alike(recurrent, data, mode, num_towers, batch_axis={"frames": 1})


@pytest.mark.parametrize("num_towers", EVALUATING)
@pytest.mark.parametrize("mode", [ModeKeys.EVAL, ModeKeys.PREDICT])
def test_padded_rows_are_evaluated_and_predicted_alike(num_towers, mode):
    def model_fn(features, labels, mode, params):
        ids = tf.cast(tf.sparse.to_dense(features["ids"]), F64)
        scores = tf.reduce_sum(ids * tf.sequence_mask(features["length"], dtype=F64), axis=1)
        metrics = {"mean": tf.metrics.mean(scores)} if mode == ModeKeys.EVAL else {}
        return spec_of(mode, tf.reduce_mean(scores), params, (), scores, eval_metric_ops=metrics)

    def data():
        return tf.data.Dataset.from_tensors(sentences()).repeat(2)

    assert_evaluates_alike(model_fn, data, mode, num_towers)


@pytest.mark.parametrize("num_towers", [2, 8])
def test_predictions_of_which_the_axis_is_known_are_those_of_one_device(num_towers):
    def model_fn(features, labels, mode, params):
        x = features["frames"]
        predictions = {"double": 2 * x, "last": x[-1], "wide": tf.transpose(x, [0, 2, 1])}
        return tf.estimator.EstimatorSpec(mode, predictions)

    data = functools.partial(dataset, SIZES)
    want = contract.evaluate(model_fn, data, 1, ModeKeys.PREDICT)
    model_fn = contract.replicated(model_fn, num_towers, batch_axis={"frames": 1})
    got = contract.evaluate(model_fn, data, num_towers, ModeKeys.PREDICT)
    for one, other in zip(got["predictions"], want["predictions"]):
        tf.nest.map_structure(np.testing.assert_array_equal, one, other)


def test_deep_models_predict():
    """Rows are followed through the graph without recursion, whose depth Python limits."""

    def model_fn(features, labels, mode, params):
        x = features["frames"]
        for _ in range(600):
            x = tf.tanh(x) * 1.5
        return tf.estimator.EstimatorSpec(mode, {"x": x})

    model_fn = contract.replicated(model_fn, 2, batch_axis={"frames": 1})
    data = functools.partial(dataset, [3])
    (got,) = contract.evaluate(model_fn, data, 2, ModeKeys.PREDICT)["predictions"]
    assert got["x"].shape == (TIME, 3, WIDTH)


def test_what_rows_have_in_common_is_that_of_one_device(warnings):
    """Softmax over rows, sums over some of them, and products."""

    def model_fn(features, labels, mode, params):
        x = features["frames"][:, :, 0]  # [time, n]
        values = {
            "soft": tf.reduce_mean(tf.nn.softmax(x)),
            "flat": tf.reduce_mean(tf.reshape(x, [-1])[:3]),
            "first": tf.reduce_mean(x[:, :2]),
            "crossed": tf.reduce_mean(x[:2] + tf.transpose(x)[:, :1]),
            "product": tf.reduce_prod(x),
        }
        updates = [average(name).assign(value) for name, value in values.items()]
        return spec_of(mode, tf.reduce_mean(x * weight("w", [])), params, updates)

    data = functools.partial(dataset, [2, 2])
    want = record(model_fn, data)
    contract.assert_same_run(record(model_fn, data, 2, batch_axis={"frames": 1}), want)
    assert warnings() == []


def test_static_shapes_are_those_of_the_batch():
    seen = []

    def model_fn(features, labels, mode, params):
        seen.append((features["frames"].shape.as_list(), features["bias"].shape.as_list()))
        return pointwise(features, labels, mode, params)

    for sizes in ([6], [7], [6, 8]):
        data = functools.partial(dataset, sizes)
        record(model_fn, data, 2, batch_axis={"frames": 1})
    assert seen == [
        ([TIME, 6, WIDTH], [6]),
        ([TIME, 7, WIDTH], [7]),
        ([TIME, None, WIDTH], [None]),
    ]
