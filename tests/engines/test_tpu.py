"""The vocabulary of towers inside a TPU replica: the graph it builds, for there is no TPU here."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
from replicate.engines import tpu

pytestmark = pytest.mark.conformance

REPLICAS = 4


def shard(computation, *inputs):
    """Builds `computation` as a TPU would run it on 4 cores; returns its operations by type."""
    tf.tpu.shard(computation, [tf.convert_to_tensor(value) for value in inputs], REPLICAS)
    by_type = {}
    for op in tf.get_default_graph().get_operations():
        by_type.setdefault(op.type, []).append(op)
    return by_type


def test_sums_and_means_are_cross_replica_sums(fresh_graph):
    shapes = []

    def computation(x):
        assert replicate.num_towers() == REPLICAS
        total, nothing = replicate.cross_tower_sum((x, None))
        mean = replicate.cross_tower_mean({"x": x})["x"]
        shapes.extend([total.shape.as_list(), mean.shape.as_list()])
        assert nothing is None
        return total + mean

    ops = shard(computation, np.ones([8, 3], np.float32))
    assert shapes == [[2, 3], [2, 3]]
    assert len(ops["CrossReplicaSum"]) == 2
    (share,) = {op.inputs[0].op.type for op in ops["CrossReplicaSum"]} - {"Identity"}
    assert share == "RealDiv"  # The mean is a sum of quarters.


def test_the_gradient_of_a_sum_is_the_sum_of_gradients(fresh_graph):
    def computation(x):
        return tf.gradients(tf.square(replicate.cross_tower_sum(x)), x)

    ops = shard(computation, np.ones([8], np.float32))
    assert len(ops["CrossReplicaSum"]) == 2  # one forward, one of the upstream gradients


def test_the_optimizer_applies_the_mean_of_the_replicas_gradients(fresh_graph):
    def computation(x):
        weight = tf.get_variable("w", [3], use_resource=True)
        rows = tf.get_variable("rows", [5, 3], use_resource=True)
        loss = tf.reduce_sum(x * (weight + tf.nn.embedding_lookup(rows, [1])))
        return replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(1.0)).minimize(loss)

    ops = shard(computation, np.ones([8, 3], np.float32))
    assert sorted(op.inputs[0].shape.as_list() for op in ops["CrossReplicaSum"]) == [[3], [5, 3]]
    assert len(ops["ResourceApplyGradientDescent"]) == 2


def test_a_merge_function_gets_the_values_of_all_replicas(fresh_graph):
    seen = []

    def merge(values, names):
        seen.extend([type(values), [value.shape.as_list() for value in values], names])
        return replicate.PerTower(values)

    def computation(x):
        own = replicate.merge_call(merge, x, "name")
        seen.append(own.shape.as_list())
        seen.append(replicate.tower_index().dtype)
        return own

    ops = shard(computation, np.ones([8], np.float32))
    assert seen == [replicate.PerTower, [[2]] * REPLICAS, ("name",) * REPLICAS, [2], tf.int32]
    assert len(ops["CrossReplicaSum"]) == 1


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_values_of_all_replicas_are_put_in_order(dtype, monkeypatch):
    # Replica 2 of 4: its own value is the third, and a sum over replicas would add the others'.
    monkeypatch.setattr(tpu, "replica_id", lambda: tf.constant(2))
    monkeypatch.setattr(tf.tpu, "cross_replica_sum", lambda tensor: tensor)
    own = np.array([[1, 0], [1, 1]], dtype)
    seen = []

    def merge(values, names):
        seen.extend([[value.dtype.name for value in values], values, names])
        return replicate.PerTower(values)

    mine = tpu.TPUEngine(REPLICAS).meet(merge, (tf.constant(own), "text"), "merge")
    dtypes, values, names = seen
    assert dtypes == [dtype] * REPLICAS
    assert names == ("text",) * REPLICAS
    with tf.Session() as session:
        got, mine = session.run([list(values), mine])
    np.testing.assert_array_equal(got[2], own)
    assert not np.any([got[0], got[1], got[3]])
    np.testing.assert_array_equal(mine, own)


@pytest.mark.parametrize(
    ("dtype", "carried"),
    [("float32", "float32"), ("bool", "int32"), ("int8", "int32"), ("int64", "int32")],
)
def test_what_is_nested_is_of_every_replica(dtype, carried, fresh_graph):
    """And carried in a type that cross-replica sums have, without a loss of bits."""
    seen = []

    def merge(values):
        seen.extend(values)
        return replicate.PerTower([value["x"] for value in values])

    def computation(x):
        own = replicate.merge_call(merge, {"x": tf.cast(x, dtype), "name": "a", "none": None})
        return tf.cast(own, tf.float32)

    (total,) = shard(computation, np.ones([8], np.float32))["CrossReplicaSum"]
    wide = [2] if dtype == "int64" else []
    assert total.inputs[0].shape.as_list() == [REPLICAS, 2, *wide]
    assert total.inputs[0].dtype == carried
    assert [sorted(one) for one in seen] == [["name", "none", "x"]] * REPLICAS
    assert len({one["x"].ref() for one in seen}) == REPLICAS
    assert {one["x"].dtype.name for one in seen} == {dtype}


def test_wide_integers_keep_their_bits(monkeypatch):
    monkeypatch.setattr(tpu, "replica_id", lambda: tf.constant(2))
    monkeypatch.setattr(tf.tpu, "cross_replica_sum", lambda tensor: tensor)
    own = np.array([2**40 + 3, -(2**50)])
    mine = tpu.TPUEngine(REPLICAS).meet(replicate.PerTower, (tf.constant(own),), "merge")
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(mine), own)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_with_its_replica(bad, monkeypatch):
    replica = tf.placeholder(tf.int32, [])
    monkeypatch.setattr(tpu, "replica_id", lambda: replica)
    monkeypatch.setattr(tf.tpu, "cross_replica_sum", lambda tensor: tensor)
    rows = tpu.TPUEngine(REPLICAS)._rows(tf.constant([bad, 1.0]))
    with tf.Session() as session:
        own, other = session.run(rows[:2], {replica: 0})
    np.testing.assert_array_equal(own, [bad, 1.0])
    np.testing.assert_array_equal(other, [0.0, 0.0])


@pytest.mark.parametrize("dtype", ["int64", "int16", "int32"])
def test_integers_are_added_up(dtype, fresh_graph):
    def computation(x):
        total = replicate.cross_tower_sum(tf.cast(x, dtype))
        assert total.dtype == dtype
        return tf.cast(total, tf.float32)

    (total,) = shard(computation, np.ones([8], np.float32))["CrossReplicaSum"]
    assert total.inputs[0].dtype == tf.int32


DENSE = "TPU replicas give one another dense tensors of numbers, but `merge_call` got "


@pytest.mark.parametrize("kind", ["slices", "text"])
def test_replicas_give_one_another_dense_numbers(kind, fresh_graph):
    def computation(x):
        value = tf.IndexedSlices(x, tf.range(2)) if kind == "slices" else tf.constant("text")
        return replicate.merge_call(lambda values: values[0], [value])

    with pytest.raises(TypeError, match=DENSE + ".*Convert it first"):
        shard(computation, np.ones([8], np.float32))
