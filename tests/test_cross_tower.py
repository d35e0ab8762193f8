"""`cross_tower_sum` and `cross_tower_mean`: values, gradients, graph size and errors."""

import collections
import functools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
import selection
from contract import ModeKeys

Pair = collections.namedtuple("Pair", ["left", "right"])


def per_tower(fn, rows, num_towers, known=True):
    """Returns what `fn(x)` is in each tower, where x are the tower's rows of `rows`.

    The graph knows how many rows there are if `known`.
    `fn` returns a tensor or a dictionary of tensors; they are stacked along a new first axis.
    """

    def model_fn(features, labels, mode):
        # Made from the tower's rows: a value without rows is one tensor of all towers.
        first = tf.cast(0 * tf.math.real(features[:1]), tf.int32)
        values = tf.nest.map_structure(lambda v: tf.gather(v[None], first), fn(features))
        return tf.estimator.EstimatorSpec(mode, predictions=values)

    with tf.Graph().as_default():
        given = tf.constant(rows)
        if not known:
            given = tf.boolean_mask(given, tf.ones(len(rows), tf.bool))
        fn_of_towers = contract.replicated(model_fn, num_towers, per_tower=True)
        spec = fn_of_towers(given, None, ModeKeys.PREDICT)
        config = replicate.session_config(contract.device_names(num_towers))
        with tf.Session(config=config) as session:
            return session.run(spec.predictions)


@pytest.mark.parametrize("num_towers", [1, 2, 3, 8])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "int64", "complex128"])
def test_sums(num_towers, dtype):
    rows = np.arange(1, 12).astype(dtype)
    got = per_tower(lambda x: replicate.cross_tower_sum(tf.reduce_sum(x)), rows, num_towers)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, [66] * num_towers)  # 1 + … + 11


@pytest.mark.parametrize("num_towers", [2, 8])
def test_gradients_of_complex_sums_over_a_batch_of_unknown_size(num_towers):
    def fn(x):
        total = replicate.cross_tower_sum(tf.reduce_sum(tf.complex(x, 2.0 * x)))
        return tf.gradients(tf.math.real(total), x)[0][:1]

    got = per_tower(fn, np.arange(1.0, 5.0), num_towers, known=False)
    # Each tower with rows has the sum, and all of these depend on x.
    np.testing.assert_array_equal(got.ravel(), [min(num_towers, 4)] * len(got.ravel()))


@pytest.mark.parametrize("num_towers", [1, 2, 3, 8])
def test_means_weigh_towers_by_their_rows(num_towers):
    rows = np.arange(11.0) ** 2
    got = per_tower(lambda x: replicate.cross_tower_mean(tf.reduce_mean(x)), rows, num_towers)
    # Σ i² for i ≤ 10 is 385. On two towers of 6 and 5 rows the plain mean of means would be higher.
    np.testing.assert_allclose(got, [385 / 11] * num_towers, rtol=1e-12)


def test_nested_structures():
    def fn(x):
        ends = tf.stack([x[0], x[-1]])
        result = replicate.cross_tower_sum({"a": [x[0], 2], "b": Pair(ends, None)})
        assert isinstance(result["b"], Pair) and result["b"].right is None
        return {"x": result["a"][0], "number": result["a"][1], "ends": result["b"].left}

    got = per_tower(fn, np.array([1.0, 2.0, 4.0]), 2)  # Tower 0 has 1 and 2, tower 1 has 4.
    np.testing.assert_array_equal(got["x"], [5.0] * 2)  # 1 + 4
    np.testing.assert_array_equal(got["number"], [4] * 2)  # 2 + 2
    np.testing.assert_array_equal(got["ends"], [[5.0, 6.0]] * 2)  # 1 + 4 and 2 + 4


def test_an_empty_structure_needs_no_towers_to_meet():
    assert per_tower(lambda x: replicate.cross_tower_sum({}) or x[0], np.array([1.0, 2.0]), 2).size


def test_what_the_index_is_stays_unknown_while_the_model_is_built():
    """A value computed from it beforehand would be tower 0's in all copies."""
    got = per_tower(lambda x: tf.size(tf.ones([2 + replicate.tower_index()])), np.ones(3), 3)
    np.testing.assert_array_equal(got, [2, 3, 4])


@pytest.mark.parametrize("fn", [replicate.cross_tower_sum, replicate.cross_tower_mean])
def test_identity_outside_towers(fn):
    x = tf.constant([1.0, 2.0])
    result = fn({"x": x, "none": None})
    assert result["none"] is None
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(result["x"]), [1.0, 2.0])
    assert replicate.num_towers() == 1 and replicate.tower_index() == 0


def coupled_loss(features, w, reduction):
    """A loss in which each row uses sums and means over all rows, and sums of those."""
    h = features["x"] @ w
    total = replicate.cross_tower_sum(tf.reduce_sum(tf.sin(h), axis=0))
    mean = replicate.cross_tower_mean(tf.reduce_mean(h**2, axis=0))
    second = replicate.cross_tower_mean(tf.exp(-mean) * total)  # Same everywhere.
    losses = (h - total) ** 2 * tf.cosh(mean) + h * second
    return (tf.reduce_sum if reduction == contract.SUM else tf.reduce_mean)(losses)


def coupled_model_fn(features, labels, mode, params):
    w = tf.get_variable("w", initializer=np.array([[0.5], [-0.2], [0.1], [0.3]]))
    loss = coupled_loss(features, w, params["reduction"])
    optimizer = params["wrap"](tf.train.GradientDescentOptimizer(1e-4))
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


@pytest.mark.parametrize("reduction", [contract.MEAN, contract.SUM])
@pytest.mark.parametrize(
    "num_towers", [selection.cell(towers, is_quick=towers == 3) for towers in (2, 3, 8)]
)
@pytest.mark.parametrize("batches", [contract.UNEVEN, contract.DYNAMIC])
def test_the_gradient_is_that_of_one_device(num_towers, batches, reduction):
    want = contract.record_one_device(coupled_model_fn, batches, reduction=reduction)
    got = contract.record_towers(coupled_model_fn, batches, num_towers, reduction=reduction)
    contract.assert_same_run(got, want)


def test_the_gradient_by_hand():
    """The loss is the mean of s²·x over three rows x, with s the sum of w·x over all rows."""

    def model_fn(features, labels, mode, params):
        w = tf.get_variable("w", initializer=np.float64(1.0))
        total = replicate.cross_tower_sum(w * tf.reduce_sum(features))
        loss = tf.reduce_mean(total**2 * features)
        optimizer = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(1.0))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss))

    rows = np.array([1.0, 2.0, 4.0])
    run = contract.record(
        contract.replicated(model_fn, 2, per_tower=True),
        lambda: tf.data.Dataset.from_tensors((rows, {})),
        params={},
        num_towers=2,
    )
    # s = 7w, loss = 49w²·(1 + 2 + 4)/3, its derivative at w = 1: 2·49·7/3.
    np.testing.assert_allclose(run.losses[0], 343 / 3, rtol=1e-12)
    np.testing.assert_allclose(run.variables[0]["w:0"], 1 - 686 / 3, rtol=1e-12)


def count_ops(model_fn, num_towers):
    with tf.Graph().as_default() as graph:
        features, labels = tf.data.make_one_shot_iterator(
            contract.dataset(contract.EVEN)
        ).get_next()
        tf.train.create_global_step()
        params = contract.make_params(wrap=replicate.TowerOptimizer)
        contract.replicated(model_fn, num_towers, per_tower=True)(
            features, labels, mode=ModeKeys.TRAIN, params=params
        )
        return len(graph.get_operations())


def test_the_graph_grows_linearly_in_towers():
    counts = [count_ops(coupled_model_fn, num_towers) for num_towers in (2, 4, 8)]
    # Gradients that run back through other towers' graphs would grow with N².
    per_tower_at_first, per_tower_later = (counts[1] - counts[0]) / 2, (counts[2] - counts[1]) / 4
    assert per_tower_later <= 1.05 * per_tower_at_first, counts


def chain_model_fn(depth, features, labels, mode, params):
    """`depth` cross-tower sums in a row: through others' graphs, paths would be N^depth."""
    x = features["x"] @ tf.get_variable("w", initializer=np.eye(4))
    for _ in range(depth):
        x = tf.tanh(x + replicate.cross_tower_mean(tf.reduce_mean(x, axis=0)))
    loss = tf.reduce_mean(x**2)
    optimizer = params["wrap"](tf.train.GradientDescentOptimizer(0.01))
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def test_the_graph_grows_linearly_in_sums():
    counts = [count_ops(functools.partial(chain_model_fn, depth), 3) for depth in (2, 4, 8)]
    # From 2 to 4 and from 4 to 8, each sum more costs the same.
    assert (counts[2] - counts[1]) / 4 == pytest.approx((counts[1] - counts[0]) / 2, rel=0.02)


def in_cond(x):
    return tf.cond(x[0] > 0, lambda: replicate.cross_tower_sum(x[0]), lambda: x[0])


def of_another_shape(x):
    return replicate.cross_tower_sum(tf.zeros([2 + replicate.tower_index()]))[0]


@pytest.mark.parametrize(
    "fn, error, message",
    [
        (
            lambda x: replicate.cross_tower_sum(tf.constant("a")),
            TypeError,
            "Only numeric tensors.*string.*Cast it first",
        ),
        (
            lambda x: replicate.cross_tower_mean(tf.constant(3)),
            TypeError,
            "`cross_tower_mean` takes floating or complex.*int32.*use `cross_tower_sum`",
        ),
        (in_cond, RuntimeError, "must not rendezvous in the body of a `tf.cond`.*before or after"),
        (of_another_shape, tf.errors.InvalidArgumentError, "shape"),
    ],
    ids=["not_numeric", "integer_mean", "in_cond", "another_shape"],
)
def test_errors(fn, error, message):
    with pytest.raises(error, match=message):
        per_tower(fn, np.array([1.0, 2.0]), 2)


def test_a_gradient_asked_for_outside_the_towers_is_refused():
    leaked = []

    def model_fn(features, labels, mode):
        leaked.append((features, replicate.cross_tower_sum(features[0])))
        return tf.estimator.EstimatorSpec(mode, predictions=features)

    contract.replicated(model_fn, 2, per_tower=True)(
        tf.constant([1.0, 2.0]), None, ModeKeys.PREDICT
    )
    features, total = leaked[0]
    with pytest.raises(Exception, match=r"needs the losses of all towers.*inside `model_fn`"):
        tf.gradients(total, features)
