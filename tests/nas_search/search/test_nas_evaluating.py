"""Searches by `random` and `evolution`: exact after interruptions, and their rewards are right."""

import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search import mobile_classifier_factory, mobile_cost_model, rewards, schema_io
from examples.nas_search.commands import PROGRAM
from examples.nas_search.reports import search_analysis
from examples.nas_search.search import search_loop, search_settings, strategies
from examples.nas_search.search.shared_weights import SharedWeights
from examples.nas_search.search.strategies import evaluating, history
from examples.nas_search.training import train_settings
from examples.runs.flags import SettingsError
from nas_search import nas_supernets

FIRST, LAST, TOWERS = 3, 9, 2


def make_params(directory, strategy, **changes):
    given = {
        "preset": "digits",
        "num_towers": TOWERS,
        "max_global_step": LAST,
        "supernet_steps_fraction": 0.35,
        "train_batch_size": 100,
        "strategy": strategy,
        **({"evolution_population_size": 4, "evolution_sample_size": 2} if "e" in strategy else {}),
        **changes,
    }
    return search_settings.resolve(checkpoint_dir=str(directory), **given)


def write_first_part(directory, strategy):
    """Writes what the first part of a search leaves, with random weights; returns its settings."""
    params = make_params(directory, strategy)
    assert params["supernet_steps"] == FIRST
    search_settings.save(params)
    schema_io.save(
        mobile_classifier_factory.get_model_spec(params["ssd"]), str(directory), "model_spec.json"
    )
    nas_supernets.save_weights(directory, nas_supernets.digits(), [1, 8, 8, 1], step=FIRST)
    return params


def without_seconds(directory):
    evaluations = history.read(str(directory))
    assert all(each.seconds > 0 for each in evaluations)
    return [each._replace(seconds=0) for each in evaluations]


class StopAfter:
    """Asks to stop after some steps, as a signal does."""

    def __init__(self, steps):
        self._steps = steps

    def catch(self):
        pass

    @property
    def is_stopped(self):
        self._steps -= 1
        return self._steps < 0


@pytest.mark.parametrize("strategy", ["random", "evolution"])
def test_a_search_that_was_interrupted_goes_on_exactly(tmp_path, strategy):
    (tmp_path / "whole").mkdir()
    (tmp_path / "parts").mkdir()
    params = write_first_part(tmp_path / "whole", strategy)
    assert search_loop.run(params)
    whole = without_seconds(tmp_path / "whole")
    assert [each.position for each in whole] == list(range(TOWERS * (LAST - FIRST)))
    assert [each.step for each in whole] == [s for s in range(FIRST + 1, LAST + 1) for _ in "ab"]

    params = write_first_part(tmp_path / "parts", strategy)
    assert not evaluating.evaluate(params, StopAfter(4))
    assert strategies.steps_done(str(tmp_path / "parts"), params) == FIRST + 4
    path = tmp_path / "parts" / history.NAME
    path.write_text(path.read_text()[:-5])  # It was killed while it wrote the last network.
    assert search_loop.run(params)
    assert without_seconds(tmp_path / "parts") == whole
    assert search_loop.run(params)  # There is nothing left to do.
    assert without_seconds(tmp_path / "parts") == whole
    check_rewards(params, whole)
    check_results(tmp_path / "parts", whole)


def check_rewards(params, evaluations):
    """Checks what is recorded of networks against the functions of a search."""
    networks = [each.indices for each in evaluations]
    with SharedWeights(params) as shared:
        np.testing.assert_allclose(
            [each.accuracy for each in evaluations], shared.accuracies(networks), atol=1e-6
        )
    (target,) = params["rl_cost_model_target"]
    for each in evaluations[:3]:
        cost = mobile_cost_model.estimate_cost(each.indices, params["ssd"])
        assert each.costs == (pytest.approx(cost),)
        with tf.Graph().as_default(), tf.Session() as session:
            parts = rewards.reward_for_single_cost_model(
                each.accuracy, "abs", cost, target, params["rl_cost_model_exponent"]
            )
            assert each.reward == pytest.approx(session.run(parts["rl_reward"]), abs=1e-5)
    assert len({each.reward for each in evaluations}) > 3


def check_results(directory, evaluations):
    """Checks that the network found is that of the analysis, and that which is trained."""
    best = max(evaluations, key=lambda each: each.reward)
    analysis = search_analysis.analyze(str(directory))
    assert analysis.indices == list(best.indices)
    assert analysis.global_step == LAST
    params = train_settings.resolve(search_dir=str(directory), checkpoint_dir="unused")
    assert params["indices"] == ":".join(map(str, best.indices))


def test_both_parts_run_from_the_command_line(tmp_path, capsys):
    """A history of a search that was lost before its first checkpoint does not count."""
    directory = tmp_path / "search"
    directory.mkdir()
    (directory / history.NAME).write_text("{}\n")
    words = ["search", "--preset=digits", "--strategy=random", "--num_towers=2"]
    words += ["--max_global_step=3", "--supernet_steps_fraction=0.4", "--train_batch_size=8"]
    words += ["--rl_batch_size_multiplier=16"]
    assert PROGRAM.main([*words, f"--checkpoint_dir={directory}"]) == 0
    captured = capsys.readouterr()
    assert "At its end, step 3. What it found:" in captured.out
    assert "evaluation: step 3 of 3" in captured.err
    assert [each.step for each in history.read(str(directory))] == [2, 2, 3, 3]
    checkpoint = tf.train.load_checkpoint(str(directory))
    logits = [name for name in checkpoint.get_variable_to_shape_map() if "rl_controller" in name]
    logits = [name for name in logits if name.startswith("rl_controller/independent_sample/")]
    assert len([name for name in logits if not checkpoint.get_tensor(name).any()]) >= 14
    assert PROGRAM.main(["analyze", f"--dirname={directory}", "--output_format=json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["global_step"] == 3
    assert (found["probability"], found["entropy"], found["nodes"][0]["entropy"]) == (None,) * 3


def test_a_cluster_is_refused(tmp_path, monkeypatch):
    task = {"cluster": {"chief": ["a:1"], "ps": ["b:1"]}, "task": {"type": "chief", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(task))
    params = make_params(tmp_path, "random")
    with pytest.raises(SettingsError, match="A search with --strategy random trains on the devi"):
        search_loop.run(params)
