"""The search's benchmarks: their statistics by other ways to compute them, and a run of each."""

import argparse
import itertools
import json
import types

import numpy as np
import pytest

import programs
from benchmarks import (
    nas_controllers,
    nas_quality,
    nas_search_runs,
    nas_speed,
    nas_statistics,
    nas_steps,
    nas_strategies,
    nas_trainings,
)
from examples.data.sources.mnist5k import Mnist5k
from examples.nas_search.fronts import alone
from examples.nas_search.search import search_loop, search_settings
from examples.nas_search.training import mobile_train_eval, train_settings
from examples.runs.flags import SettingsError
from nas_search import nas_searches

NETWORK = ":".join(map(str, nas_searches.INDICES))


def network(test, validation=0.5, madds=10_000):
    run = {"test": test, "validation": validation}
    return {**run, "madds": madds, "seconds": 2.0, "runs": [run, {"test": 0.5, "validation": 0.5}]}


RANDOM = [
    network(0.90, 0.8, 9_600),
    network(0.92, 0.9, 10_100),
    network(0.88, 0.7, 9_900),
    network(0.95, 0.6, 10_400),
]


def test_the_comparison_is_that_of_means_and_ranks():
    found = [network(0.94), network(0.96)]
    log_probabilities = [[-2.0, -1.0, -3.0, -0.5], [-0.5, -3.0, -1.0, -2.0]]
    got = nas_statistics.compare(found, RANDOM, {}, log_probabilities, search_seconds=6.0)
    assert got["search_mean"] - got["random_mean"] == pytest.approx(0.95 - 0.9125)
    assert (got["search_min"], got["random_max"]) == (0.94, 0.95)
    # Better than 3 of 4, and than all.
    assert (got["percentile_mean"], got["percentile_min"]) == (87.5, 75)
    # Two of the 15 pairs of places that two of six can have are at least as good: first and
    # second, or first and third.
    assert got["mann_whitney_p"] == pytest.approx(2 / 15)
    # t = 0.0375 / √(0.0002 / 2 + 0.00089167 / 4) = 2.087, with 3.925 degrees of freedom.
    assert got["welch_p"] == pytest.approx(0.05326, abs=1e-5)
    # Ranks 2, 3, 1, 4: the first controller has the same, the second 4, 1, 3, 2: 1 − 6 · 16 / 60.
    assert got["preference"] == pytest.approx(np.mean([1.0, -0.6]))
    assert got["preference_min"] == pytest.approx(-0.6)
    assert (got["affordable"], got["searches"], got["random_networks"]) == (4.0, 2, 4)
    # The one with the best validation accuracy; in the second training all are alike.
    assert got["best_of_k"] == pytest.approx((0.92 + 0.5) / 2)
    # Each with the test accuracy of the other training; of those that are alike, the first counts.
    assert got["best_of_k_again"] == pytest.approx((0.5 + 0.90) / 2)


def test_a_strategy_without_a_controller_prefers_nothing():
    found = [network(0.94), network(0.96)]
    with_controllers = nas_statistics.compare(found, RANDOM, {}, [[1, 2, 3, 4]] * 2, 6.0)
    without = nas_statistics.compare(found, RANDOM, {}, None, 6.0)
    assert {key for key in without if without[key] != with_controllers[key]} == {
        *("preference", "preference_min", "preference_of_mean", "preference_of_mean_p")
    }
    assert without["preference"] is None


def test_a_difference_that_cost_explains_is_none_at_equal_cost():
    def of(madds):
        return network(0.1 * np.log(madds), madds=madds)

    random = [of(madds) for madds in (9_000, 9_500, 10_000, 10_500)]
    # A little noise, as a difference of zeros has no test.
    random[0]["test"] += 1e-9
    got = nas_statistics.compare([of(20_000), of(21_000)], random, {}, [[0, 1, 2, 3]] * 2, 1.0)
    assert got["search_mean"] > got["random_max"]
    assert got["at_equal_cost"] == pytest.approx(0, abs=1e-7)


@pytest.mark.parametrize("number", [1, 2, 3, 4, 9])
def test_the_best_of_some_is_the_mean_over_all_ways_to_draw_them(number):
    draws = itertools.combinations(RANDOM, min(number, len(RANDOM)))
    want = np.mean([max(draw, key=lambda one: one["validation"])["test"] for draw in draws])
    assert nas_statistics.best_of(number, RANDOM) == pytest.approx(want)


def test_a_reference_is_compared_with_by_its_trainings():
    # Three searches of 0.94, 0.96 and 0.95 against trainings of 0.93 and 0.95.
    reference = {"test": 0.94, "madds": 7, "runs": [{"test": 0.93}, {"test": 0.95}]}
    got = nas_statistics.beside([network(0.94), network(0.96), network(0.95)], reference)
    # Better are two of three. t = 0.01 / √(0.0001 / 3 + 0.0002 / 2) = 0.866, with 1.75 degrees of
    # freedom.
    assert (got["test"], got["madds"], got["better"]) == (0.94, 7, pytest.approx(2 / 3))
    assert got["welch_p"] == pytest.approx(0.247, abs=0.003)
    compared = nas_statistics.compare(
        [network(0.94), network(0.96), network(0.95)], RANDOM, {"b1": reference}, [[1, 2, 3, 4]], 1
    )
    assert compared["references"] == {"b1": got}


def test_one_training_of_a_reference_says_nothing_of_chance():
    reference = {"test": 0.9, "madds": 7, "runs": [{"test": 0.9}]}
    assert nas_statistics.beside([network(0.94), network(0.96)], reference)["welch_p"] is None


@pytest.fixture
def args(tmp_path):
    """Arguments of a benchmark of two searches and a random network."""
    numbers = {"num_searches": 2, "num_random": 1, "num_trainings": 1}
    shared = {"preset": "digits", "target": 0.01, "window": 0.05, "quick": True}
    return argparse.Namespace(out=tmp_path, strategy="reinforce", finalists=1, **shared, **numbers)


def test_what_was_stopped_is_no_result(args, monkeypatch):
    monkeypatch.setattr(search_loop, "run", lambda params: False)
    monkeypatch.setattr(mobile_train_eval, "train", lambda params: False)
    for run in (
        lambda: nas_quality._search(args, 0),
        lambda: nas_trainings.train(args, NETWORK),
    ):
        # A second time, too.
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                run()
    assert not list(args.out.rglob("figures.json"))


def test_the_time_of_all_parts_counts(tmp_path, monkeypatch):
    clock = itertools.count(0, 10)
    monkeypatch.setattr(alone.time, "process_time", lambda: next(clock))
    params = {"checkpoint_dir": str(tmp_path)}
    with pytest.raises(KeyboardInterrupt):
        alone.finish(lambda params: False, params)
    assert alone.finish(lambda params: True, params) == 20
    assert alone.finish(lambda params: pytest.fail("It is done."), params) == 20


@pytest.mark.parametrize("change", [{"quick": False}, {"target": 0.02}, {"preset": "mnist5k"}])
def test_searches_of_other_settings_are_refused(args, change, monkeypatch):
    images = np.arange(200 * 784).reshape(200, 28, 28).astype(np.uint8)
    load = staticmethod(lambda: (images, np.arange(200) % 10))
    monkeypatch.setattr(Mnist5k, "load", load)
    given = {"num_towers": 2, "seed": 1, "rl_cost_model_target": args.target}
    directory = args.out / "search_1"
    params = search_settings.resolve(
        preset="digits", checkpoint_dir=str(directory), max_global_step=20, **given
    )
    search_settings.save(params)
    nas_searches.save_checkpoint(directory)
    (directory / "seconds.json").write_text("[1.0, true]")
    with pytest.raises(SettingsError, match="differ"):
        nas_quality._search(argparse.Namespace(**{**vars(args), **change}), 1)


def test_trainings_of_other_settings_are_refused(args):
    indices = NETWORK
    directory = args.out / "alone" / indices.replace(":", "") / "0"
    params = train_settings.resolve(
        ssd=nas_searches.SSD,
        indices=indices,
        checkpoint_dir=str(directory),
        epochs=1,
        num_towers=1,
    )
    search_settings.save(params)
    nas_searches.save_checkpoint(directory)
    (directory / "figures.json").write_text(json.dumps({**network(0.9), "runs": 0}))
    assert nas_trainings.train(args, indices)["test"] == 0.9
    args.quick = False
    with pytest.raises(SettingsError, match="max_global_step was"):
        nas_trainings.train(args, indices)


class HerePool:
    """A pool whose only process is this one."""

    map = staticmethod(map)


def test_of_the_finalists_the_best_by_validation_is_found(args, monkeypatch):
    # By network: the accuracy in the training that decides; others are worse.
    validation = {"a": 0.5, "b": 0.7, "c": 0.6, "d": 0.1}
    trainings = []

    def train(args, indices, seed=0):
        trainings.append((indices, seed, args.num_trainings))
        test = validation[indices] - 0.05 * seed
        return {"indices": indices, "validation": validation[indices], "test": test, "seconds": 9.0}

    monkeypatch.setattr(nas_trainings, "train", train)
    args.finalists, args.num_trainings = 3, 2
    searches = [
        {"indices": "a", "first": ["a", "b", "c"], "seconds": 100.0},
        {"indices": "d", "first": ["d", "c"], "seconds": 200.0},
    ]
    first, second = nas_quality._decided(args, HerePool, searches)
    assert trainings == [(indices, 0, 1) for indices in "abcd"]
    assert (first["indices"], second["indices"]) == ("b", "c")
    assert (first["seconds"], second["seconds"]) == (118.0, 209.0)
    assert [one["indices"] for one in first["finalists"]] == ["a", "b", "c"]
    again = dict(nas_quality._trained_again(args, HerePool, ["b", "c", "b"]))
    assert trainings[4:] == [("b", 1, 2), ("c", 1, 2)]
    assert again["b"]["test"] == pytest.approx(0.65)
    # Without finalists the search decides alone.
    args.finalists = 1
    undecided = nas_quality._decided(args, HerePool, searches)
    assert [one["indices"] for one in undecided] == ["a", "d"]
    assert undecided[0]["finalists"] is None and len(trainings) == 6
    assert dict(nas_quality._trained_again(args, HerePool, ["a"]))["a"]["test"] == 0.5


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("strategy", ["reinforce", "evolution"])
def test_a_quick_comparison_of_networks(tmp_path, strategy):
    numbers = ["--num_searches=2", "--num_random=2", "--num_trainings=1", "--processes=1"]
    args = ["-m", "benchmarks.nas_quality", "--quick", f"--out={tmp_path}", *numbers]
    args += [f"--strategy={strategy}", "--finalists=2"]
    result = programs.run(*args)
    assert result.returncode == 0, result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    assert [line.get("network") for line in lines] == [
        *("search 0", "search 1", "random 0", "random 1", None)
    ]
    assert all(9_500 <= line["madds"] <= 10_500 for line in lines[2:4])
    assert lines[-1]["random_mean"] == np.mean([line["test"] for line in lines[2:4]])
    has_controller = strategy == "reinforce"
    assert [("entropy" in line) for line in lines[:2]] == [has_controller] * 2
    assert (lines[-1]["preference"] is not None) == has_controller


def test_strategies_are_compared_with_random_networks_and_with_each_other():
    found = {"reinforce": [0.94, 0.96], "random": [0.90, 0.92]}
    got = nas_statistics.strategies(found, [0.89, 0.91, 0.93, 0.95])
    ours, theirs = got["reinforce"], got["random"]
    assert (ours["mean"], ours["min"], ours["max"], ours["searches"]) == (0.95, 0.94, 0.96, 2)
    # Better than 3 and 4 of 4; than 1 and 2 of 4.
    assert (ours["percentile_mean"], theirs["percentile_mean"]) == (87.5, 37.5)
    assert ours["against"]["random"]["difference"] == pytest.approx(0.04)
    assert theirs["against"]["reinforce"]["difference"] == pytest.approx(-0.04)
    # t = 0.04 / √(2 · 0.0002 / 2) = 2.83, with 2 degrees of freedom.
    for each in (ours["against"]["random"], theirs["against"]["reinforce"]):
        assert each["welch_p"] == pytest.approx(0.1056, abs=1e-4)
    assert ours["welch_p"] < 0.5 < theirs["welch_p"]
    assert "reinforce" not in ours["against"]


def test_a_strategy_makes_as_many_steps_as_its_time_allows():
    # 5 seconds to begin, and 0.01 for each step.
    assert nas_strategies.steps_for(65.0, (200, 600), (7.0, 11.0)) == 6000
    assert nas_strategies.steps_for(6.0, (200, 600), (7.0, 11.0)) == 600  # It has made so many.
    assert nas_strategies.steps_for(65.0, (200, 600), (7.0, 6.9)) == 600  # Noise.


@pytest.mark.parametrize("benchmark", [nas_controllers, nas_strategies])
def test_comparisons_need_two_searches(benchmark, capsys):
    with pytest.raises(SystemExit):
        benchmark.main(["--num_searches=1"])
    assert (
        "--num_searches must be at least 2, as one alone has no spread" in capsys.readouterr().err
    )


@pytest.mark.slow
@pytest.mark.thorough
def test_a_quick_comparison_of_strategies(tmp_path):
    numbers = ["--num_searches=2", "--num_random=2", "--num_trainings=1", "--processes=1"]
    args = ["-m", "benchmarks.nas_strategies", "--quick", f"--out={tmp_path}", *numbers]
    result = programs.run(*args)
    assert result.returncode == 0, result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    named = [line.get("network") or line["strategy"] for line in lines]
    strategies = list(nas_search_runs.STRATEGIES)
    assert named == [f"{each} {number}" for each in strategies for number in range(2)] + strategies
    for number, line in enumerate(lines[6:]):
        networks = lines[2 * number : 2 * number + 2]
        assert line["mean"] == pytest.approx(np.mean([one["test"] for one in networks]))
        assert line["steps"] >= 20 and line["seconds"] > 0
    assert (tmp_path / "search_1").is_dir() and (tmp_path / "evolution_1").is_dir()


def test_variants_change_settings_of_the_preset():
    names = ["preset", "half the rate", "warm-ups toggled", "start toggled"]
    warmups = ("increase_ops_warmup_steps_fraction", "increase_filters_warmup_steps_fraction")
    assert nas_controllers.given_by("digits", names) == {
        "preset": {},
        "half the rate": {"rl_learning_rate": 0.02},
        "warm-ups toggled": dict.fromkeys(warmups, 0.0),
        "start toggled": {"start_at_target": True},
    }
    assert nas_controllers.given_by("pulses", names[2:]) == {
        "warm-ups toggled": dict.fromkeys(warmups, 0.4),
        "start toggled": {"start_at_target": False},
    }


@pytest.mark.slow
@pytest.mark.thorough
def test_a_quick_comparison_of_controllers(tmp_path):
    numbers = ["--num_searches=2", "--num_trainings=1", "--processes=1", f"--out={tmp_path}"]
    args = ["-m", "benchmarks.nas_controllers", "--quick", *numbers]
    result = programs.run(*args, "--variants", "preset", "four times the rate")
    assert result.returncode == 0, result.stderr
    preset, faster = (json.loads(each) for each in result.stdout.splitlines() if each[:1] == "{")
    assert (preset["variant"], faster["given"]) == ("preset", {"rl_learning_rate": 0.16})
    assert preset["entropy_begin"] == pytest.approx(faster["entropy_begin"])
    assert 0 < faster["entropy_end"] < preset["entropy_end"] < preset["entropy_begin"]
    assert preset["decided"] == pytest.approx(1 - preset["entropy_end"] / preset["entropy_begin"])
    assert f"| preset | {preset['entropy_end']:.1f} of {preset['entropy_begin']:.1f} |" in (
        result.stdout
    )
    assert (tmp_path / "controllers" / "four_times_the_rate_1").is_dir()


@pytest.mark.parametrize("engine", ["alone", "all"])
def test_counting_operations_is_no_part_of_building_a_graph(monkeypatch, engine):
    now = [0.0]

    def count(make_spec, params):
        now[0] += 1000
        return 7.0

    clock = types.SimpleNamespace(perf_counter=lambda: now[0], process_time=lambda: now[0])
    monkeypatch.setattr(nas_steps, "time", clock)
    monkeypatch.setattr(nas_steps, "_forward_mflops", count)
    figures = nas_steps.measure(nas_speed.CASES["digits"], engine, networks=2, repeats=0)
    assert (figures["build_s"], figures["build_cpu_s"]) == (0, 0)
    assert figures["forward_mflops"] == 7


@pytest.mark.slow
@pytest.mark.thorough
def test_quick_steps_of_each_kind():
    args = ["-m", "benchmarks.nas_speed", "--quick", "--rounds=1", "--networks=2"]
    result = programs.run(*args, "--cases=digits,build")
    assert result.returncode == 0, result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    kinds = ["search", "alone", "masked", "towers", "all"]
    assert [line["engine"] for line in lines] == [*kinds, "towers"]
    by_kind = {line["engine"]: line for line in lines[:-1]}
    flops = {kind: by_kind[kind]["forward_mflops"] for kind in ("alone", "masked", "all")}
    assert 0 < flops["alone"] <= flops["masked"] < flops["all"]
    assert all(line["step_ms"]["median"] > 0 for line in by_kind.values())
    assert "step_ms" not in lines[-1]
    assert lines[-1]["build_s"]["median"] > 0
    assert "| digits | masked |" in result.stdout
