"""Networks are what their specs say."""

import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search import mobile_classifier_factory as factory
from examples.nas_search import mobile_search_space_v3 as v3
from examples.nas_search.basic_specs import OP_TAG, ConvTowerSpec, FilterMultiplier, ZeroSpec, block
from examples.nas_search.costs import network_cost
from examples.nas_search.rematlib import layers as lib
from examples.nas_search.rematlib import mobile_model_v3
from examples.nas_search.schema import OneOf
from nas_search import nas_layers, nas_supernets


@pytest.mark.parametrize("ssd", ["mobilenet_v3_large", "proxylessnas_mobile"])
def test_reference_networks_have_their_published_size(ssd):
    model = factory.get_standalone_model(factory.get_model_spec(ssd), num_classes=1000)
    assert model.build([None, 224, 224, 3]).as_list() == [None, 1000]
    params = sum(variable.shape.num_elements() for variable in model.trainable_variables())
    # MobileNetV3-Large: 5.4 M; ProxylessNAS-mobile: 4.1 M, in their papers.
    assert params / 1e6 == pytest.approx({"m": 5.4, "p": 4.1}[ssd[0]], abs=0.1)
    cost = network_cost.network_cost(factory.get_model_spec(ssd), [224, 224, 3], 1000)
    assert params == cost.params


def test_penalties_are_of_kernels_in_use_except_the_classifiers():
    spec = ConvTowerSpec(
        [
            block([v3.ConvSpec(1, 1), v3.ActivationSpec(v3.RELU)], v3.choose_filters([4, 8])),
            block([v3.DepthwiseBottleneckSpec(3, FilterMultiplier(2), True, 1)], 4),
        ],
        filters_base=1,
    )
    mask = tf.placeholder(tf.float32, [2])
    spec = nas_supernets.with_masks(spec, [mask, None])
    model = factory.get_model_for_search(spec, kernel_regularizer=tf.reduce_sum, num_classes=2)
    model.build([1, 4, 4, 3])
    penalty = model.regularization_loss()
    gradients = tf.gradients(penalty, model.trainable_variables())
    with nas_layers.session() as session:
        variables = model.trainable_variables()
        nas_layers.load(session, {v.ref(): np.ones(v.shape.as_list()) for v in variables})
        for width, active in [(4, [1, 0]), (8, [0, 1])]:
            # Of w channels it makes 2w, with w / 2 hidden units in between, and 4 again:
            # stem, expansion, depthwise, two layers of squeeze-and-excite, projection.
            expanded = 2 * width
            want = 3 * width + width * expanded + 9 * expanded
            want += 2 * expanded * (expanded // 4) + 4 * expanded
            assert session.run(penalty, {mask: active}) == want
    penalized = [g is not None for g in gradients]
    kernels = [
        nas_supernets.name(v).endswith("kernel") and v.shape != [1, 1, 4, 2]
        for v in model.trainable_variables()
    ]
    assert penalized == kernels


def test_path_dropout_multiplies_residual_layers():
    x = tf.constant(nas_layers.images(2, 8, 8, 1))
    spec = factory.get_model_spec("digits_search", indices=[0] * 14)
    mask = tf.placeholder(tf.float32, [1])
    layers = [layer for block in spec.blocks for layer in block.layers]
    residual = [layer for layer in layers if isinstance(layer, v3.ResidualSpec)]
    assert len(residual) == 2

    def masked(layer):
        if isinstance(layer, v3.ResidualSpec):
            return v3.ResidualSpec(OneOf(layer.layer.choices, OP_TAG, mask))
        return layer

    blocks = [
        each._replace(layers=[masked(layer) for layer in each.layers]) for each in spec.blocks
    ]
    skipped = factory.get_model_spec(
        "digits_search", indices=[0] * 5 + [1] + [0] * 5 + [1] + [0] * 2
    )
    models = [
        factory.get_standalone_model(each, num_classes=2)
        for each in (ConvTowerSpec(blocks, 2), spec, skipped)
    ]
    logits = []
    for model in models:
        model.build(x.shape)
        logits.append(model.apply(x, training=True)[0])
    # All weights of one shape are alike, so that the networks differ by their layers alone.
    with nas_layers.session() as session:
        for variable in tf.trainable_variables():
            nas_layers.randomize(session, [variable])
        dropped, _, want_dropped = session.run(logits, {mask: [0.0]})
        np.testing.assert_allclose(dropped, want_dropped, rtol=1e-4)
        kept, want_kept, _ = session.run(logits, {mask: [1.0]})
        np.testing.assert_allclose(kept, want_kept, rtol=1e-4)
        assert np.abs(kept - dropped).max() > 1e-3


def test_each_layer_is_what_its_spec_says():
    """Against the same network written down by hand, in float64."""
    bottleneck = v3.DepthwiseBottleneckSpec(5, FilterMultiplier(2), True, 2, v3.RELU6)
    layers = [
        [v3.ConvSpec(3, 2), v3.ActivationSpec(v3.SWISH6)],
        [v3.SeparableConvSpec(3, 1), v3.ResidualSpec(v3.SeparableConvSpec(5, 1, v3.SWISH6))],
        [bottleneck, v3.DetectionEndpointSpec(), v3.GlobalAveragePoolSpec()],
        [v3.ConvSpec(1, 1, use_batch_norm=False), v3.ActivationSpec(v3.SIGMOID)],
    ]
    spec = ConvTowerSpec(list(map(block, layers, [8, 12, 20, 16])), filters_base=4)
    x = tf.constant(nas_layers.images(2, 9, 9, 3, dtype="float64"))
    model = factory.get_standalone_model(spec, num_classes=3)
    with tf.variable_scope("", dtype=tf.float64):
        model.build(x.shape)
    weights = iter(model.trainable_variables())

    def norm(x):
        mean, variance = tf.nn.moments(x, [0, 1, 2])
        gamma, beta = next(weights), next(weights)
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 0.001)

    def conv(x, stride=1):
        return tf.nn.conv2d(x, next(weights), stride, "SAME")

    def depthwise(x, stride=1):
        return tf.nn.depthwise_conv2d(x, next(weights), [1, stride, stride, 1], "SAME")

    def swish6(x):
        return x * tf.nn.relu6(x + 3) / 6

    def separable(x, activation):
        return norm(conv(activation(norm(depthwise(x)))))

    h = swish6(norm(conv(x, 2)))
    h = separable(h, tf.nn.relu)
    h += separable(h, swish6)
    h = tf.nn.relu6(norm(conv(h)))
    h = tf.nn.relu6(norm(depthwise(h, 2)))
    # 24 channels have make_divisible(6, 4) = 8 hidden units.
    gate = tf.nn.relu(conv(tf.reduce_mean(h, [1, 2], keepdims=True)) + next(weights))
    assert gate.shape[3] == 8
    h *= tf.nn.sigmoid(conv(gate) + next(weights))
    endpoint = norm(conv(h))
    h = tf.reduce_mean(endpoint, [1, 2], keepdims=True)
    h = tf.nn.sigmoid(conv(h) + next(weights))
    logits = tf.reduce_mean(conv(h) + next(weights), [1, 2])
    assert next(weights, None) is None
    outputs, (own_endpoint,) = model.apply(x, training=True)
    with nas_layers.session() as session:
        nas_layers.randomize(session, model.trainable_variables(), low=-0.5, high=0.5)
        got, want = session.run([[outputs, own_endpoint], [logits, endpoint]])
    for a, b in zip(got, want):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


def test_dropout_comes_before_the_classifier():
    spec = ConvTowerSpec([block([v3.ConvSpec(1, 1)], 4)], filters_base=4)
    model = factory.get_standalone_model(spec, dropout_rate=1, num_classes=2)
    x = tf.constant(nas_layers.images(2, 4, 4, 3))
    model.build(x.shape)
    (trained, endpoints), (evaluated, _) = (model.apply(x, training) for training in (True, False))
    assert endpoints == []
    trained, evaluated = nas_layers.evaluate([trained, evaluated])
    assert not trained.any()
    assert evaluated.any()


def test_moving_averages_are_kept_alone_but_not_in_a_search():
    spec = factory.get_model_spec("digits_search", indices=[0] * 14)
    search, alone = factory.get_model_for_search(spec), factory.get_standalone_model(spec)
    for model in (search, alone):
        model.build([2, 8, 8, 1])
        model.apply(tf.zeros([2, 8, 8, 1]), training=True)
    assert search.updates() == []
    # Two for each of 2 convolutions and 4 bottlenecks with three each.
    assert len(alone.updates()) == 2 * (2 + 4 * 3)


def test_initializers_and_their_layers():
    spec = factory.get_model_spec("digits_search", indices=[0] * 14)
    model = mobile_model_v3.get_model(
        spec,
        kernel_initializer=tf.constant_initializer(2.0),
        depthwise_initializer=tf.constant_initializer(3.0),
        dense_initializer=tf.constant_initializer(4.0),
        num_classes=2,
    )
    model.build([2, 8, 8, 1])
    by_value = {2.0: 0, 3.0: 0, 4.0: 0, 1.0: 0, 0.0: 0}
    for value in nas_layers.evaluate(model.trainable_variables()):
        (constant,) = np.unique(value)
        by_value[constant] += 1
    # 10 kernels of 1×1 and 3×3, 4 depthwise, 1 dense with bias; 14 scales and 14 offsets.
    assert by_value == {2.0: 10, 3.0: 4, 4.0: 1, 1.0: 14, 0.0: 15}


def spec_of(*layers, filters=4, base=4):
    return ConvTowerSpec([block([v3.ConvSpec(1, 1), *layers], filters)], base)


BAD = {
    "filters_base": (
        lambda: mobile_model_v3.get_model(spec_of(base=0)),
        "`filters_base` must be at least 1, but is 0.",
    ),
    "dropout": (
        lambda: mobile_model_v3.get_model(spec_of(), dropout_rate=-0.5),
        "`rate` must lie in [0, 1], but is -0.5",
    ),
    "endpoint": (
        lambda: mobile_model_v3.get_model(
            ConvTowerSpec([block([v3.DetectionEndpointSpec()], 4)], filters_base=4)
        ),
        "marks the output of the layer before it, but there is none. Move the "
        "`DetectionEndpointSpec` behind a layer. [Layer blocks/0/layers/0.]",
    ),
    "unknown": (
        lambda: mobile_model_v3.get_model(spec_of(FilterMultiplier(2))),
        "not a FilterMultiplier: FilterMultiplier(scale=2). Add it to mobile_model_v3.py, and its "
        "cost to network_cost.py. [Layer blocks/0/layers/1.]",
    ),
    "activation": (
        lambda: mobile_model_v3.get_model(spec_of(v3.ActivationSpec("gelu"))),
        "An activation must be one of ['relu', 'relu6', 'swish6', 'sigmoid'], but is 'gelu'.",
    ),
    "stateful": (
        lambda: factory.get_standalone_model(nas_supernets.digits()),
        "`force_stateless_batch_norm` is False and blocks/1/layers/0/kernel_size is open. Use "
        "`mobile_classifier_factory.get_model_for_search`, or choose",
    ),
    "no_mask_of_widths": (
        lambda: factory.get_model_for_search(spec_of(filters=v3.choose_filters([4, 8]))),
        "has no mask. Draw with `controller.independent_sample`",
    ),
    "no_mask_of_operations": (
        lambda: factory.get_model_for_search(spec_of(v3.ConvSpec(OneOf([1, 3], OP_TAG), 1))),
        "`mask` can be None, but there are 2. Draw with",
    ),
    "residual_strides": (
        lambda: mobile_model_v3.get_model(spec_of(v3.ResidualSpec(v3.ConvSpec(1, 2)))),
        "must have strides (1, 1), but has (2, 2)",
    ),
    "residual_width": (
        lambda: mobile_model_v3.get_model(
            ConvTowerSpec([block([v3.ResidualSpec(v3.ConvSpec(1, 1))], 4)], filters_base=4)
        ),
        "A residual layer must have as many output channels as inputs. Use it only after a layer",
    ),
    "widths_of_options": (
        lambda: mobile_model_v3.get_model(
            ConvTowerSpec(
                [
                    block([v3.ConvSpec(1, 1)], 8),
                    block([OneOf([v3.ConvSpec(1, 1), v3.ActivationSpec(v3.RELU)], OP_TAG)], 4),
                ],
                filters_base=4,
            ),
            force_stateless_batch_norm=True,
        ),
        "All options of a choice must have outputs of the same number of channels, but OneOf(",
    ),
    "relative_first": (
        lambda: mobile_model_v3.get_model(
            ConvTowerSpec(
                [block([v3.DepthwiseBottleneckSpec(3, FilterMultiplier(2), False, 1)], 4)], 4
            )
        ),
        "relative to the input, but FilterMultiplier(scale=2) stands in the first layer. Give it",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_makes_no_network_is_refused(case):
    make, message = BAD[case]
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


def test_zeros_can_be_an_option_without_a_residual():
    mask = tf.placeholder(tf.float32, [2])
    spec = spec_of(OneOf([v3.ConvSpec(3, 1), ZeroSpec()], OP_TAG, mask))
    model = factory.get_model_for_search(spec, num_classes=2)
    x = tf.constant(nas_layers.images(2, 4, 4, 3))
    model.build(x.shape)
    logits, _ = model.apply(x, training=True)
    with nas_layers.session() as session:
        assert session.run(logits, {mask: [1, 0]}).any()
        assert not session.run(logits, {mask: [0, 1]}).any()
    assert isinstance(model, lib.Sequential)
