"""The plan of a front, and requests that are refused before anything is trained."""

import json
import re

import pytest

from examples.nas_search import mobile_cost_model
from examples.nas_search.fronts import front_settings
from examples.runs.errors import UserError
from examples.runs.flags import SettingsError
from nas_search import nas_fronts, nas_searches


def keep(plan):
    """Writes the settings of a plan as a front that begins does."""
    plan.out.mkdir()
    (plan.out / front_settings.SETTINGS).write_text(json.dumps(plan.settings))


def test_a_plan_has_a_search_for_each_target_and_seed(tmp_path):
    plan = nas_fronts.plan(tmp_path / "out", targets=[0.02, 0.006], num_seeds=2, seed=5, epochs=3)
    assert [(each.target, each.number) for each in plan.searches] == [
        *((0.006, 0), (0.006, 1), (0.02, 0), (0.02, 1))
    ]
    assert [each.params["seed"] for each in plan.searches] == [5, 6, 5, 6]
    assert [each.params["rl_cost_model_target"] for each in plan.searches[1:3]] == [[0.006], [0.02]]
    assert len({each.params["checkpoint_dir"] for each in plan.searches}) == 4
    # As the command `search` has it with this preset; epochs are those of trainings.
    assert plan.searches[0].params["epochs"] == 120
    assert plan.training["epochs"] == 3
    assert plan.training["num_towers"] == 1
    assert plan.cost_range == pytest.approx((0.005032, 0.047776))
    assert not plan.out.exists()


def test_random_networks_cost_about_as_much(tmp_path):
    plan = nas_fronts.plan(tmp_path / "out", num_random=15, window=0.03)
    for target, networks in plan.random.items():
        assert len(set(networks)) == 15
        for text in networks:
            indices = [int(index) for index in text.split(":")]
            cost = mobile_cost_model.estimate_cost(indices, plan.model.ssd)
            assert abs(cost / target - 1) <= 0.03
    fewer = nas_fronts.plan(tmp_path / "out", num_random=3, window=0.03)
    assert fewer.random[0.01] == plan.random[0.01][:3]
    other = nas_fronts.plan(tmp_path / "out", num_random=3, window=0.03, seed=1)
    assert other.random[0.01] != fewer.random[0.01]


def test_costs_are_latencies_of_a_file(tmp_path):
    # A ms per 10,000 multiply-adds.
    file = nas_searches.write_latency_model(tmp_path / "cost.json")
    plan = nas_fronts.plan(tmp_path / "out", cost_model=file, targets=[0.6, 2.0])
    assert plan.cost_range == pytest.approx((0.5032, 4.7776))
    assert plan.model.unit_and_device == "ms on Abacus 1, batch 1, 2 threads"
    assert plan.searches[0].params["cost_model_files"] == [file]
    keep(plan)
    nas_searches.write_latency_model(tmp_path / "cost.json", device="Abacus 2")
    with pytest.raises(SettingsError, match=r"differ: cost_model was .*Abacus 1.*Abacus 2"):
        nas_fronts.plan(tmp_path / "out", cost_model=file, targets=[0.6, 2.0])


def test_costs_are_weights(tmp_path):
    plan = nas_fronts.plan(tmp_path / "out", cost_model="params", targets=[0.001, 0.002])
    assert plan.model.unit == "million parameters"
    assert plan.cost_range[0] < 0.001 < 0.002 < plan.cost_range[1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"targets": [0.01]}, "two different costs or more, but --targets are 0.01. For a single"),
        ({"targets": [0.01, 0.01]}, "two different costs or more, but --targets are 0.01 0.01."),
        ({"targets": [0.01, 0.02, 0.01]}, "must name each cost once, but are 0.01 0.01 0.02. For"),
        ({"targets": None}, "Pass --targets: costs to search at"),
        (
            {"num_random": 2, "num_seeds": 3},
            "as many random networks for each target as searches, so that as many can be "
            "compared, but --num_random is 2 and --num_seeds 3. Raise",
        ),
        (
            {"targets": [0.005, 0.01, 0.06]},
            "--targets must be costs that networks of digits_search have, 0.005032 to 0.047776 "
            "million MAdds, but 0.005 and 0.06 are not among them. Pass others.",
        ),
        ({"targets": [0.01, 0.05]}, "0.05 is not among them"),
        ({"targets": [0.01, 0.02], "num_random": 500}, "--num_random must be as many different"),
        ({"window": 2.0}, "--window must be in [0, 1], but is 2.0"),
        ({"cost_model": "nothing.json"}, "--cost_model must be one of ['madds', 'params'] or a"),
        ({"epochs": 0}, "--epochs must be at least 1, but is 0"),
        ({"max_global_steps": 3}, "There is no setting called max_global_steps"),
    ],
)
def test_what_cannot_be_done_is_refused(tmp_path, given, message):
    with pytest.raises(UserError, match=re.escape(message)):
        nas_fronts.plan(tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"targets": [0.006, 0.02]}, "targets was [0.006, 0.01, 0.02] and is [0.006, 0.02]"),
        ({"num_random": 4}, "num_random was 3 and is 4"),
        ({"num_trainings": 2}, "num_trainings was 1 and is 2"),
        ({"epochs": 2}, "epochs was null and is 2"),
        ({"cost_model": "params", "targets": [0.001, 0.002]}, 'cost_model was "madds" and is "par'),
        ({"num_towers": 1}, "num_towers was null and is 1"),
    ],
)
def test_a_front_resumes_with_its_settings(tmp_path, change, message):
    keep(nas_fronts.plan(tmp_path / "out"))
    nas_fronts.plan(tmp_path / "out")
    nas_fronts.plan(tmp_path / "out", reference_accuracy=0.1)  # which trains nothing else
    with pytest.raises(SettingsError, match=re.escape(message)) as raised:
        nas_fronts.plan(tmp_path / "out", **change)
    assert "Pass the old values, or name a new --out." in str(raised.value)


def test_a_file_is_no_directory(tmp_path):
    (tmp_path / "file").write_text("a text")
    with pytest.raises(SettingsError, match=r"--out must be a directory, but .*file is a file"):
        nas_fronts.plan(tmp_path / "file")


@pytest.mark.parametrize("contents", ["{", "[]"])
def test_settings_that_cannot_be_read_are_refused(tmp_path, contents):
    (tmp_path / front_settings.SETTINGS).write_text(contents)
    with pytest.raises(SettingsError, match=r"must hold the settings of a front, but cannot be"):
        nas_fronts.plan(tmp_path)
