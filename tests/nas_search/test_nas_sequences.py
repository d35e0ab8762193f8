"""Kernels that are pairs, and pools: networks, costs, features, texts and files of them."""

import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search import mobile_classifier_factory as factory
from examples.nas_search import mobile_search_space_v3 as v3
from examples.nas_search import schema_io
from examples.nas_search.basic_specs import OP_TAG, ConvTowerSpec, block
from examples.nas_search.costs import cost_features, network_batch, network_cost
from examples.nas_search.reports import architecture_text, network_drawing
from examples.nas_search.schema import OneOf
from examples.nas_search.spaces import search_spaces
from nas_search import nas_layers

SHAPE = (3, 12, 2)
SSD = "pulses_search"


def of_kernels(kernel, width=4):
    """Returns a tower with a convolution, a bottleneck and a separable one of a kernel."""
    layers = [
        v3.ConvSpec(kernel, (1, 2)),
        v3.ResidualSpec(v3.DepthwiseBottleneckSpec(kernel, 8, False, 1)),
        v3.SeparableConvSpec(kernel, 1),
    ]
    return ConvTowerSpec([block(layers, width)], filters_base=4)


def of_pools(kind="max"):
    layers = [v3.ConvSpec(1, 1), v3.PoolSpec(kind, (1, 3), (1, 2)), v3.PoolSpec("average", 2, 1)]
    return ConvTowerSpec([block(layers, 4)], filters_base=4)


def built(spec):
    """Returns inputs, a network that is built for them, and an iterator over its weights."""
    x = tf.constant(nas_layers.images(2, *SHAPE, dtype="float64"))
    model = factory.get_standalone_model(spec, num_classes=3)
    with tf.variable_scope("", dtype=tf.float64):
        model.build(x.shape)
    return x, model, iter(model.trainable_variables())


def check_same(model, x, want):
    logits, _ = model.apply(x, training=True)
    with nas_layers.session() as session:
        nas_layers.randomize(session, model.trainable_variables(), low=-0.5, high=0.5)
        got, want = session.run([logits, want])
    np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-10)


def norm(x, weights):
    mean, variance = tf.nn.moments(x, [0, 1, 2])
    gamma, beta = next(weights), next(weights)
    return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 0.001)


def classified(h, weights):
    return tf.reduce_mean(tf.nn.conv2d(h, next(weights), 1, "SAME") + next(weights), [1, 2])


def test_a_pair_is_the_height_and_the_width_of_a_kernel():
    x, model, weights = built(of_kernels((1, 5)))
    shapes = [v.shape.as_list() for v in model.trainable_variables() if v.shape.rank == 4]
    assert shapes[:4] == [[1, 5, 2, 4], [1, 1, 4, 8], [1, 5, 8, 1], [1, 1, 8, 4]]

    def conv(x, strides=(1, 1)):
        return norm(tf.nn.conv2d(x, next(weights), strides, "SAME"), weights)

    def depthwise(x):
        kernel = next(weights)
        assert kernel.shape[:2] == [1, 5]
        return norm(tf.nn.depthwise_conv2d(x, kernel, [1] * 4, "SAME"), weights)

    h = conv(x, (1, 2))
    h += conv(tf.nn.relu(depthwise(tf.nn.relu(conv(h)))))
    h = conv(tf.nn.relu(depthwise(h)))
    check_same(model, x, classified(h, weights))


@pytest.mark.parametrize("kind", ["max", "average"])
def test_a_pool_takes_the_largest_value_or_the_mean_of_each_channel(kind):
    x, model, weights = built(of_pools(kind))
    pool = {"max": tf.nn.max_pool2d, "average": tf.nn.avg_pool2d}[kind]
    h = norm(tf.nn.conv2d(x, next(weights), 1, "SAME"), weights)
    h = tf.nn.avg_pool2d(pool(h, (1, 3), (1, 2), "SAME"), 2, 1, "SAME")
    check_same(model, x, classified(h, weights))


def test_a_pool_of_another_kind_is_an_error():
    message = r"A pool must be one of \['max', 'average'\], but is 'median'.*blocks/0/layers/1"
    with pytest.raises(ValueError, match=message):
        factory.get_standalone_model(of_pools("median"))


def test_kernels_that_are_pairs_cost_what_they_have():
    cost = network_cost.network_cost(of_kernels((1, 5)), SHAPE, 3)
    # 3·12 pixels with stride 1×2 make 18; 5·2·4 weights of the convolution.
    conv, bottleneck, separable, _ = cost.layers
    assert (conv.madds, conv.params) == (18 * 40, 40 + 8)
    assert conv.output_shape == (3, 6, 4)
    # 4·8 to expand, 5·8 depthwise, 8·4 to project; batch norm of 8, 8 and 4 channels.
    assert (bottleneck.madds, bottleneck.params) == (18 * 104, 104 + 40)
    assert (separable.madds, separable.params) == (18 * (20 + 16), 20 + 16 + 16)
    weights = built(of_kernels((1, 5)))[2]
    assert sum(variable.shape.num_elements() for variable in weights) == cost.params
    square, pair = (network_cost.network_cost(of_kernels(k), SHAPE, 3) for k in (5, (5, 5)))
    assert square == pair


def test_pools_are_free_and_make_images_smaller():
    cost = network_cost.network_cost(of_pools(), SHAPE, 3)
    assert [layer[1:] for layer in cost.layers[1:3]] == [((3, 6, 4), 0, 0)] * 2
    assert cost.layers[3].madds == 18 * 4 * 3


def test_a_choice_between_pairs_and_pools_has_features():
    kernels = OneOf([(1, 3), (5, 1)], OP_TAG)
    pools = OneOf([v3.PoolSpec("max", 2, 2), v3.ConvSpec(3, 2)], OP_TAG)
    spec = ConvTowerSpec([block([v3.ConvSpec(kernels, 1), pools], 4)], filters_base=4)
    index_lists = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]
    size, positions = cost_features.feature_positions(spec, index_lists)
    assert (size, positions.tolist()) == (4, [[0, 2], [1, 2], [0, 3], [1, 3]])
    madds, _ = network_cost.costs_of_many(spec, index_lists, SHAPE, 3)
    classifier = 2 * 6 * 4 * 3
    first, second = 36 * 3 * 2 * 4, 36 * 5 * 2 * 4
    conv = 12 * 9 * 4 * 4
    want = [first, second, first + conv, second + conv]
    assert madds.tolist() == [each + classifier for each in want]


def test_pairs_and_pools_in_words():
    pools = OneOf([v3.PoolSpec("max", (1, 2), (1, 2)), v3.PoolSpec("average", 3, 2)], OP_TAG)
    assert architecture_text.text(pools) == (
        "(max pool 1×2, stride 1×2)|(average pool 3×3, stride 2)"
    )
    kernels = OneOf([(1, 3), (1, 11)], OP_TAG)
    assert architecture_text.text(kernels) == "1×3|1×11"
    assert [architecture_text.brief(kernel) for kernel in kernels.choices] == ["1×3", "1×11"]
    bottleneck = v3.DepthwiseBottleneckSpec(kernels, 8, False, 1)
    assert architecture_text.text(bottleneck) == "bottleneck 1×3|1×11, expansion 8, relu"
    assert architecture_text.text(v3.SeparableConvSpec((1, 3), 2)) == (
        "separable convolution 1×3, stride 2, relu"
    )


def test_pairs_and_pools_in_files():
    spec = search_spaces.get_search_space_spec(SSD)
    assert schema_io.deserialize(schema_io.serialize(spec)) == spec
    pool = schema_io.serialize(v3.PoolSpec("max", (1, 2), 2))
    fields = [["kind", "max"], ["pool_size", ["tuple", 1, 2]], ["strides", 2]]
    assert json.loads(pool) == ["namedtuple:mobile_specs.PoolSpec", *fields]


def test_the_drawing_of_a_network_on_sequences():
    spec = search_spaces.get_search_space_spec(SSD)
    indices = network_batch.random_index_lists(spec, 1, np.random.RandomState(7))[0].tolist()
    network = factory.get_model_spec(SSD, indices=indices)
    costs = network_cost.network_cost(network, (1, 128, 1), 10).layers
    rows = network_drawing.rows_of(network, costs)
    lengths = {row.kernel_size for row in rows if isinstance(row.kernel_size, tuple)}
    assert len(lengths) > 2 and lengths <= {(1, 3), (1, 5), (1, 7), (1, 9), (1, 11)}
    assert {row.kernel_size for row in rows} == lengths | {1, None}
    legend = network_drawing.kernel_legend(rows)
    texts = ["1×1 kernel", *(f"1×{length} kernel" for _, length in sorted(lengths))]
    assert [text for text, _ in legend] == texts
    assert len({color for _, color in legend}) == len(legend)
