"""Replicas of a TPU and of tf.distribute, and XLA."""

import pytest
import tensorflow.compat.v1 as tf

from engines import harness, tpu_graphs
from examples.revnet import RevNet
from revnet import revnet_networks as networks
from revnet.revnet_networks import eager, error

tf2 = tf.compat.v2


@pytest.mark.parametrize("across", [True, False])
def test_tpu_replicas_add_up_over_all_rows(across):
    config = networks.config("max_pool", dtype="float32", cross_tower_batch_norm=across)
    images, labels = map(tf.constant, networks.batch(config))
    with tpu_graphs.replicas(2):
        model = RevNet(config)
        _, saved_hidden = model(images, training=True)
        forward = len(tpu_graphs.by_type(tf.get_default_graph()).get("CrossReplicaSum", []))
        gradients, _ = model.compute_gradients(saved_hidden, labels)
    sums = len(tpu_graphs.by_type(tf.get_default_graph()).get("CrossReplicaSum", []))
    assert all(gradient is not None for gradient in gradients)
    norms = 2 * sum(config.units) + 2 * (len(config.units) - 1) + 2
    # Sums with counts and squares each once, and of the gradients.
    assert forward == (2 * norms if across else 0)
    assert (sums > forward) == across
    assert not [
        op
        for op in tpu_graphs.everywhere(None, tf.get_default_graph())
        if tpu_graphs.is_for_hosts(op)
    ]


@pytest.mark.parametrize("by_hand", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_mirrored_replicas_are_one_device(by_hand):
    config = networks.config("max_pool")
    images, labels = networks.batch(config, 8)
    with eager():
        strategy = harness.mirrored()
        with strategy.scope():
            model = RevNet(config)
        _, gradients = networks.expected(model, images, labels)

        def step(rows):
            if by_hand:
                _, saved_hidden = model(rows[0], training=True)
                return model.compute_gradients(saved_hidden, rows[1])[0]
            with tf.GradientTape() as tape:
                logits, _ = model(rows[0], training=True)
                loss = model.training_loss(rows[1], logits)
            return tape.gradient(loss, model.trainable_variables)

        shards = strategy.experimental_distribute_values_from_function(
            lambda context: tuple(
                tf.constant(each[4 * context.replica_id_in_sync_group :][:4])
                for each in (images, labels)
            )
        )
        found = tf2.function(lambda: strategy.run(step, [shards]))()
        means = [
            strategy.reduce(tf2.distribute.ReduceOp.MEAN, gradient, axis=None) for gradient in found
        ]
        assert error(means, gradients) < 1e-12


@pytest.mark.parametrize("by_hand", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_xla(by_hand):
    config = networks.config("max_pool", dtype="float32")
    images, labels = networks.batch(config)
    with eager():
        model = networks.made(config)

        def step(images, labels):
            if by_hand:
                _, saved_hidden = model(images, training=True)
                return model.compute_gradients(saved_hidden, labels)[0]
            with tf.GradientTape() as tape:
                logits, _ = model(images, training=True)
                loss = model.training_loss(labels, logits)
            return tape.gradient(loss, model.trainable_variables)

        compiled = tf2.function(step, jit_compile=True)
        found = compiled(tf.constant(images, tf.float32), tf.constant(labels))
        assert error(found, networks.expected(model, images, labels)[1]) < 1e-3
