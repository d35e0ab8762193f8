"""The benchmark of the spread of random networks: its statistics, its arguments, and a run."""

import json

import numpy as np
import pytest

import programs
from benchmarks import nas_experiments, nas_spread, nas_statistics
from benchmarks.nas_experiments import reference_indices
from examples.nas_search import mobile_classifier_factory
from examples.nas_search.costs import network_cost

PULSES = nas_experiments.EXPERIMENTS["pulses"]


def test_components_of_the_variance_are_those_of_an_analysis_of_variance():
    # Trainings differ by ±0.01 and ±0.02 from the means 0.4 and 0.8.
    got = nas_statistics.variance_components([[0.39, 0.41], [0.78, 0.82]])
    within = (2 * 0.01**2 + 2 * 0.02**2) / 2
    # The variance of the means, 0.08, has half of that of a training in it.
    assert got == pytest.approx(((0.08 - within / 2) ** 0.5, within**0.5))


def test_components_are_found_that_accuracies_are_made_with():
    random = np.random.RandomState(0)
    accuracies = 0.9 + random.normal(0, 0.03, [4000, 1]) + random.normal(0, 0.01, [4000, 3])
    between, within = nas_statistics.variance_components(accuracies)
    assert (between, within) == pytest.approx((0.03, 0.01), rel=0.05)


def test_networks_that_trainings_explain_do_not_differ():
    figures = nas_statistics.spread([[0.8, 0.9], [0.9, 0.8], [0.85, 0.85]])
    assert figures["between_sd"] == figures["ratio"] == 0
    assert (figures["networks"], figures["trainings"]) == (3, 2)
    assert (figures["mean"], figures["min"], figures["max"]) == pytest.approx((0.85, 0.85, 0.85))


def test_an_interval_has_the_ratio_in_it_and_is_narrower_with_more_networks():
    random = np.random.RandomState(1)
    accuracies = random.normal(0, 0.05, [64, 1]) + random.normal(0, 0.01, [64, 3])
    lengths = []
    for number in (8, 64):
        figures = nas_statistics.spread(accuracies[:number], num_draws=500)
        low, high = figures["ratio_95"]
        assert low < figures["ratio"] == figures["between_sd"] / figures["within_sd"] < high
        lengths.append(high - low)
    assert lengths[1] < lengths[0] / 1.5


def test_trainings_that_never_differ_have_no_ratio():
    figures = nas_statistics.spread([[0.8, 0.8], [0.9, 0.9]])
    assert (figures["ratio"], figures["ratio_95"]) == (None, None)
    assert figures["between_sd"] == pytest.approx(0.005**0.5)


@pytest.mark.parametrize("name", ["num_networks", "num_trainings"])
def test_one_network_and_one_training_have_no_spread(name, capsys):
    with pytest.raises(SystemExit):
        nas_spread.main([f"--{name}=1"])
    assert f"--{name} must be at least 2, as one alone has no spread" in capsys.readouterr().err


@pytest.mark.parametrize("name", PULSES.references)
def test_a_reference_for_sequences_has_its_shape_and_about_the_cost(name):
    shape = PULSES.references[name]
    indices = reference_indices(PULSES.space, shape, PULSES.target, 0.05)
    spec = mobile_classifier_factory.get_model_spec(PULSES.space, indices=indices)
    cost = network_cost.network_cost(spec, (1, 128, 1), 20).madds
    assert cost == pytest.approx(1e6 * PULSES.target, rel=0.1)
    [stem] = spec.blocks[0].layers[0].kernel_size.choices
    assert stem == (1, shape.layers.stem)
    first, wanted = spec.blocks[1].layers[0], shape.layers.blocks[1][0]
    assert first.kernel_size.choices == [(1, wanted.length)]
    assert first.use_squeeze_and_excite.choices == [wanted.squeeze]


@pytest.mark.slow
@pytest.mark.thorough
def test_a_quick_spread_of_two_networks(tmp_path):
    numbers = ["--num_networks=2", "--num_trainings=2", "--processes=1"]
    args = ["-m", "benchmarks.nas_spread", "--quick", f"--out={tmp_path}", *numbers]
    result = programs.run(*args)
    assert result.returncode == 0, result.stderr
    *networks, figures = [
        json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")
    ]
    assert [network["network"] for network in networks] == ["random 0", "random 1"]
    low, high = 0.95e6 * PULSES.target, 1.05e6 * PULSES.target
    assert all(low <= network["madds"] <= high for network in networks)
    tests = [[run["test"] for run in network["runs"]] for network in networks]
    assert figures["mean"] == pytest.approx(np.mean(tests))
    assert (figures["networks"], figures["trainings"], figures["preset"]) == (2, 2, "pulses")
    assert figures["tf"] and figures["python"]
    # Networks that are trained already are not trained again.
    again = [json.loads(line) for line in programs.run(*args).stdout.splitlines()]
    assert again[:2] == networks
