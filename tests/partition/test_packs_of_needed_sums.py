"""Sums that nothing needs, such as gradients of constants, are in no pack, and do not run."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate

DEVICES = [f"/cpu:{i}" for i in range(3)]
ROWS = np.random.RandomState(5).normal(size=(11, 4)).astype(np.float32)


def model_fn(features, labels, mode):
    """Divides by a number: TensorFlow also makes the divisor's gradient, which nothing takes."""
    hidden = tf.layers.dense(features, 6, kernel_initializer=tf.ones_initializer())
    scaled = tf.divide(hidden, tf.sqrt(tf.constant(9.0)), name="scaled")
    outputs = tf.layers.dense(scaled, 1)
    loss = tf.losses.mean_squared_error(labels, outputs)
    train_op = tf.train.GradientDescentOptimizer(0.01).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


@pytest.fixture
def spec():
    tf.train.create_global_step()
    data = tf.data.Dataset.from_tensors((ROWS, np.sin(ROWS[:, :1]))).repeat()
    features, labels = tf.data.make_one_shot_iterator(data).get_next()
    return replicate.replicate_model_fn(model_fn, devices=DEVICES)(features, labels, mode="train")


@pytest.fixture
def session(spec):
    with tf.Session(config=replicate.session_config(DEVICES)) as session:
        session.run(tf.global_variables_initializer())
        yield session


def test_a_loss_that_is_fetched_does_not_let_them_run(spec, session):
    metadata = tf.RunMetadata()
    options = tf.RunOptions(output_partition_graphs=True)
    session.run([spec.loss, spec.train_op], options=options, run_metadata=metadata)
    ran = {node.name for graph in metadata.partition_graphs for node in graph.node}
    assert any("tower_2/gradients/scaled_grad/RealDiv" in name for name in ran)
    assert not [name for name in ran if "scaled_grad/Neg" in name]


def test_their_sums_can_be_fetched_by_name(session):
    """The divisor's gradient is that of the whole batch."""
    graph = tf.get_default_graph()
    hidden, upstream, found = session.run(
        [
            graph.get_operation_by_name("scaled").inputs[0],
            graph.get_operation_by_name("gradients/scaled_grad/RealDiv").inputs[0],
            graph.get_tensor_by_name("gradients/scaled_grad/tuple/control_dependency_1:0"),
        ]
    )
    np.testing.assert_allclose(found, np.sum(upstream * -hidden / 9.0), rtol=1e-5)
