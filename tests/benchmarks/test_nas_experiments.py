"""The references of the search's benchmark, its part on latency, and its pictures."""

import argparse
import json
import types

import numpy as np
import pytest

import programs
from benchmarks import (
    nas_experiments,
    nas_latency,
    nas_pictures,
    nas_quality,
    nas_search_runs,
    nas_trainings,
)
from examples.nas_search import mobile_classifier_factory
from examples.nas_search import mobile_search_space_v3 as v3
from examples.nas_search.costs import network_cost
from examples.nas_search.latency import timing
from examples.nas_search.spaces import mnist_search_space, search_spaces
from nas_search import nas_searches

MNIST5K = nas_experiments.EXPERIMENTS["mnist5k"]


def layers_of(spec):
    """Returns pairs of kernel size and expansion, a factor, of the bottlenecks of each block."""
    found = []
    for layer_block in spec.blocks:
        pairs = []
        for layer in layer_block.layers:
            if isinstance(layer, v3.ResidualSpec):
                layer = layer.layer
            if isinstance(layer, v3.OneOf):
                [layer] = layer.choices
            if isinstance(layer, v3.DepthwiseBottleneckSpec):
                one = [getattr(field, "choices", [field])[0] for field in layer[:2]]
                pairs.append((one[0], getattr(one[1], "scale", one[1])))
        found.append(pairs)
    return found


def widths_of(spec):
    return [layer_block.filters.choices[0] for layer_block in spec.blocks]


@pytest.mark.parametrize("name", ["mobilenet_v2", "mnasnet_b1", "proxylessnas_mobile"])
def test_shapes_are_those_of_the_published_blocks_with_strides_2_2_and_1(name):
    shape, published = MNIST5K.references[name], search_spaces.get_search_space_spec(name)
    blocks = [*published.blocks[3:6]]
    assert [v3.get_strides(layer_block.layers[0])[0] for layer_block in blocks] == [2, 2, 1]
    assert shape.layers == [pairs[:3] for pairs in layers_of(published)[3:6]]
    widths = widths_of(published)
    assert shape.widths == [widths[0], *widths[3:6], widths[-1]]


def test_the_shape_of_mobilenet_v3_has_the_nearest_expansions():
    shape = MNIST5K.references["mobilenet_v3_large"]
    # 72 of 24, 120 of 40; 240 of 40, 200 and 184 of 80; 480 of 80, 672 of 112.
    assert shape.layers == [[(5, 3)] * 3, [(3, 6), (3, 3), (3, 3)], [(3, 6), (3, 6)]]
    assert shape.widths == [16, 40, 80, 112, 960]


@pytest.mark.parametrize("name", MNIST5K.references)
def test_a_reference_has_its_shape_and_the_cost_that_is_asked_for(name):
    shape = MNIST5K.references[name]
    indices = nas_experiments.reference_indices(MNIST5K.space, shape, 0.3, 0.05)
    spec = mobile_classifier_factory.get_model_spec(MNIST5K.space, indices=indices)
    assert layers_of(spec)[1:4] == shape.layers
    cost = network_cost.network_cost(spec, (28, 28, 1), 10).madds
    assert cost == pytest.approx(3e5, rel=0.05)


def test_a_reference_has_the_proportions_of_its_widths():
    shape = nas_experiments.Shape([[(3, 1)]] * 3, (8, 8, 8, 16, 64))
    indices = mnist_search_space.indices_of(shape.layers, (8, 8, 8, 16, 64))
    spec = mobile_classifier_factory.get_model_spec(MNIST5K.space, indices=indices)
    cost = network_cost.network_cost(spec, (28, 28, 1), 10).madds / 1e6
    assert nas_experiments.reference_indices(MNIST5K.space, shape, cost, 0.2) == indices


def test_a_reference_that_cannot_be_as_small_is_as_small_as_it_can_be():
    shape = MNIST5K.references["all_5x5_expansion_6"]
    indices = nas_experiments.reference_indices(MNIST5K.space, shape, 0.01, 0.05)
    spec = mobile_classifier_factory.get_model_spec(MNIST5K.space, indices=indices)
    assert widths_of(spec) == [4, 4, 4, 4, 16]


# Latency.


def test_a_latency_is_that_at_the_speed_of_the_fit(monkeypatch):
    # The machine is twice as slow as it was when the reference network took 1.25 ms.
    asked = []
    monkeypatch.setattr(timing, "measure_group", lambda *args: asked.append(args) or ([4.0], 2.5))
    model = nas_searches.latency_model()
    other = [0] * len(nas_searches.INDICES)
    figures = nas_latency.figures(model, 1.6, other, rounds=7)
    assert (figures["latency_ms"], figures["latency_target_ms"]) == (2.0, 1.6)
    assert figures["latency_off_target"] == pytest.approx(0.25)
    [([spec], reference, setting, _)] = asked
    assert spec == mobile_classifier_factory.get_model_spec(model.ssd, indices=other)
    assert reference == mobile_classifier_factory.get_model_spec(
        model.ssd, indices=nas_searches.INDICES
    )
    assert (setting.threads, setting.rounds, setting.batch_size) == (2, 7, 1)
    # A ms per 10,000 MAdds.
    madds = network_cost.network_cost(spec, (8, 8, 1), 10).madds
    assert figures["latency_estimate_ms"] == pytest.approx(madds / 1e4)


def test_the_target_is_the_middle_of_random_networks(monkeypatch):
    monkeypatch.setattr(nas_latency, "estimate", lambda model, indices: indices[0])
    assert nas_latency.target_of(None, iter([[3.0], [9.0], [1.0]])) == 3.0


def test_a_search_for_a_latency_has_the_fitted_model_and_its_target(tmp_path, monkeypatch):
    args = argparse.Namespace(out=tmp_path, preset="digits", quick=True)
    model, searched = nas_searches.latency_model(), []
    monkeypatch.setattr(nas_latency, "fit", lambda args, space: model)
    monkeypatch.setattr(nas_latency, "measure", lambda model, indices, rounds: 1.0)

    def search(args, strategy, seed, directory, **given):
        searched.append((directory, given))
        return types.SimpleNamespace(indices=nas_searches.INDICES), 5.0

    monkeypatch.setattr(nas_search_runs, "run", search)
    monkeypatch.setattr(nas_trainings, "train", lambda args, indices: {"indices": indices})
    text = ":".join(map(str, nas_searches.INDICES))
    figures = nas_quality._search_for_latency(args, [text])
    [(directory, given)] = searched
    assert directory == tmp_path / "latency" / "search"
    assert given["cost_model"] == [str(tmp_path / "latency" / "cost.json")]
    assert given["rl_cost_model_target"] == figures["latency_target_ms"]
    assert figures["indices"] == text


# Pictures.


def line(name, test=0.9, madds=1000):
    return {"network": name, "test": test, "madds": madds}


LINES = [
    line("search 0", 0.95),
    *(line(f"random {number}", 0.8 + 0.02 * number) for number in range(3)),
    line("reference mobilenet_v2", 0.9, 1200),
    {"welch_p": 0.01, "best_of_k": 0.84, "affordable": 2.4, "target_madds": 1000},
    line("latency search"),
]


def test_a_picture_shows_every_network(tmp_path):
    file, picture = tmp_path / "lines.jsonl", tmp_path / "picture.svg"
    file.write_text("A remark.\n" + "\n".join(map(json.dumps, LINES)))
    networks, comparison = nas_pictures.read(file.read_text())
    assert {kind: list(each) for kind, each in networks.items()} == {
        "search": ["0"],
        "random": ["0", "1", "2"],
        "reference": ["mobilenet_v2"],
    }
    by_cost, ranked = nas_pictures.draw(networks, comparison).axes
    shown = [tuple(map(float, at)) for dots in by_cost.collections for at in dots.get_offsets()]
    wanted = [(1, 80), (1, 82), (1, 84), (1, 95), (1.2, 90)]  # thousands, %
    np.testing.assert_allclose(sorted(shown), wanted)
    ranks = {
        dots.get_label(): [tuple(map(float, at)) for at in dots.get_offsets()]
        for dots in ranked.collections
    }
    np.testing.assert_allclose(ranks["found by searches"], [(1, 95)])
    np.testing.assert_allclose(ranks["published shapes"], [(2, 90)])
    nas_pictures.main([str(file), str(picture)])
    drawn = picture.read_bytes()
    nas_pictures.main([str(file), str(picture)])
    assert picture.read_bytes() == drawn


def test_a_picture_shows_how_controllers_decided():
    entropies = [{"0": 9.0, "1000": 2.0, "200": 8.0}, {"0": 9.0, "1000": 7.0}]
    searches = [
        {**line(f"search {number}", 0.95 - 0.1 * number), "entropy": entropy}
        for number, entropy in enumerate(entropies)
    ]
    text = "\n".join(map(json.dumps, [*searches, *LINES[1:]]))
    _, _, by_step, _ = nas_pictures.draw(*nas_pictures.read(text)).axes
    shown = [drawn.get_xydata().tolist() for drawn in by_step.lines]
    assert shown == [[[0, 9], [200, 8], [1000, 2]], [[0, 9], [1000, 7]]]
    better, worse = (sum(drawn.get_color()[:3]) for drawn in by_step.lines)
    assert better < worse  # darker


def test_what_was_not_finished_is_not_drawn():
    with pytest.raises(
        ValueError, match=r"compares, but of these 1 lines none does\. Run it again"
    ):
        nas_pictures.read(json.dumps(LINES[0]))


@pytest.mark.slow
@pytest.mark.thorough
def test_a_quick_comparison_on_mnist_with_a_latency(tmp_path):
    numbers = ["--num_searches=2", "--num_random=2", "--num_trainings=1", "--processes=1"]
    given = ["--preset=mnist5k", "--quick", "--latency", f"--out={tmp_path}", *numbers]
    result = programs.run("-m", "benchmarks.nas_quality", *given)
    assert result.returncode == 0, result.stderr
    lines = [json.loads(text) for text in result.stdout.splitlines() if text.startswith("{")]
    names = [one.get("network") for one in lines]
    references = [f"reference {name}" for name in MNIST5K.references]
    assert names == ["search 0", "search 1", "random 0", "random 1", *references, None] + [
        "latency search"
    ]
    assert set(lines[-2]["references"]) == set(MNIST5K.references)
    assert lines[-1]["latency_ms"] > 0
    # It is at its end, and says the same of all networks again.
    again = programs.run("-m", "benchmarks.nas_quality", *given)
    number = len(names) - 2
    assert again.stdout.splitlines()[:number] == result.stdout.splitlines()[:number]
    other = programs.run("-m", "benchmarks.nas_quality", *given, "--target=0.3")
    assert other.returncode != 0
    assert "rl_cost_model_target" in other.stderr
