"""Updates wait for all that towers read, in branches and loops and from tables."""

import pytest
import tensorflow.compat.v1 as tf

import contract
import versions
from bodies import control_flow
from replicate.graphs import ancestors, state

VERSIONS = [1] if versions.IS_1 else [1, 2]  # Of control flow.


def over_three_towers(model_fn):
    """Returns the spec of a training step, in the default graph."""
    tf.train.create_global_step()
    rows = tf.placeholder(tf.float32, [None, 4])
    return contract.replicated(model_fn, 3)(rows, None, mode="train")


def looked_up(table, h):
    return tf.gather(table, tf.cast(tf.abs(tf.tanh(h)), tf.int32))


def in_a_branch(h, table):
    return tf.cond(tf.reduce_sum(h) < 1e9, lambda: h * looked_up(table, h), lambda: h + 1.0)


def in_a_loop(h, table):
    start = (0, h)
    return tf.while_loop(lambda i, _: i < 2, lambda i, h: (i + 1, h * looked_up(table, h)), start)[
        1
    ]


@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("read", [in_a_branch, in_a_loop])
def test_an_update_that_follows_by_a_size_waits_for_reads_in_control_flow(read, version, resource):
    def model_fn(features, labels, mode):
        table = tf.get_variable("table", [4], use_resource=resource)
        loss = tf.reduce_mean(tf.square(read(features, table)))
        with tf.control_dependencies([loss]):
            rows = tf.cast(tf.shape(features)[0], tf.float32)
        update = tf.assign_add(table, rows * tf.ones([4]))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(update, loss))

    with tf.Graph().as_default() as graph, control_flow(version):
        spec = over_three_towers(model_fn)
        (update,) = (op for op in graph.get_operations() if op.type.startswith("AssignAdd"))
        kinds = ("ReadVariableOp", "ResourceGather") if resource else ("Gather", "GatherV2")
        read = {op for op in ancestors([spec.loss]) if op.type in kinds}
        assert {op.name.partition("/")[0] for op in read} >= {"tower_0", "tower_1", "tower_2"}
        assert read <= ancestors([update])


def test_an_update_of_a_table_waits_for_lookups():
    def model_fn(features, labels, mode):
        table = tf.raw_ops.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.float32)
        ids = tf.cast(tf.reduce_sum(features, 1), tf.int64)
        found = tf.raw_ops.LookupTableFindV2(table_handle=table, keys=ids, default_value=-1.0)
        loss = tf.reduce_mean(found * features[:, 0])
        with tf.control_dependencies([loss]):
            rows = tf.cast(tf.shape(features)[0], tf.float32)
        update = tf.raw_ops.LookupTableInsertV2(
            table_handle=table, keys=tf.range(3, dtype=tf.int64), values=rows * tf.ones([3])
        )
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(update, loss))

    with tf.Graph().as_default():
        spec = over_three_towers(model_fn)
        running = ancestors([spec.train_op])
        (update,) = (op for op in running if op.type == "LookupTableInsertV2")
        lookups = {op for op in running if op.type == "LookupTableFindV2"}
        assert len(lookups) == 3
        assert lookups <= ancestors([update])


def test_an_update_by_a_loops_counter_waits_for_all_towers():
    def model_fn(features, labels, mode):
        zeros = tf.zeros_initializer()
        most = tf.get_variable("most", [], tf.int32, zeros, trainable=False, use_resource=True)
        body = lambda i, h: (i + 1, tf.tanh(h))  # noqa: E731
        i, h = tf.while_loop(lambda i, h: i < most, body, (0, features))
        loss = tf.reduce_mean(tf.square(h))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(most.assign(i), loss))

    with tf.Graph().as_default(), control_flow(1):
        spec = over_three_towers(model_fn)
        running = ancestors([spec.train_op])
        (update,) = (op for op in running if op.type == "AssignVariableOp")
        read = {op for op in running if op.type == "ReadVariableOp" and op.name != update.name}
        read = {op for op in read if state.source(op.inputs[0]).name == "most"}
        before = ancestors([update])
        assert {op.name.partition("/")[0] for op in before} >= {"tower_0", "tower_1", "tower_2"}
        assert {op for op in read if op.name.startswith("tower_")} <= before


def checked(x, w):
    """Returns a number; rows are checked beside it."""

    @tf.custom_gradient
    def function(x, scale):
        return (tf.check_numerics(x, "bad rows"), scale * 2.0), lambda dx, dscale: (dx, dscale)

    return function(x, tf.reduce_mean(w))[1]


def test_a_value_that_all_towers_compute_waits_for_what_may_fail_in_any():
    def model_fn(features, labels, mode):
        w = tf.get_variable("w", [4, 1])
        loss = tf.reduce_mean(features @ w) + checked(features, w) * tf.reduce_sum(w)
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with tf.Graph().as_default():
        spec = over_three_towers(model_fn)
        checks = [op.name for op in ancestors([spec.loss]) if op.type == "CheckNumerics"]
        assert sorted(checks) == [f"tower_{index}/CheckNumerics" for index in range(3)]


def test_what_only_a_summary_takes_does_not_run_in_other_steps():
    """Small partials cross devices in one pack, but not with those that run less often."""

    def model_fn(features, labels, mode):
        w = tf.get_variable("w", [4, 1])
        loss = tf.reduce_mean(tf.square(features @ w))
        picked = tf.gather(tf.range(5.0), tf.cast(features[:, 0], tf.int32))
        summary = tf.summary.scalar("mean", tf.reduce_mean(picked))
        tf.add_to_collection("summary", summary)
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with tf.Graph().as_default():
        spec = over_three_towers(model_fn)
        gathers = [op.type for op in ancestors([spec.loss, spec.train_op])]
        assert not any(name.startswith("Gather") for name in gathers)
        (summary,) = tf.get_collection("summary")
        assert any(op.type.startswith("Gather") for op in ancestors([summary]))
