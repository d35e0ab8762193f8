"""Batches whose rows are on another axis than 0 train what one device trains, in float64."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
import selection
from bodies import matching
from contract import MEAN, SUM, ModeKeys
from replicate.batch import sharding

F64 = tf.float64
TIME, WIDTH = 4, 3
# Rows of the batches of a run: over 2 and 3 towers, of equal and of unequal shards.
SIZES = [7, 6, 5]


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


def weight(name, shape):
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
    for row, model_fn in enumerate(MODELS):
        for column, (reduction, static) in enumerate(itertools.product([MEAN, SUM], [True, False])):
            for num_towers in (2, 3):
                is_quick = num_towers == 3 and selection.on_diagonal(row, column in (1, 2), 2)
                shape = "static" if static else "dynamic"
                yield selection.cell(
                    *(model_fn, reduction, static, num_towers),
                    is_quick=is_quick,
                    id=f"{model_fn.__name__}-{reduction}-{shape}-{num_towers}",
                )


@pytest.mark.parametrize(("model_fn", "reduction", "static", "num_towers"), list(runs()))
def test_time_major_batches_train_alike(model_fn, reduction, static, num_towers, warnings):
    sizes = [SIZES[num_towers - 2]] * 3 if static else SIZES
    data = functools.partial(dataset, sizes)
    want = record(model_fn, data, reduction=reduction)
    wrap = replicate.TowerOptimizer
    got = record(model_fn, data, num_towers, reduction, wrap, batch_axis={"frames": 1})
    contract.assert_same_run(got, want)
    assert np.ptp([values["w:0"] for values in want.variables]) > 1e-3  # Something is trained.
    assert warnings() == []


@pytest.mark.parametrize("num_towers", [selection.cell(2, is_quick=False), 3])
def test_equal_shards_train_alike_too(num_towers):
    data = functools.partial(dataset, [6, 6])
    for model_fn in MODELS:
        want = record(model_fn, data)
        got = record(model_fn, data, num_towers, batch_axis={"frames": -2})
        contract.assert_same_run(got, want)


@pytest.mark.parametrize("names", [1, {"features": 1, "labels": 1}, {"x": 1, "labels/y": 1}])
def test_an_axis_for_all_tensors(names):
    def model_fn(features, labels, mode, params):
        loss = tf.square(tf.reduce_sum(features["x"] * weight("w", [WIDTH, 1]), 0) - labels["y"])
        return spec_of(mode, tf.reduce_mean(loss), params)

    data = functools.partial(
        dataset, SIZES, lambda frames, y: ({"x": frames[0].T}, {"y": y[np.newaxis]})
    )
    want = record(model_fn, data)
    contract.assert_same_run(record(model_fn, data, 2, batch_axis=names), want)


def test_the_one_tensor_that_features_are():
    def model_fn(features, labels, mode, params):
        scores = tf.reduce_sum(features * weight("w", [WIDTH]), axis=[0, 2])
        return spec_of(mode, tf.reduce_mean(tf.square(scores - labels)) / 4, params)

    data = functools.partial(dataset, SIZES, lambda frames, y: (frames, y))
    want = record(model_fn, data)
    contract.assert_same_run(record(model_fn, data, 3, batch_axis={"features": 1}), want)


def test_sparse_and_whole_entries_beside():
    def batch(size):
        frames, y = rows_of(size)
        sparse = tf.sparse.from_dense(np.maximum(frames[:, :, 0], 0.0))
        return {"sparse": sparse, "table": tf.constant(np.arange(4.0) / 4)}, tf.constant(y)

    def model_fn(features, labels, mode, params):
        dense = tf.sparse.to_dense(features["sparse"])  # [time, n]
        scores = tf.tensordot(features["table"], dense, 1) * weight("w", [])
        return spec_of(mode, tf.reduce_mean(tf.square(scores - labels)), params)

    def data():
        return tf.data.Dataset.from_tensors(batch(7)).repeat(3)

    want = record(model_fn, data)
    given = {"batch_axis": {"features": 1}, "unsplit_features": ["table"]}
    contract.assert_same_run(record(model_fn, data, 2, **given), want)


@pytest.mark.parametrize("num_towers", [selection.cell(2, is_quick=False), 3, 8])
@pytest.mark.parametrize("mode", [ModeKeys.EVAL, ModeKeys.PREDICT])
def test_metrics_and_predictions_whose_rows_come_first(mode, num_towers):
    data = functools.partial(dataset, SIZES)
    params = {"wrap": contract.plain, "reduction": MEAN}
    want = contract.evaluate(recurrent, data, 1, mode, params)
    model_fn = contract.replicated(recurrent, num_towers, batch_axis={"frames": 1})
    got = contract.evaluate(model_fn, data, num_towers, mode, params)
    assert sorted(got) == sorted(want)
    for name, value in want.items():
        if name == "mean":  # A metric of float32.
            np.testing.assert_allclose(got[name], value, rtol=1e-4)
            continue
        assert len(got[name]) == len(value) == len(SIZES)
        for one, other in zip(got[name], value):
            np.testing.assert_allclose(one, other, rtol=1e-9)


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


# ---- shards


def values(fetches):
    with tf.Session() as session:
        return session.run(fetches)


def test_the_last_axis_of_a_tensor_of_unknown_rank():
    value = np.arange(10).reshape(2, 5)
    for rows in (True, False):
        leaf = tf.placeholder_with_default(value, None)
        sparse = tf.sparse.from_dense(leaf)
        unknown = tf.placeholder_with_default(np.array([2, 5]), [None])
        sparse = tf.SparseTensor(sparse.indices, sparse.values, unknown)
        features = {"x": leaf, "sparse": sparse}
        shards = sharding.shard(features, None, 2, rows, batch_axis=-1)
        for part, want in zip(values(shards.features), (value[:, :3], value[:, 3:])):
            np.testing.assert_array_equal(part["x"], want)
            assert part["sparse"].dense_shape.tolist() == list(want.shape)


def test_the_longest_name_counts_and_those_of_no_rows_are_none():
    features = {
        "deep": {"a": tf.ones([2, 6]), "b": tf.ones([6, 2]), "scalar": tf.constant(1.0), "n": None},
        "features": tf.ones([2, 6]),
        "ragged": tf.RaggedTensor.from_row_lengths(tf.range(6), [1] * 6),
        "list": [[1, 2, 3, 4, 5, 6]],
    }
    axes = {"deep": 1, "deep/b": 0, "features/features": 1, "labels": 1, "list": 1, "ragged": -2}
    shards = sharding.shard(features, None, 3, True, batch_axis=axes)
    part = shards.features[1]
    assert part["deep"]["a"].shape.as_list() == [2, 2] == part["deep"]["b"].shape.as_list()
    assert part["features"].shape.as_list() == [2, 2]
    assert part["list"].shape.as_list() == [1, 2]
    assert (shards.rows, shards.total) == ([2, 2, 2], 6)


NOT_AXES = "`batch_axis` must be an integer, the axis of rows of all tensors…but is {}. Pass e.g."


@pytest.mark.parametrize("given", [None, "x", 1.0, True, ["x"], {"x": "1"}, {0: 1}, {"x": None}])
def test_axes_are_integers(given):
    with pytest.raises(TypeError, match=matching(NOT_AXES.format(repr(given)))):
        replicate.replicate_model_fn(lambda features: None, batch_axis=given)


NO_ENTRY = "Each name in `…batch_axis` must be that of an entry of the batch…{} is not in features"
NO_AXIS = (
    "`batch_axis` must name an axis of the tensor that it is for, but is …{} for features/x…{}"
)
RAGGED = "The rows of a ragged tensor are on axis 0…`batch_axis` is 1 for features/x. Leave it out"
ROWS = "All tensors of a batch must have the same number of rows (axis 0), but features/x (axis 1) "
ROWS += "has 3, labels has 2…Name tensors that have their rows on another axis in `batch_axis`."


@pytest.mark.parametrize(
    ("axes", "phrases"),
    [
        ({"y": 1}, NO_ENTRY.format("'features/y'")),
        ({"x": 2}, NO_AXIS.format(2, "(2, 3)")),
        (-3, NO_AXIS.format(-3, "(2, 3)")),
        ({"x": 1}, ROWS),
    ],
    ids=str,
)
def test_axes_that_do_not_fit(axes, phrases):
    with pytest.raises(ValueError, match=matching(phrases)):
        sharding.shard({"x": tf.ones([2, 3])}, tf.ones([2]), 2, True, batch_axis=axes)


def test_ragged_rows_are_first():
    ragged = tf.RaggedTensor.from_row_lengths(tf.range(6), [1] * 6)
    with pytest.raises(ValueError, match=matching(RAGGED)):
        sharding.shard({"x": ragged}, None, 2, True, batch_axis=1)


ON_TPUS = "TPU cores take shards along axis 0, but `batch_axis` is …{'features/x': 1}. Leave it out"


def test_tpu_cores_take_rows_first(monkeypatch):
    monkeypatch.setattr("replicate.devices.check_exist", lambda *args, **kwargs: None)
    make = functools.partial(replicate.replicate_model_fn, devices=["/tpu:0", "/tpu:1"])
    make(lambda features: None, batch_axis={"x": 0})
    with pytest.raises(ValueError, match=matching(ON_TPUS)):
        make(lambda features: None, batch_axis={"x": 1})
