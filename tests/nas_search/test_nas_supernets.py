"""Drawn networks are the networks of their specs, on any engine; every shared weight learns."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
import selection
from examples.nas_search import mobile_classifier_factory as factory
from examples.nas_search import mobile_search_space_v3 as v3
from examples.nas_search.basic_specs import OP_TAG
from examples.nas_search.costs import network_cost
from examples.nas_search.search_space_utils import prune_model_spec
from examples.nas_search.spaces import search_spaces
from nas_search import nas_layers, nas_supernets

SPACES, SHAPES = nas_supernets.SPACES, nas_supernets.SHAPES
CONVOLUTIONS = ("Conv2D", "DepthwiseConv2dNative")
# The last space has the most kinds of choices.
each_space = pytest.mark.parametrize(
    "name", [selection.cell(name, is_quick=name == "v3_like") for name in SPACES]
)
mostly_v2 = pytest.mark.parametrize(
    "control_flow",
    [pytest.param("control_flow_v1", marks=pytest.mark.thorough), "control_flow_v2"],
    indirect=True,
)


def loss_of(outputs):
    logits, endpoints = outputs
    return sum(tf.reduce_sum(tf.sin(tf.cast(each, tf.float32))) for each in [logits, *endpoints])


@pytest.mark.parametrize("slice_widths", [False, True])
@each_space
def test_drawn_networks_are_the_networks_alone(name, slice_widths):
    """Same logits, endpoints, penalty and gradients, given the part of the weights they draw."""
    space, shape = SPACES[name](), SHAPES[name]
    masks = nas_supernets.placeholders(space)
    x = tf.constant(nas_layers.images(*shape))
    model = nas_supernets.supernet(space, masks, shape, slice_widths=slice_widths)
    draws = [nas_supernets.draw(space, seed) for seed in (1, 2)]
    specs = [prune_model_spec(space, indices) for indices in draws]
    networks = [
        factory.get_standalone_model(spec, num_classes=nas_supernets.NUM_CLASSES) for spec in specs
    ]

    def results(network):
        network.build(shape)
        outputs, penalty = network.apply(x, training=True), network.regularization_loss()
        variables = network.trainable_variables()
        gradients = tf.gradients(loss_of(outputs) + penalty, variables)
        return outputs, penalty, {v.op.name: g for v, g in zip(variables, gradients)}

    results_of_model, results_of_networks = results(model), list(map(results, networks))
    with nas_layers.session() as session:
        nas_layers.randomize(session, model.trainable_variables())
        for indices, network, fetches in zip(draws, networks, results_of_networks):
            feed = nas_supernets.one_hot(masks, indices)
            pairs = nas_supernets.copy_drawn(model, network, session, feed)
            got, want = session.run([results_of_model, fetches], feed)
            check_same_outputs(got[0], want[0], slice_widths)
            assert got[1] == pytest.approx(want[1], rel=1e-5)
            check_same_gradients(got[2], want[2], pairs)
            cost = network_cost.network_cost(space, shape[1:], nas_supernets.NUM_CLASSES, indices)
            weights = sum(v.shape.num_elements() for v in network.trainable_variables())
            assert weights == cost.params


def check_same_outputs(got, want, slice_widths):
    np.testing.assert_allclose(got[0], want[0], rtol=1e-3, atol=1e-4)
    assert len(got[1]) == len(want[1])
    for endpoint, want_endpoint in zip(got[1], want[1]):
        filters = want_endpoint.shape[3]
        np.testing.assert_allclose(endpoint[..., :filters], want_endpoint, rtol=1e-3, atol=1e-3)
        if slice_widths:
            assert endpoint.shape[3] == filters
        assert not endpoint[..., filters:].any()


def check_same_gradients(got, want, pairs):
    # Gradients that cancel in batch norm are rounding errors of the larger ones.
    largest = max(np.abs(gradient).max() for gradient in want.values())
    for full, own, part in pairs:
        scale = np.abs(want[own.op.name]).max() + 1e-3 + 5e-4 * largest
        np.testing.assert_allclose(
            got[full.op.name][part] / scale, want[own.op.name] / scale, atol=2e-3
        )
    drawn = {full.op.name for full, _, _ in pairs}
    assert not any(got[name].any() for name in set(got) - drawn)


@each_space
def test_every_weight_learns_when_all_choices_are_on(name):
    """As in warm-up: all operations averaged, all widths the largest."""
    space, shape = SPACES[name](), SHAPES[name]
    tags = []
    nas_supernets.schema.map_oneofs(lambda oneof: tags.append(oneof.tag), space)
    masks = nas_supernets.placeholders(space)
    feed = {
        mask: np.full(mask.shape, 1 / size) if tag == OP_TAG else np.eye(size)[-1]
        for mask, tag, size in zip(masks, tags, nas_supernets.sizes(space))
    }
    model = nas_supernets.supernet(space, masks, shape)
    outputs = model.apply(tf.constant(nas_layers.images(*shape)), training=True)
    variables = model.trainable_variables()
    gradients = tf.gradients(loss_of(outputs), variables)
    assert None not in gradients
    with nas_layers.session() as session:
        nas_layers.randomize(session, variables, low=-0.5, high=0.5)  # Saturates no activation.
        for variable, gradient in zip(variables, session.run(gradients, feed)):
            assert gradient.any(), variable.name


def operations(*suffixes):
    """How many convolutions and depthwise convolutions, or gradients of them, the graph has."""
    types = [op.type for op in tf.get_default_graph().get_operations()]
    return [types.count(kind + suffix) for suffix in suffixes for kind in CONVOLUTIONS]


@mostly_v2
def test_only_what_is_drawn_runs(control_flow):
    """As many convolutions as the network alone has, forward and backward."""
    space, shape = SPACES["v3_like"](), SHAPES["v3_like"]
    x = tf.placeholder(tf.float32, shape)
    masks = nas_supernets.placeholders(space)
    model = nas_supernets.supernet(space, masks, shape)
    outputs = model.apply(x, training=False)
    gradients = tf.gradients(loss_of(outputs), model.trainable_variables())
    counts = set()
    with nas_layers.session() as session:
        for seed in (1, 2, 3):
            indices = nas_supernets.draw(space, seed)
            with tf.Graph().as_default():
                alone = factory.get_standalone_model(prune_model_spec(space, indices))
                alone.build(shape)
                loss = loss_of(alone.apply(tf.zeros(shape), training=True))
                tf.gradients(loss, alone.trainable_variables())
                want = operations("", "BackpropFilter")
            feed = {x: nas_layers.images(*shape), **nas_supernets.one_hot(masks, indices)}
            forward = nas_layers.executed(session, outputs, feed)
            backward = nas_layers.executed(session, gradients, feed)
            got = [forward[kind] for kind in CONVOLUTIONS]
            got += [backward[kind + "BackpropFilter"] for kind in CONVOLUTIONS]
            assert got == want
            counts.add(tuple(got))
    assert len(counts) > 1


@pytest.mark.slow
@pytest.mark.thorough
def test_the_largest_published_space_can_be_built():
    space = search_spaces.get_search_space_spec(v3.MOBILENET_V3_LIKE_SEARCH)
    masks = nas_supernets.placeholders(space)
    x = tf.placeholder(tf.float32, [None, 224, 224, 3])
    model = factory.get_model_for_search(nas_supernets.with_masks(space, masks))
    model.build(x.shape)
    logits, endpoints = model.apply(x, training=True)
    gradients = tf.gradients(logits, model.trainable_variables())
    assert None not in gradients
    assert logits.shape.as_list() == [None, 1001]
    # Behind the stem and blocks 1, 2, 4 and 5, the largest widths of the space.
    want = [[112, 32], [56, 32], [28, 64], [14, 256], [7, 512]]
    assert [each.shape.as_list()[2:] for each in endpoints] == want


@pytest.mark.thorough
def test_bfloat16_images():
    space, shape = SPACES["v3_like"](), SHAPES["v3_like"]
    masks = nas_supernets.placeholders(space)
    model = nas_supernets.supernet(space, masks, shape)
    x = tf.constant(nas_layers.images(*shape))
    exact, _ = model.apply(x, training=True)
    logits, endpoints = model.apply(tf.cast(x, tf.bfloat16), training=True)
    assert {each.dtype for each in [logits, *endpoints]} == {tf.bfloat16}
    gradients = tf.gradients(tf.cast(logits, tf.float32), model.trainable_variables())
    assert {gradient.dtype for gradient in gradients} == {tf.float32}
    assert model.regularization_loss().dtype == tf.float32
    with nas_layers.session() as session:
        nas_layers.randomize(session, model.trainable_variables())
        feed = nas_supernets.one_hot(masks, nas_supernets.draw(space, 1))
        fetches = [tf.cast(logits, tf.float32), exact, gradients]
        got, want, gradients = session.run(fetches, feed)
    np.testing.assert_allclose(got, want, rtol=0.05, atol=0.05 * np.abs(want).max())
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def train_on_towers(space, draws, images, slice_widths):
    """One step of two towers, each with a network of its own; weights before and after by name."""

    def model_fn(features, labels, mode):
        each = [nas_supernets.placeholders(space) for _ in draws]
        for masks, draw in zip(each, draws):
            feed.update(nas_supernets.one_hot(masks, draw))
        index = replicate.tower_index()
        masks = [tf.gather(tf.stack(choices), index) for choices in zip(*each)]
        shape = features.shape
        model = nas_supernets.supernet(space, masks, shape, slice_widths=slice_widths)
        loss = loss_of(model.apply(features, training=True)) + model.regularization_loss()
        optimizer = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.01))
        train_op = optimizer.minimize(loss, var_list=model.trainable_variables())
        with tf.control_dependencies([train_op]):
            after, _ = model.apply(features, training=False)
        replicate.merge_call(seen.extend, after)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    seen, feed, devices = [], {}, ["/cpu:0", "/cpu:1"]
    spec = replicate.replicate_model_fn(model_fn, devices=devices, per_tower=True)(
        tf.constant(images), None, tf.estimator.ModeKeys.TRAIN
    )
    variables = {variable.op.name: variable for variable in tf.trainable_variables()}
    with tf.Session(config=replicate.session_config(devices)) as session:
        session.run(tf.global_variables_initializer())
        before = session.run(variables)
        _, logits = session.run([spec.train_op, seen], feed)
        return before, session.run(variables), logits


@pytest.mark.parametrize("slice_widths", [False, True])
@mostly_v2
def test_towers_train_networks_of_their_own_with_shared_weights(control_flow, slice_widths):
    """Two towers with two networks take the mean of the gradients of either alone."""
    space = nas_supernets.tiny()
    draws = [nas_supernets.draw(space, seed) for seed in (1, 2)]
    images = nas_layers.images(6, 8, 8, 1)
    with tf.Graph().as_default():
        before, after, logits = train_on_towers(space, draws, images, slice_widths)
    means = {name: np.zeros_like(value) for name, value in before.items()}
    for draw, rows, updated_logits in zip(draws, np.split(images, 2), logits):
        with tf.Graph().as_default(), tf.Session() as session:
            masks = nas_supernets.placeholders(space)
            feed = nas_supernets.one_hot(masks, draw)
            model = nas_supernets.supernet(space, masks, rows.shape)
            outputs = model.apply(tf.constant(rows), training=True)
            loss = loss_of(outputs) + model.regularization_loss()
            variables = model.trainable_variables()
            gradients = tf.gradients(loss, variables)
            nas_layers.load(session, {v.ref(): before[v.op.name] for v in variables})
            for variable, gradient in zip(variables, session.run(gradients, feed)):
                means[variable.op.name] += gradient / 2
            # The validation sees what the towers updated.
            nas_layers.load(session, {v.ref(): after[v.op.name] for v in variables})
            want = session.run(outputs[0], feed)
            np.testing.assert_allclose(updated_logits, want, rtol=1e-3, atol=1e-5)
    for name, value in after.items():
        np.testing.assert_allclose(value, before[name] - 0.01 * means[name], rtol=1e-4, atol=1e-5)
    assert any((after[name] != before[name]).any() for name in after)


def test_replicas_of_a_tpu_can_build_it(control_flow):
    """There is no TPU here to run it, but its graph."""
    space, shape = nas_supernets.tiny(), [2, 8, 8, 1]

    def computation(images, *masks):
        model = nas_supernets.supernet(space, masks, shape)
        logits, _ = model.apply(tf.cast(images, tf.bfloat16), training=True)
        loss = tf.reduce_sum(tf.cast(logits, tf.float32)) + model.regularization_loss()
        variables = model.trainable_variables()
        gradients = tf.gradients(loss, variables)
        updates = [each.assign_sub(gradient) for each, gradient in zip(variables, gradients)]
        with tf.control_dependencies(updates):
            return model.apply(tf.cast(images, tf.bfloat16), training=False)[0]

    masks = [tf.placeholder(tf.float32, [2, size]) for size in nas_supernets.sizes(space)]

    def replica(images, *masks):
        return computation(images, *(mask[0] for mask in masks))

    (logits,) = tf.tpu.shard(replica, [tf.zeros([4, 8, 8, 1]), *masks], num_shards=2)
    assert logits.shape.as_list() == [4, nas_supernets.NUM_CLASSES]
