"""Cost features, their fit, and the cost of drawn networks."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import selection
from bodies import matching
from examples.nas_search import controller, cost_model_lib, mobile_cost_model, schema
from examples.nas_search.basic_specs import (
    FILTERS_TAG,
    OP_TAG,
    ConvTowerSpec,
    FilterMultiplier,
    ZeroSpec,
    block,
)
from examples.nas_search.costs import (
    cost_features,
    cost_fit,
    cost_model_io,
    network_batch,
    network_cost,
)
from examples.nas_search.mobile_search_space_v3 import (
    ActivationSpec,
    ConvSpec,
    DepthwiseBottleneckSpec,
    ResidualSpec,
)
from examples.nas_search.schema import OneOf
from examples.nas_search.search import search_costs
from examples.nas_search.spaces import search_spaces
from nas_search import nas_searches

INPUTS = {
    "proxylessnas_search": ((224, 224, 3), 1001),
    "proxylessnas_enlarged_search": ((224, 224, 3), 1001),
    "mobilenet_v3_like_search": ((224, 224, 3), 1001),
    "digits_search": ((8, 8, 1), 10),
    "cifar10_search": ((32, 32, 3), 10),
}
SPACES = sorted(INPUTS)


def evaluate(tensor):
    with tf.Session() as session:
        return session.run(tensor)


def masked(space, masks):
    """Returns a space with masks, given in visiting order."""
    remaining = iter(masks)

    def put(oneof):
        return OneOf(oneof.choices, oneof.tag, tf.constant(next(remaining), tf.float32))

    return schema.map_oneofs(put, space)


def one_hots(space, indices):
    """Returns the masks of a network."""
    sizes = []
    schema.map_oneofs(lambda oneof: sizes.append(len(oneof.choices)), space)
    return [np.eye(size)[index] for size, index in zip(sizes, indices)]


def random_networks(ssd, count, seed=12345):
    """Returns index lists and their exact cost in millions, unlike those that models are fit to."""
    space = search_spaces.get_search_space_spec(ssd)
    index_lists = network_batch.random_index_lists(space, count, np.random.RandomState(seed))
    madds, _ = network_cost.costs_of_many(space, index_lists, *INPUTS[ssd])
    return space, index_lists, madds / 1e6


def test_get_mask():
    mask = tf.constant([0.0, 1.0])
    assert cost_model_lib.get_mask(OneOf([1, 2], OP_TAG, mask)) is mask
    np.testing.assert_array_equal(evaluate(cost_model_lib.get_mask(OneOf([1], OP_TAG))), [1.0])


def test_an_open_choice_has_no_features():
    message = "Among several options one must have been drawn…[1, 2]…Draw with"
    with pytest.raises(ValueError, match=matching(message)):
        cost_model_lib.get_mask(OneOf([1, 2], OP_TAG))
    space = search_spaces.get_search_space_spec("digits_search")
    with pytest.raises(ValueError, match="one must have been drawn"):
        cost_model_lib.coupled_tf_features(space)


def test_kron_has_the_first_factor_outside():
    got = cost_model_lib.kron(tf.constant([1.0, 2.0]), tf.constant([3.0, 5.0, 7.0]))
    np.testing.assert_array_equal(evaluate(got), [3, 5, 7, 6, 10, 14])


# All widths are open; the second block has a convolution and a bottleneck that can be skipped.
SMALL = ConvTowerSpec(
    [
        block([ConvSpec(3, 1), ActivationSpec("relu")], OneOf([4, 8], FILTERS_TAG)),
        block(
            [
                ConvSpec(OneOf([1, 3], OP_TAG), 1),
                ResidualSpec(
                    OneOf(
                        [
                            DepthwiseBottleneckSpec(
                                OneOf([3, 5], OP_TAG),
                                OneOf([FilterMultiplier(1), FilterMultiplier(2)], FILTERS_TAG),
                                False,
                                1,
                            ),
                            ZeroSpec(),
                        ],
                        OP_TAG,
                    )
                ),
            ],
            OneOf([8, 12], FILTERS_TAG),
        ),
        block([ActivationSpec("relu")], OneOf([4, 8, 12], FILTERS_TAG)),
    ],
    filters_base=4,
)


def test_features_by_hand():
    a, b, c = np.array([0.25, 0.75]), np.array([0.4, 0.6]), np.array([0.5, 0.3, 0.2])  # widths
    first = np.array([0.45, 0.55])  # kernel
    kernel, expansion, skip = np.array([0.1, 0.9]), np.array([0.2, 0.8]), np.array([0.3, 0.7])
    masks = [a, first, kernel, expansion, skip, b, c]
    got = evaluate(cost_model_lib.coupled_tf_features(masked(SMALL, masks)))
    want = [
        a,  # The first layer has no input width.
        np.kron(a, a),  # Its activation has.
        np.kron(np.kron(b, a), first),  # Output b, input a.
        # Inside a block output and input have the same width.
        np.kron(np.kron(b, b), np.append(skip[0] * np.kron(kernel, expansion), skip[1])),
        np.kron(c, b),
    ]
    np.testing.assert_allclose(got, np.concatenate(want), rtol=1e-6)


def test_positions_by_hand():
    # As above: width a, kernel; kernel, expansion and skip; widths b and c.
    index_lists = [[1, 0, 1, 0, 0, 0, 2], [0, 1, 1, 1, 1, 1, 0]]
    size, positions = cost_features.feature_positions(SMALL, index_lists)
    assert size == 2 + 4 + 8 + 20 + 6
    # Each is (output · inputs + input) · options + option, after 2, 6, 14 and 34 others. Kernel 1
    # with expansion 0 is option 2 of 5; a skip is option 4.
    np.testing.assert_array_equal(
        positions,
        [
            [1, 2 + 3, 6 + (0 * 2 + 1) * 2 + 0, 14 + (0 * 2 + 0) * 5 + 2, 34 + 2 * 2 + 0],
            [0, 2 + 0, 6 + (1 * 2 + 0) * 2 + 1, 14 + (1 * 2 + 1) * 5 + 4, 34 + 0 * 2 + 1],
        ],
    )


# The smallest, and the one with the most kinds of choices.
QUICK_SPACES = ("digits_search", "mobilenet_v3_like_search")


@pytest.mark.parametrize("ssd", [selection.cell(s, is_quick=s in QUICK_SPACES) for s in SPACES])
def test_tensors_have_their_ones_at_the_positions(ssd):
    space = search_spaces.get_search_space_spec(ssd)
    drawn, _ = controller.independent_sample(space)
    masks = []
    schema.map_oneofs(lambda oneof: masks.append(oneof.mask), drawn)
    features = cost_model_lib.coupled_tf_features(drawn)
    estimate = cost_model_lib.estimate_cost(features, ssd)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            values, got, cost = session.run([masks, features, estimate])
            indices = [int(np.argmax(mask)) for mask in values]
            size, (positions,) = cost_features.feature_positions(space, [indices])
            want = np.zeros(size)
            want[positions] = 1.0
            np.testing.assert_array_equal(got, want)
            exact = network_cost.network_cost(space, *INPUTS[ssd], indices).madds / 1e6
            np.testing.assert_allclose(cost, exact, rtol=1e-5)
            by_indices = mobile_cost_model.estimate_cost(indices, ssd)
            assert isinstance(by_indices, float)
            np.testing.assert_allclose(by_indices, exact, rtol=1e-6)


def test_fractional_masks_give_the_mean_cost():
    """During warm-up a choice is the mean over its options."""
    space = search_spaces.get_search_space_spec("digits_search")
    random = np.random.RandomState(0)
    index_list = network_batch.random_index_lists(space, 1, random)[0]
    masks = one_hots(space, index_list)
    # Kernel, kernel, expansion and skip of block 1; see `digits_search_space`.
    open_choices = [1, 3, 4, 5]
    for choice in open_choices:
        masks[choice] = random.dirichlet([1.0, 1.0])
    mean = 0.0
    for options in itertools.product(range(2), repeat=len(open_choices)):
        index_list[open_choices] = options
        probability = np.prod([masks[c][o] for c, o in zip(open_choices, options)])
        cost = network_cost.network_cost(space, *INPUTS["digits_search"], index_list).madds
        mean += probability * cost / 1e6
    features = cost_model_lib.coupled_tf_features(masked(space, masks))
    got = evaluate(cost_model_lib.estimate_cost(features, "digits_search"))
    np.testing.assert_allclose(got, mean, rtol=1e-5)


@pytest.mark.parametrize("objective", ["madds", "params"])
@pytest.mark.parametrize("ssd", SPACES)
def test_held_out_error(ssd, objective):
    """The bound is 0.5 %; as costs are linear in the features, a millionth is what is found."""
    shape, classes = INPUTS[ssd]
    model = cost_fit.fit(ssd, objective, classes, shape)
    statistics = model.statistics
    assert statistics["num_held_out"] >= 300
    assert statistics["mean_relative_error"] <= statistics["max_relative_error"] <= 1e-6
    # Networks drawn elsewhere, and the cheapest and dearest corners of the space.
    space, index_lists, _ = random_networks(ssd, 2000)
    sizes = network_batch.random_index_lists(space, 1000, np.random.RandomState(0)).max(axis=0)
    corners = np.stack([0 * sizes, sizes, np.where(sizes > 1, sizes, 0)])
    index_lists = np.concatenate([index_lists, corners])
    costs = network_cost.costs_of_many(space, index_lists, shape, classes)
    exact = costs[objective == "params"] / 1e6
    _, positions = cost_features.feature_positions(space, index_lists)
    np.testing.assert_allclose(model.estimate(positions), exact, rtol=1e-6)


def test_too_few_networks_show_in_the_statistics():
    """400 networks cannot tell the weights of 2179 features that occur."""
    model = cost_fit.fit("proxylessnas_enlarged_search", num_networks=400)
    assert model.statistics["num_fitted"] == 360 and model.statistics["num_held_out"] == 40
    assert model.statistics["max_relative_error"] > 0.01
    _, index_lists, exact = random_networks("proxylessnas_enlarged_search", 500)
    space = search_spaces.get_search_space_spec("proxylessnas_enlarged_search")
    _, positions = cost_features.feature_positions(space, index_lists)
    errors = np.abs(model.estimate(positions) / exact - 1)
    # The mean of 40 relative errors predicts that of others.
    np.testing.assert_allclose(model.statistics["mean_relative_error"], errors.mean(), rtol=0.5)


def test_least_squares_is_the_shortest_solution():
    random = np.random.RandomState(0)
    positions = np.stack([random.randint(0, 3, 50), 3 + random.randint(0, 4, 50)], axis=1)
    costs = random.normal(size=50)  # nothing that is linear
    networks = cost_fit.Networks(None, 8, positions)
    kernel, bias = cost_fit.least_squares(networks, costs)
    matrix = np.zeros([50, 8])
    matrix[np.arange(50)[:, None], positions] = 1.0
    want = np.linalg.lstsq(matrix, costs - costs.mean(), rcond=None)[0]
    assert bias == costs.mean() and kernel[7] == 0.0  # a feature that never occurs
    np.testing.assert_allclose(matrix @ kernel, matrix @ want, atol=1e-7)


def test_fits_are_repeatable_and_depend_on_their_arguments():
    small = {"num_classes": 10, "input_shape": (8, 8, 1), "num_networks": 500}
    first = cost_fit.fit("digits_search", **small)
    cost_fit.fit.cache_clear()
    again = cost_fit.fit("digits_search", **small)
    assert again is not first
    np.testing.assert_array_equal(again.kernel, first.kernel)
    assert cost_fit.fit("digits_search", seed=1, **small).statistics != first.statistics
    larger = cost_fit.fit("digits_search", num_classes=10, input_shape=(16, 16, 1))
    assert larger.statistics["lower_quartile"] > 2 * first.statistics["lower_quartile"]
    assert first.unit == "million MAdds" and first.objective == "madds"


def test_unknown_objectives():
    message = "`objective` must be one of ['madds', 'params'], but is 'watts'…OBJECTIVES"
    with pytest.raises(ValueError, match=matching(message)):
        cost_fit.fit("digits_search", "watts")


@pytest.mark.parametrize("call", [cost_fit.fit, mobile_cost_model.target_cost])
def test_unknown_spaces(call):
    with pytest.raises(ValueError, match=matching("`ssd` must be one of…but is 'nowhere'")):
        call("nowhere")


def test_json_keeps_every_bit():
    model = mobile_cost_model.default_model("digits_search")
    text = cost_model_io.to_json(model)
    again = cost_model_io.from_json(text)
    for field in dataclasses.fields(model):
        np.testing.assert_array_equal(getattr(again, field.name), getattr(model, field.name))
    assert cost_model_io.to_json(again) == text and isinstance(again.input_shape, tuple)


@pytest.mark.parametrize("change", ["not json", "[1]", "no format", "another format", "no kernel"])
def test_broken_json(change):
    fields = json.loads(cost_model_io.to_json(mobile_cost_model.default_model("digits_search")))
    if change == "no format":
        del fields["format"]
    elif change == "another format":
        fields["format"] = 99
    elif change == "no kernel":
        del fields["kernel"]
    text = change if change in ("not json", "[1]") else json.dumps(fields)
    message = f"must be JSON by `fit-cost`…{text[:30]}…fitted again"
    with pytest.raises(ValueError, match=matching(message)):
        cost_model_io.from_json(text)


# MAdds in millions, see test_nas_network_cost.py; a reference network is its own target.
@pytest.mark.parametrize(
    "ssd, reference",
    [
        ("proxylessnas_search", "proxylessnas_mobile"),
        ("proxylessnas_enlarged_search", "proxylessnas_mobile"),
        ("mobilenet_v3_like_search", "mobilenet_v3_large"),
        ("mobilenet_v2", "mobilenet_v2"),
    ],
)
def test_targets_of_published_spaces(ssd, reference):
    spec = search_spaces.get_search_space_spec(reference)
    cost = network_cost.network_cost(spec, (224, 224, 3), 1001)
    assert mobile_cost_model.target_cost(ssd) == cost.madds / 1e6
    assert mobile_cost_model.target_cost(ssd, objective="params") == cost.params / 1e6
    smaller = network_cost.network_cost(spec, (64, 64, 3), 100).madds
    assert mobile_cost_model.target_cost(ssd, [64, 64, 3], 100) == smaller / 1e6


@pytest.mark.parametrize("ssd", ["cifar10_search", "cifar10_proxylessnas"])
def test_target_for_cifar10(ssd):
    assert mobile_cost_model.inputs_of(ssd) == ((32, 32, 3), 10)
    assert mobile_cost_model.target_cost(ssd) == 96_753_152 / 1e6


def test_a_quarter_of_the_networks_of_digits_cost_less_than_the_target():
    space = search_spaces.get_search_space_spec("digits_search")
    sizes = [len(mask) for mask in one_hots(space, [0] * 14)]
    everything = np.array(list(itertools.product(*map(range, sizes))))
    _, positions = cost_features.feature_positions(space, everything)
    _, distinct = np.unique(positions, axis=0, return_index=True)
    assert len(distinct) == 3600
    madds, _ = network_cost.costs_of_many(space, everything[distinct], (8, 8, 1), 10)
    target = mobile_cost_model.target_cost("digits_search")
    np.testing.assert_allclose(target, np.quantile(madds, 0.25) / 1e6, rtol=0.02)


@pytest.mark.parametrize("ssd", ["mobilenet_v2", "mobilenet_v3_large"])
def test_reference_networks_can_be_costed(ssd):
    spec = search_spaces.get_search_space_spec(ssd)
    want = network_cost.network_cost(spec, (224, 224, 3), 1001).madds / 1e6
    features = cost_model_lib.coupled_tf_features(spec)
    np.testing.assert_array_equal(evaluate(features), [1.0])
    got = evaluate(cost_model_lib.estimate_cost(features, ssd))
    np.testing.assert_allclose(got, want, rtol=1e-6)
    num_choices = len(one_hots(spec, [0] * 99))
    np.testing.assert_allclose(mobile_cost_model.estimate_cost([0] * num_choices, ssd), want)


def test_features_of_another_space():
    message = "`features` must have the shape [141]…'digits_search'…(144,)…model of the space"
    with pytest.raises(ValueError, match=matching(message)):
        cost_model_lib.estimate_cost(tf.zeros([144]), "digits_search")


@pytest.mark.parametrize(
    "indices, message",
    [
        ([0] * 13, "an index for each of 14 choices…has 13"),
        ([9] * 14, "must lie in [0, 1) at blocks"),
    ],
)
def test_indices_of_another_space(indices, message):
    with pytest.raises(ValueError, match=matching(message)):
        mobile_cost_model.estimate_cost(indices, "digits_search")


def search_params(directory, **changes):
    return {
        "ssd": "digits_search",
        "image_shape": [8, 8, 1],
        "num_classes": 10,
        "checkpoint_dir": str(directory),
        "rl_cost_model_target": 0.01,
        **changes,
    }


def load(params):
    """Returns the cost model of a search that has one."""
    (cost,) = search_costs.load(params)
    return cost.model


def test_a_search_keeps_its_cost_model(tmp_path):
    params = search_params(tmp_path / "new")
    model = load(params)
    path = tmp_path / "new" / "cost_model.json"
    assert [each.name for each in path.parent.iterdir()] == ["cost_model.json"]
    assert path.read_text() == cost_model_io.to_json(model)
    # From now on, the file counts.
    path.write_text(cost_model_io.to_json(dataclasses.replace(model, bias=7.0)))
    again = load(params)
    assert again.bias == 7.0
    indices = [0] * 14
    change = mobile_cost_model.estimate_cost(indices, "digits_search", again) - (
        mobile_cost_model.estimate_cost(indices, "digits_search")
    )
    np.testing.assert_allclose(change, 7.0 - model.bias)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"num_classes": 5}, "num_classes 10 where the search has 5"),
        ({"image_shape": [9, 8, 1]}, "input_shape (8, 8, 1) where the search has (9, 8, 1)"),
        ({"ssd": "mobilenet_v2"}, "ssd 'digits_search' where the search has 'mobilenet_v2'"),
    ],
)
def test_a_cost_model_of_another_search(tmp_path, change, message):
    load(search_params(tmp_path))
    fitted = load(search_params(tmp_path, **change))  # That one never began.
    assert list(fitted.input_shape) == search_params(tmp_path, **change)["image_shape"]
    load(search_params(tmp_path))
    nas_searches.save_checkpoint(tmp_path)
    message = f"must match its settings…cost_model.json has {message}…another directory"
    with pytest.raises(ValueError, match=matching(message)):
        load(search_params(tmp_path, **change))


def test_a_broken_file_is_named(tmp_path):
    (tmp_path / "cost_model.json").write_text("{")
    message = "must be JSON by `fit-cost`…fitted again…[File …cost_model.json.]"
    with pytest.raises(ValueError, match=matching(message)):
        load(search_params(tmp_path))


def test_a_bad_fit_is_told(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(tf.logging, "warning", lambda text, *args: told.append(text % args))
    load(search_params(tmp_path / "good"))
    assert not told
    poor = cost_fit.fit("digits_search", num_networks=30)
    monkeypatch.setattr(cost_fit, "fit", lambda *args, **kwargs: poor)
    load(search_params(tmp_path / "poor"))
    (text,) = told
    assert "cost model of digits_search is off by up to" in text and "num_networks" in text
