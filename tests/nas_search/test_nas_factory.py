"""Names become specs, and specs networks; path dropout works wherever a layer can be left out."""

import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search import mobile_model_archive as archive
from examples.nas_search import mobile_search_space_v3 as v3
from examples.nas_search import schema
from examples.nas_search.basic_specs import FILTERS_TAG, OP_TAG, FilterMultiplier, ZeroSpec
from examples.nas_search.mobile_classifier_factory import (
    get_model_for_search,
    get_model_spec,
    get_standalone_model,
    mobile_model_v3,
)
from examples.nas_search.schema import OneOf
from examples.nas_search.spaces import search_spaces

# Skips the optional layer of block 1 and keeps that of block 2.
DIGITS_INDICES = [0, *(0, 0), *(1, 1, 1), 0, *(1, 0), *(0, 1, 0), 1, 0]
ONE, THREE = FilterMultiplier(1), FilterMultiplier(3)
REFERENCES = {
    "mobilenet_v2": (archive.MOBILENET_V2_FILTERS, archive.MOBILENET_V2_OPERATIONS),
    "mnasnet_b1": (archive.MNASNET_FILTERS, archive.MNASNET_OPERATIONS),
    "proxylessnas_mobile": (
        archive.PROXYLESSNAS_MOBILE_FILTERS,
        archive.PROXYLESSNAS_MOBILE_OPERATIONS,
    ),
}


def chosen(node):
    """A spec in which every choice is replaced by its only element."""

    def only(oneof):
        (choice,) = oneof.choices
        return choice

    return schema.map_oneofs(only, node)


def layers_of(spec):
    return [layer for block in spec.blocks for layer in block.layers]


def masked(spec):
    """The paths of choices with a mask."""
    paths = []
    schema.map_oneofs_with_paths(lambda p, oneof: oneof.mask is None or paths.append(p), spec)
    return paths


@pytest.mark.parametrize("ssd", search_spaces.ALL_SSDS)
@pytest.mark.parametrize("nothing", [None, []])
def test_without_choices_the_spec_is_the_whole_space(ssd, nothing):
    spec = get_model_spec(ssd, filters=nothing, op_indices=nothing, indices=nothing)
    assert spec == search_spaces.get_search_space_spec(ssd)


def test_unknown_spaces_are_refused():
    with pytest.raises(ValueError, match=r"`ssd` must be one of .*'digits_search'.*but is 'other'"):
        get_model_spec("other")


def searched(ssd, filters, operations):
    """The network of widths and operations of the archive, by its indices in a search space."""
    blocks = get_model_spec(ssd).blocks
    widths = [block.filters.choices.index(width) for block, width in zip(blocks, filters)]
    # Operation 3·expansion + kernel of the archive; 6 skips, and its settings have no effect.
    triples = [[0, 0, 1] if op == 6 else [op % 3, op // 3, 0] for op in operations[1:]]
    indices = [widths[0], operations[0], widths[1]]
    for i in range(5):
        for triple in triples[4 * i : 4 * i + 4]:
            indices += triple
        indices.append(widths[2 + i])
    indices += [*triples[20], *widths[7:]]
    assert len(indices) == 73
    return get_model_spec(ssd, indices=indices)


@pytest.mark.parametrize("ssd", REFERENCES)
def test_reference_networks_lie_in_the_enlarged_space(ssd):
    found = searched("proxylessnas_enlarged_search", *REFERENCES[ssd])
    assert chosen(found) == chosen(get_model_spec(ssd))


def test_proxylessnas_mobile_lies_in_its_own_space():
    found = searched("proxylessnas_search", *REFERENCES["proxylessnas_mobile"])
    assert chosen(found) == chosen(get_model_spec("proxylessnas_mobile"))


@pytest.mark.parametrize(
    ("ssd", "name"),
    [("cifar10_mobilenet_v2", "mobilenet_v2"), ("cifar10_proxylessnas", "proxylessnas_mobile")],
)
def test_reference_networks_of_cifar10_lie_in_their_space(ssd, name):
    found = searched("cifar10_search", *REFERENCES[name])
    assert chosen(found) == chosen(get_model_spec(ssd))


def test_indices_choose_everything():
    spec = get_model_spec("digits_search", indices=DIGITS_INDICES)

    def bottleneck(kernel_size, expansion, strides):
        return v3.DepthwiseBottleneckSpec(kernel_size, FilterMultiplier(expansion), False, strides)

    assert [chosen(block.filters) for block in spec.blocks] == [4, 2, 8, 32]
    assert chosen(spec.blocks[1].layers) == [bottleneck(3, 1, 2), v3.ResidualSpec(ZeroSpec())]
    assert chosen(spec.blocks[2].layers) == [
        bottleneck(5, 1, 2),
        v3.ResidualSpec(bottleneck(3, 3, 1)),
    ]


def test_indices_win_over_filters_and_operations():
    spec = get_model_spec("digits_search", filters=[1], op_indices=[2], indices=DIGITS_INDICES)
    assert spec == get_model_spec("digits_search", indices=DIGITS_INDICES)


def test_filters_are_given_by_value_and_operations_by_index():
    spec = get_model_spec(
        "digits_search",
        filters=[4, ONE, THREE, 2, ONE, THREE, 8, 32],
        op_indices=[0, 1, 1, 1, 0, 0],
    )
    assert spec == get_model_spec("digits_search", indices=DIGITS_INDICES)


@pytest.mark.parametrize(
    ("choice", "open_tag"),
    [
        ({"op_indices": [0] * 6}, FILTERS_TAG),
        ({"filters": [4, ONE, ONE, 2, ONE, ONE, 4, 32]}, OP_TAG),
    ],
)
def test_what_is_not_given_stays_open(choice, open_tag):
    is_open = []
    schema.map_oneofs(
        lambda oneof: is_open.append(oneof.tag) if len(oneof.choices) > 1 else None,
        get_model_spec("digits_search", **choice),
    )
    assert set(is_open) == {open_tag}


def test_widths_are_scaled_after_they_were_chosen():
    spec = get_model_spec("digits_search", indices=DIGITS_INDICES, filters_multipliers=0.5)
    # Halves of 4, 2, 8 and 32 in multiples of 2. Nothing is left to choose.
    assert [block.filters for block in spec.blocks] == [
        OneOf([width], FILTERS_TAG) for width in (2, 2, 4, 16)
    ]
    several = get_model_spec("digits_search", indices=DIGITS_INDICES, filters_multipliers=[0.5, 1])
    assert several.blocks[2].filters == OneOf([4, 8], FILTERS_TAG)


@pytest.mark.parametrize(
    ("ssd", "settings", "num_dropped"),
    [
        # Bottlenecks after the first of each block: 4 + 4 + 4 + 4 + 4 - skips - 5.
        ("mobilenet_v2", {}, 20 - 5 - 5),
        ("mnasnet_b1", {}, 20 - 5 - 5),
        ("proxylessnas_mobile", {}, 20 - 5 - 2),
        # The separable convolution, and 1, 2, 3, 1, 2 bottlenecks.
        ("mobilenet_v3_large", {}, 1 + 9),
        ("mobilenet_multi_avg", {}, 1 + 3 + 3 + 1 + 3),
        ("mobilenet_multi_max", {}, 0 + 2 + 3 + 1 + 3),
        ("digits_search", {"indices": DIGITS_INDICES}, 1),
        ("digits_search", {"op_indices": [0] * 6}, 2),
        ("proxylessnas_search", {"indices": [0] * 73}, 15),
        ("mobilenet_v3_like_search", {"indices": [0] * 86}, 1 + 15),
    ],
)
def test_path_dropout_concerns_every_residual_layer(ssd, settings, num_dropped):
    whole = get_model_spec(ssd, **settings)
    spec = get_model_spec(ssd, path_dropout_rate=0.25, training=True, **settings)
    masks = [
        layer.layer.mask
        for layer in layers_of(spec)
        if isinstance(layer, v3.ResidualSpec)
        and isinstance(layer.layer, OneOf)
        and layer.layer.mask is not None
    ]
    assert len(masks) == len(masked(spec)) == num_dropped
    # Each is drawn by itself.
    assert len({mask.name for mask in masks}) == num_dropped
    if "op_indices" not in settings:
        assert chosen(spec) == chosen(whole)
    # Evaluation needs no masks.
    assert get_model_spec(ssd, path_dropout_rate=0.25, training=False, **settings) == whole


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"path_dropout_rate": 0.1, "training": True}, r"but blocks/1/layers/0/kernel_size is sti"),
        ({"path_dropout_rate": 0.1, "training": False}, r"is for chosen networks, but blocks/1/"),
        (
            {"path_dropout_rate": 0.1, "indices": DIGITS_INDICES},
            r"`training` must be given with a `path_dropout_rate` of 0.1",
        ),
        (
            {"path_dropout_rate": 1, "training": True, "indices": DIGITS_INDICES},
            r"`path_dropout_rate` must lie in \[0, 1\), but is 1",
        ),
        ({"indices": [0] * 13}, r"each of the 14 choices of the space, but has 13"),
        ({"filters_multipliers": -1}, r"`multipliers` must be numbers >= 0"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        get_model_spec("digits_search", **settings)


@pytest.mark.parametrize(
    ("get_model", "is_stateless"), [(get_model_for_search, True), (get_standalone_model, False)]
)
def test_only_the_search_normalizes_by_the_batch_alone(monkeypatch, get_model, is_stateless):
    calls = []
    monkeypatch.setattr(mobile_model_v3, "get_model", lambda *a, **k: calls.append((a, k)) or "net")
    assert get_model("spec", num_classes=10) == "net"
    assert calls == [(("spec",), {"num_classes": 10, "force_stateless_batch_norm": is_stateless})]


def network(training):
    """Builds a digits network; returns its logits for fixed images, and its variables' names."""
    spec = get_model_spec("digits_search", None, None, DIGITS_INDICES, 1.0, 0.5, training)
    model = get_standalone_model(spec, num_classes=10)
    images = tf.random.stateless_uniform([6, 8, 8, 1], seed=[1, 2])
    model.build(images.shape)
    logits, _ = model.apply(images, training)
    return logits, [(variable.name, variable.shape) for variable in tf.global_variables()]


def test_path_dropout_leaves_the_residual_layer_out_of_some_runs():
    logits, with_dropout = network(training=True)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        results = {session.run(logits).tobytes() for _ in range(20)}
    # One layer is kept or not; that 20 runs agree has a probability of 2^-19.
    assert len(results) == 2
    # A checkpoint of training can be evaluated, where there is no dropout.
    with tf.Graph().as_default():
        _, without = network(training=False)
    assert with_dropout == without
