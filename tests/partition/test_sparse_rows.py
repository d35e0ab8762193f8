"""Sparse rows, and what rows have any number of, are in towers as they are on one device."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import selection
from partition import harness, sparse_models
from partition.sparse_models import MODELS
from replicate.graphs import ancestors

pytestmark = [
    pytest.mark.usefixtures("resource_variables"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
SIZES = (7, 5, 2, 1, 6)
STATIC_SIZES = (7, 7, 7)
CASES = [
    selection.cell(True, 2, is_quick=True, id="static-2"),
    selection.cell(False, 3, is_quick=True, id="unknown-3"),
    selection.cell(True, 3, is_quick=False, id="static-3"),
    selection.cell(False, 2, is_quick=False, id="unknown-2"),
]
# Each tower has these of its rows; of the others, something says why.
COSTLY = frozenset(
    ["Where", "SparseFillEmptyRows", "SparseReshape", "SparseSegmentSum", "SparseSegmentMean"]
    + ["SparseSegmentSqrtN", "SegmentSum", "GatherNd", "SparseToDense", "SparseCross", "Tanh"]
    + ["SparseTensorDenseMatMul", "DynamicPartition", "StringToHashBucketFast", "MatMul"]
)
WHOLE = {
    "embeddings_without_the_last_rows": {"SparseSegmentSum"},  # How many rows has it?
    # The condition that selects values comes from another sparse tensor.
    "weighted_embeddings": {"Where", "SparseFillEmptyRows", "SegmentSum"},
    # Numbers of rows that are tiled.
    "embedded_columns": {"SparseFillEmptyRows", "SparseReshape", "SparseSegmentMean"},
    "linear_columns": {"SparseFillEmptyRows", "SparseReshape", "SparseSegmentSum"},
}
# With known sizes, to number the rows might mean something else.
WHOLE_IF_STATIC = {"picked": {"GatherNd"}, "sorted_rows": {"DynamicPartition", "MatMul"}}


def trained(name, is_static, num_towers):
    model_fn = MODELS[name]
    if num_towers > 1:
        model_fn = contract.replicated(model_fn, num_towers)
    sizes = STATIC_SIZES if is_static else SIZES
    return contract.record(
        model_fn,
        lambda: sparse_models.dataset(sizes, is_static),
        contract.make_params(),
        num_towers,
    )


@pytest.mark.parametrize(("is_static", "num_towers"), CASES)
@pytest.mark.parametrize("name", MODELS)
def test_towers_train_as_one_device(name, is_static, num_towers, warnings):
    want = trained(name, is_static, 1)
    with harness.mechanism() as made:
        got = trained(name, is_static, num_towers)
    contract.assert_same_run(got, want, 1e-5 if "columns" in name else 1e-9)
    assert warnings() == []
    (plan,) = [one.plan for one in made]
    once = {
        one.type
        for one in plan.operations
        if one.type in COSTLY and one not in plan.copied and any(map(_has_size, one.inputs))
    }
    whole = WHOLE.get(name, set()) | (WHOLE_IF_STATIC.get(name, set()) if is_static else set())
    assert once <= whole


def _has_size(tensor):
    """Whether the graph does not know the size of a tensor, as that of values of rows."""
    return tensor.shape.rank is None or tensor.shape.as_list()[:1] == [None]


def test_values_that_are_not_in_the_order_of_rows():
    def model_fn(features, labels, mode):
        loss = tf.reduce_sum(tf.sparse.to_dense(features, validate_indices=False))
        train_op = tf.assign_add(tf.train.get_global_step(), 1)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with tf.Graph().as_default():
        tf.train.create_global_step()
        indices = tf.placeholder(tf.int64, [None, 2])
        given = tf.SparseTensor(indices, tf.constant([1.0, 2.0, 3.0]), [3, 2])
        spec = contract.replicated(model_fn, 2)(given, None, mode=contract.ModeKeys.TRAIN)
        with tf.Session(config=contract.session_config(2)) as session:
            session.run(tf.global_variables_initializer())
            assert session.run(spec.loss, {indices: [[0, 0], [1, 1], [2, 0]]}) == 6
            with pytest.raises(tf.errors.InvalidArgumentError, match="in the order of their rows"):
                session.run(spec.loss, {indices: [[0, 0], [2, 1], [1, 0]]})


@pytest.mark.parametrize("kind", ["sparse", "ragged"])
def test_two_features_that_share_their_values(kind):
    """Each has other rows, so the shards of the first are not those of the second."""

    def model_fn(features, labels, mode):
        dense = tf.sparse.to_dense if kind == "sparse" else lambda ragged: ragged.to_tensor(0.0)
        loss = sum(tf.reduce_sum(dense(features[name]) * [[1.0], [2.0]]) for name in "ab")
        train_op = tf.assign_add(tf.train.get_global_step(), 1)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with tf.Graph().as_default():
        tf.train.create_global_step()
        values = tf.placeholder_with_default([1.0, 2.0, 3.0, 4.0], [None])
        if kind == "sparse":
            rows = {"a": [0, 0, 0, 1], "b": [0, 1, 1, 1]}
            shape = tf.constant([2, 4], tf.int64)
            features = {
                name: tf.SparseTensor([[row, i] for i, row in enumerate(rows[name])], values, shape)
                for name in rows
            }
        else:
            splits = {"a": [0, 3, 4], "b": [0, 1, 4]}
            features = {
                name: tf.RaggedTensor.from_row_splits(values, splits[name]) for name in splits
            }
        spec = contract.replicated(model_fn, 2)(features, None, mode=contract.ModeKeys.TRAIN)
        with tf.Session(config=contract.session_config(2)) as session:
            session.run(tf.global_variables_initializer())
            assert session.run(spec.loss) == (6 + 2 * 4) + (1 + 2 * 9)


@pytest.mark.parametrize("is_v2", [False, True])
def test_a_size_of_a_branch_that_is_not_taken_is_dead(is_v2):
    """A formula in its place would always be there, so that a `Merge` had two values at times."""

    def model_fn(features, labels, mode):
        sparse = tf.sparse.from_dense(features)
        shape = tf.concat([sparse.dense_shape[:1], [1], sparse.dense_shape[1:]], 0)
        taken = tf.cond(
            tf.placeholder_with_default(True, []),
            lambda: tf.sparse.reshape(sparse, shape),
            lambda: sparse,
        )
        w = tf.get_variable("w", [], tf.float64)
        loss = tf.reduce_sum(w * taken.values) + tf.reduce_sum(
            tf.cast(taken.dense_shape, tf.float64)
        )
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    was = tf.control_flow_v2_enabled()
    (tf.enable_control_flow_v2 if is_v2 else tf.disable_control_flow_v2)()
    try:
        with tf.Graph().as_default() as graph:
            tf.train.create_global_step()
            rows = tf.placeholder_with_default(np.ones([7, 6]), [None, 6])
            contract.replicated(model_fn, 3)(rows, None, "train")
            merges = [one for one in graph.get_operations() if one.type == "Merge"]
            given = {tensor.op for merge in merges for tensor in merge.inputs}
            assert merges and all(
                any(before.type == "Switch" for before in ancestors([one])) for one in given
            )
    finally:
        (tf.enable_control_flow_v2 if was else tf.disable_control_flow_v2)()
