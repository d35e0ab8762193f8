"""`sharding.shard`: nested structures, dense, sparse and ragged, any number of rows."""

import collections

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from bodies import matching
from replicate import sharding
from replicate import weights as weights_lib

Point = collections.namedtuple("Point", ["x", "y"])


def sizes(rows, num_towers):
    """The rows of each shard: the first `rows mod num_towers` have one more."""
    return [rows // num_towers + (index < rows % num_towers) for index in range(num_towers)]


def run(fetches):
    with tf.Session() as session:
        return session.run(fetches)


def split(features, num_towers, labels=None, need_row_each=False):
    """Returns the `Shards` of a batch, and their values."""
    shards = sharding.shard(features, labels, num_towers, need_row_each)
    flat = tf.nest.flatten([shards.features, shards.labels])
    kinds = (tf.Tensor, tf.SparseTensor, tf.RaggedTensor)
    values = iter(run([leaf for leaf in flat if isinstance(leaf, kinds)]))
    flat = [next(values) if isinstance(leaf, kinds) else leaf for leaf in flat]
    packed = tf.nest.pack_sequence_as([shards.features, shards.labels], flat)
    return shards, packed


def dense(rows, known):
    value = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
    return tf.placeholder_with_default(value, [rows if known else None, 2]), value


def sparse(rows, known):
    """Row i has i entries, up to three, so that there are empty rows."""
    value = np.tril(np.ones([rows, 3]), -1) * np.arange(1, rows + 1)[:, None]
    whole = tf.sparse.from_dense(value)
    shape = np.array(value.shape, np.int64)
    shape = tf.constant(shape) if known else tf.placeholder_with_default(shape, [2])
    return tf.SparseTensor(whole.indices, whole.values, shape), value


def ragged(rows, known):
    value = [[float(row)] * (row % 3) for row in range(rows)]
    lengths = np.array([len(row) for row in value], np.int64)
    lengths = tf.placeholder_with_default(lengths, [rows if known else None])
    flat = np.array([entry for row in value for entry in row], np.float32)
    return tf.RaggedTensor.from_row_lengths(tf.constant(flat), lengths), value


def text(rows, known):
    value = np.array([str(row).encode() for row in range(rows)], object)
    return tf.placeholder_with_default(value, [rows if known else None]), value


def as_rows(value):
    """Returns a dense, sparse or ragged value as a list of rows."""
    if isinstance(value, tf.SparseTensorValue):
        whole = np.zeros(value.dense_shape)
        whole[tuple(value.indices.T)] = value.values
        return whole.tolist()
    if isinstance(value, tf.ragged.RaggedTensorValue):
        return value.to_list()
    return value if isinstance(value, list) else value.tolist()


@pytest.mark.parametrize("known", [True, False], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    ("rows", "num_towers"), [(4, 2), (5, 2), (7, 3), (11, 8), (8, 8), (2, 3), (1, 8), (0, 2)]
)
def test_dense_sparse_and_ragged_shards_are_aligned(rows, num_towers, known):
    leaves = {make.__name__: make(rows, known) for make in (dense, sparse, ragged, text)}
    features = {name: leaf for name, (leaf, _) in leaves.items()}
    shards, (values, _) = split(features, num_towers)
    start = 0
    for index, size in enumerate(sizes(rows, num_towers)):
        for name, (_, whole) in leaves.items():
            # A shard without rows gets a copy of the last, so that no tower sees an empty batch.
            want = as_rows(whole)[start : start + size] if size else as_rows(whole)[rows - 1 :][:1]
            assert as_rows(values[index][name]) == want, (index, name)
        start += size
    assert run([tf.convert_to_tensor(count) for count in shards.rows]) == sizes(rows, num_towers)
    assert run(tf.convert_to_tensor(shards.total)) == rows


def test_one_known_leaf_makes_the_batch_size_known():
    shards, _ = split({"a": dense(5, True)[0], "b": dense(5, False)[0]}, 2)
    assert (shards.rows, shards.total) == ([3, 2], 5)
    assert [part["b"].shape.as_list() for part in shards.features] == [[3, 2], [2, 2]]


def test_structures_and_leaves_without_rows():
    a, value = dense(3, True)
    array = np.arange(3)
    whole = [tf.constant(2.0), None, "text", 7, tf.Variable([1.0, 2.0])]
    features = {"list": [a, *whole], "tuple": (a, {"in": a}), "point": Point(a, None), "none": None}
    shards, _ = split(features, 2, labels=(a, array))
    for part in shards.features:
        assert set(part) == set(features)
        assert isinstance(part["list"], list)
        assert isinstance(part["tuple"], tuple)
        assert isinstance(part["point"], Point)
        for got, want in zip(part["list"][1:], whole):
            assert got is want
        assert part["point"].y is None and part["none"] is None
    firsts = [
        [part["list"][0], part["tuple"][0], part["tuple"][1]["in"], part["point"].x]
        for part in shards.features
    ]
    for got, want in zip(run(firsts), (value[:2], value[2:])):
        for leaf in got:
            np.testing.assert_array_equal(leaf, want)
    (x0, array0), (x1, array1) = run(shards.labels)
    np.testing.assert_array_equal(np.concatenate([x0, x1]), value)
    assert [list(array0), list(array1)] == [[0, 1], [2]]


@pytest.mark.parametrize("labels", [None, {}])
def test_labels_may_be_missing(labels):
    shards, _ = split(dense(4, True)[0], 2, labels)
    assert shards.labels == [labels, labels]


@pytest.mark.parametrize("features", [{}, [], {"scale": 2.0}, None])
def test_a_batch_without_rows_is_refused(features):
    message = "neither `features` nor `labels` holds a tensor of rank 1 or more…Let `input_fn`"
    with pytest.raises(ValueError, match=matching(message)):
        sharding.shard(features, {}, 2, need_row_each=True)


def test_a_structure_without_rows_may_stand_beside_labels():
    shards, (features, labels) = split({"scale": tf.constant(2.0)}, 2, dense(3, True)[0])
    assert features == [{"scale": 2.0}] * 2
    assert [len(part) for part in labels] == [2, 1]
    assert shards.rows == [2, 1]


def test_a_tensor_of_unknown_rank_has_rows():
    unknown = tf.placeholder_with_default(np.ones([3, 1]), None)
    _, (features, _) = split(unknown, 2)
    assert [part.shape for part in features] == [(2, 1), (1, 1)]


@pytest.mark.parametrize("rows", [3, 4, 8])
def test_batches_of_another_size_go_through_the_same_graph(rows):
    batch = tf.placeholder(tf.float32, [None, 1])
    shards = sharding.shard(batch, None, 3, need_row_each=True)
    value = np.arange(rows, dtype=np.float32)[:, None]
    with tf.Session() as session:
        got, counts = session.run([shards.features, shards.rows], {batch: value})
    assert counts == sizes(rows, 3) == [len(part) for part in got]
    np.testing.assert_array_equal(np.concatenate(got), value)


def test_shards_are_made_on_the_host(fresh_graph):
    before = set(fresh_graph.get_operations())
    with tf.device("/gpu:0"):
        sharding.shard([dense(4, False)[0], sparse(4, False)[0]], None, 2, True)
    made = [
        op
        for op in fresh_graph.get_operations()
        if op not in before and op.name.startswith("replicate/")
    ]
    assert made
    assert {op.device for op in made} == {"/device:CPU:0"}


def test_a_static_batch_is_split_without_checks(fresh_graph):
    sharding.shard([dense(4, True)[0], dense(4, True)[0]], None, 2, True)
    types = [op.type for op in fresh_graph.get_operations() if op.name.startswith("replicate/")]
    assert "Assert" not in types
    assert types.count("Split") == 2


# Training rows 0 to 4 and, for each, 3 rows of validation; two towers take 3 and 2 of the former.
@pytest.mark.parametrize("known", [(True, True), (True, False), (False, False)])
def test_features_and_labels_with_the_same_keys_hold_a_batch_each(known):
    rows = {"train": 5, "validation": 15}
    features, values = {}, {}
    for (key, count), is_known in zip(rows.items(), known):
        features[key], values[key] = dense(count, is_known)
    labels = {key: tf.range(tf.shape(leaf)[0]) for key, leaf in features.items()}
    shards = sharding.shard(features, labels, 2, need_row_each=True)
    got_features, got_labels, got_rows, got_total = run(
        [shards.features, shards.labels]
        + [tf.stack(shards.rows), tf.convert_to_tensor(shards.total)]
    )
    assert (list(got_rows), got_total) == ([3, 2], 5)
    for tower, (train, validation) in enumerate(
        [(slice(0, 3), slice(0, 9)), (slice(3, 5), slice(9, 15))]
    ):
        for key, part in (("train", train), ("validation", validation)):
            np.testing.assert_array_equal(got_features[tower][key], values[key][part])
            np.testing.assert_array_equal(got_labels[tower][key], np.arange(rows[key])[part])


UNEQUAL = "Features and labels with the same keys hold one batch per key, each with a whole number"


def test_batches_of_a_step_must_be_multiples_of_the_smallest():
    features = {"a": dense(4, True)[0], "b": dense(6, True)[0]}
    with pytest.raises(ValueError, match=matching(UNEQUAL + "…'a' has 4, 'b' has 6…Enlarge")):
        sharding.shard(features, dict(features), 2, need_row_each=True)
    features["b"] = dense(6, False)[0]
    with pytest.raises(tf.errors.InvalidArgumentError, match=matching(UNEQUAL + "…[4 6]…Enlarge")):
        run(sharding.shard(features, dict(features), 2, need_row_each=True).features)


def test_the_batches_of_a_step_are_known_by_features_and_labels_alike():
    features = {"image": dense(4, True)[0], "anchors": dense(8, True)[0]}
    labels = {"boxes": dense(4, True)[0]}
    with pytest.raises(ValueError, match="features/anchors has 8"):
        sharding.shard(features, labels, 2, need_row_each=True)


@pytest.mark.parametrize(
    ("values", "equal"), [([0.5, 0.5], 0.5), ([1.0] * 3, 1.0), ([0.6, 0.4], None)]
)
def test_weights_know_whether_they_are_equal(values, equal):
    assert weights_lib.Weights(values).equal == equal
    assert weights_lib.Weights([tf.constant(value) for value in values]).equal is None


@pytest.mark.parametrize("known", [True, False])
def test_mask_hides_what_a_tower_without_rows_has(known):
    values = [1.0, 0.0]
    weights = weights_lib.Weights(values if known else [tf.constant(v) for v in values])
    nan = tf.constant(float("nan"))
    masked = [
        weights.mask(index, value, 0.0) for index, value in enumerate([tf.constant(3.0), nan])
    ]
    assert run([tf.convert_to_tensor(value) for value in masked]) == [3.0, 0.0]
