"""Costs of a search: exact ones, measured ones, and several at once."""

import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
from bodies import matching
from examples.nas_search import mobile_cost_model
from examples.nas_search.commands import PROGRAM
from examples.nas_search.costs import cost_model_io
from examples.nas_search.reports import report, search_analysis
from examples.nas_search.search import model_fn, search_costs, search_settings, search_summaries
from examples.runs.flags import SettingsError
from nas_search import nas_searches
from nas_search.nas_searches import INDICES, SSD, latency_model, write_latency_model

MADDS = mobile_cost_model.estimate_cost(INDICES, SSD)


@pytest.fixture
def file(tmp_path):
    return write_latency_model(tmp_path / "latency.json")


@pytest.fixture
def resolve(tmp_path):
    def resolve_given(**given):
        return search_settings.resolve(**{"checkpoint_dir": str(tmp_path / "run"), **given})

    return resolve_given


def test_a_measured_model_is_named_by_its_device_and_a_hash(resolve, file):
    params = resolve(cost_model=[file])
    (name,) = params["cost_model"]
    assert name.startswith("latency, ms on Abacus 1, batch 1, 2 threads (")
    assert params["cost_model_files"] == [file]
    assert params["rl_cost_model_target"] == [1.0]  # the lower quartile
    assert json.loads(json.dumps(params)) == params
    (cost,) = search_costs.load(params)
    assert (cost.label, cost.weight, cost.target) == ("latency", 1.0, 1.0)
    assert str(cost) == "latency, ms on Abacus 1, batch 1, 2 threads; target 1"
    assert mobile_cost_model.estimate_cost(INDICES, SSD, cost.model) == pytest.approx(100 * MADDS)


def test_several_costs_have_a_weight_and_a_target_each(resolve, file, tmp_path):
    other = write_latency_model(tmp_path / "other.json", "Abacus 2")
    params = resolve(cost_model=[file, "madds", other, "params"])
    assert params["cost_model_weights"] == [0.25] * 4
    costs = search_costs.load(params)
    assert [cost.label for cost in costs] == ["latency", "madds", "latency_2", "params"]
    assert costs[1].target == mobile_cost_model.target_cost(SSD)
    given = {"cost_model_weights": [0.7, 2.0], "rl_cost_model_target": [0.8, 0.01]}
    params = resolve(cost_model=[file, "madds"], **given)
    costs = search_costs.load({**params, "checkpoint_dir": str(tmp_path / "new")})
    assert [(cost.weight, cost.target) for cost in costs] == [(0.7, 0.8), (2.0, 0.01)]
    assert search_costs.suffixes(costs) == ["/latency", "/madds"]
    assert search_costs.suffixes(costs[:1]) == [""]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cost_model": ["nowhere.json"]}, "or a file that `fit-cost` wrote, but there is no 'now"),
        (
            {"cost_model": ["madds", "params"], "cost_model_weights": [1.0]},
            "--cost_model_weights must have a number for each --cost_model, which are 2, but has 1",
        ),
        (
            {"rl_cost_model_target": [1.0, 2.0]},
            "--rl_cost_model_target must have a number for each --cost_model, which are 1, but has",
        ),
        (
            {"cost_model_weights": [0.0]},
            "--cost_model_weights must be greater than 0, but is 0.0. Pass --enable_cost_model=fal",
        ),
        ({"cost_model_weights": [-1.0]}, "--cost_model_weights must be at least 0, but is -1.0"),
    ],
)
def test_what_does_not_fit_is_told(resolve, given, message):
    with pytest.raises(SettingsError, match=matching(message)):
        resolve(**given)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_classes": 7}, "latency.json has num_classes 7 where the search has 10"),
        ({"input_shape": (9, 8, 1)}, "has input_shape (9, 8, 1) where the search has (8, 8, 1)"),
    ],
)
def test_models_of_other_images_are_refused(resolve, tmp_path, changes, message):
    file = write_latency_model(tmp_path / "latency.json", **changes)
    message = f"must be for the space and the images of the search, but…{message}…Fit one"
    with pytest.raises(SettingsError, match=matching(message)):
        resolve(cost_model=[file])


def test_models_of_other_spaces_are_refused(resolve, file):
    message = "has ssd 'digits_search' where the search has 'mobilenet_v2'"
    with pytest.raises(SettingsError, match=matching(message)):
        resolve(cost_model=[file], ssd="mobilenet_v2")


def test_a_broken_file_is_named(resolve, tmp_path):
    (tmp_path / "latency.json").write_bytes(b"\xff{")
    message = "--cost_model: A cost model must be JSON by `fit-cost`…[File …latency.json.]"
    with pytest.raises(SettingsError, match=matching(message)):
        resolve(cost_model=[str(tmp_path / "latency.json")])


def test_a_directory_is_no_cost_model(resolve, tmp_path):
    message = f"--cost_model: A cost model must be a file by `fit-cost`, but '{tmp_path}' cannot be"
    with pytest.raises(SettingsError, match=matching(message)):
        resolve(cost_model=[str(tmp_path)])


def test_the_search_keeps_its_models_and_the_files_may_go(resolve, file, tmp_path):
    params = resolve(cost_model=["madds", file])
    before = search_costs.load(params)
    directory = tmp_path / "run"
    names = ["cost_model.json", "cost_model_2.json"]
    assert sorted(path.name for path in directory.iterdir()) == names
    (tmp_path / "latency.json").unlink()
    after = search_costs.load(params)
    assert list(map(str, after)) == list(map(str, before))
    kept = str(directory / "cost_model_2.json")
    # The copy takes the place of the file.
    again = resolve(cost_model=["madds", kept])
    assert {**again, "cost_model_files": None} == {**params, "cost_model_files": None}


def test_a_changed_file_is_refused_on_resume(resolve, file, tmp_path):
    params = resolve(cost_model=[file])
    search_settings.save(params)
    search_costs.load(params)
    nas_searches.save_checkpoint(tmp_path / "run")
    search_settings.check_same(resolve(cost_model=[file]))
    elsewhere = write_latency_model(tmp_path / "same.json")
    search_settings.check_same(resolve(cost_model=[elsewhere]))
    write_latency_model(tmp_path / "latency.json", bias=7.0)
    changed = resolve(cost_model=[file])
    message = 'differ: cost_model was ["latency, ms on Abacus 1…and is ["latency, ms on Abacus 1'
    with pytest.raises(SettingsError, match=matching(message)):
        search_settings.check_same(changed)
    message = "must match its settings, but…cost_model.json has 'latency, ms…where the search has"
    with pytest.raises(ValueError, match=matching(message)):
        search_costs.load(changed)


def test_a_file_that_changes_before_it_is_copied_is_refused(resolve, file, tmp_path):
    params = resolve(cost_model=[file])
    write_latency_model(tmp_path / "latency.json", bias=7.0)
    message = "must match its settings, but…latency.json has 'latency…changed; name another"
    with pytest.raises(ValueError, match=matching(message)):
        search_costs.load(params)


def test_looking_writes_nothing(resolve, file, tmp_path):
    search_costs.load(resolve(cost_model=[file]), keep=False)
    assert not (tmp_path / "run").exists()


def test_both_costs_make_the_reward_of_the_step(resolve, file):
    params = resolve(
        cost_model=[file, "params"],
        cost_model_weights=[0.25, 1.5],
        rl_cost_model_target=[1.5, 0.002],
        rl_reward_function="mnas",
        train_batch_size=8,
        max_global_step=4,
        num_towers=1,
        use_gradient_sync_barrier=False,
    )
    rows = {"train": 8, "validation": 16}
    random = np.random.RandomState(0)
    images = {k: tf.constant(random.rand(n, 8, 8, 1).astype(np.float32)) for k, n in rows.items()}
    labels = {k: tf.one_hot(random.randint(10, size=n), 10) for k, n in rows.items()}
    build = replicate.replicate_model_fn(
        model_fn.model_fn, devices=params["devices"], per_tower=True
    )
    spec = build(features=images, labels=labels, mode="train", params=params)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        summary, _ = session.run([tf.summary.merge_all(), spec.train_op])
        names = [op.name for op in session.graph.get_operations()]
    values = {each.tag: each.simple_value for each in tf.Summary.FromString(summary).value}
    costs = {tag: value for tag, value in values.items() if "cost" in tag}
    ratios = [costs["rlcontroller/cost_ratio/latency"], costs["rlcontroller/cost_ratio/params"]]
    assert ratios == pytest.approx(
        [
            costs["rlcontroller/estimated_cost/latency"] / 1.5,
            costs["rlcontroller/estimated_cost/params"] / 0.002,
        ]
    )
    factor = np.prod(np.power(ratios, [-0.5 * 0.25, -0.5 * 1.5]))
    assert costs["rlcontroller/cost_adjustment"] == pytest.approx(factor, rel=1e-5)
    reward = values["rlcontroller/validation_accuracy"] * factor
    assert values["rlcontroller/reward"] == pytest.approx(reward, rel=1e-5)
    assert len(costs) == 5
    assert "search/progress/estimated_cost/latency" in names


def write_search(tmp_path):
    file = write_latency_model(tmp_path / "latency.json")
    run = tmp_path / "run"
    given = {"cost_model": [file, "madds"], "rl_cost_model_target": [2.0, 0.02]}
    params = search_settings.resolve(checkpoint_dir=str(run), **given)
    steps = {
        step: {
            **nas_searches.logits(3.0),
            "rlcontroller/estimated_cost/latency": 1.5,
            "rlcontroller/estimated_cost/madds": 0.015,
        }
        for step in (0, 10)
    }
    nas_searches.write_search(run, steps, **params)
    search_costs.load(params)
    (tmp_path / "latency.json").unlink()
    return run


def test_a_search_for_several_costs_is_analysed(tmp_path, capsys):
    run = write_search(tmp_path)
    found = search_analysis.analyze(str(run))
    latency, madds = found.costs
    assert (latency.label, latency.unit, latency.target, latency.weight) == (
        *("latency", "ms", 2.0, 0.5),
    )
    assert latency.estimate == found.cost_model == pytest.approx(100 * MADDS)
    assert (madds.label, madds.estimate) == ("madds", MADDS)
    assert set(found.history) == {"reward", "accuracy", "cost/latency", "cost/madds", "entropy"}
    assert PROGRAM.main(["analyze", f"--dirname={run}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        f"cost latency = {100 * MADDS:.4g} ms on Abacus 1, batch 1, 2 threads; "
        f"{50 * MADDS:.1%} of the target 2; weight 0.5"
    ) in lines
    assert (run / "search.png").exists()


def test_a_sample_is_of_the_first_cost(tmp_path, capsys):
    run = write_search(tmp_path)
    assert PROGRAM.main(["sample", f"--search_dir={run}", "--seed=0"]) == 0
    (network,) = json.loads(capsys.readouterr().out)
    assert 1.98 <= network["cost"] <= 2.02
    (run / "cost_model.json").write_text("{")
    assert PROGRAM.main(["sample", f"--search_dir={run}"]) == 2
    assert "A cost model must be JSON by `fit-cost`" in capsys.readouterr().err


def test_each_cost_has_a_panel_and_a_headline(tmp_path):
    found = search_analysis.analyze(str(write_search(tmp_path)))
    figure = report.pictures(found)["search.png"]()
    panels = {axes.get_ylabel(): [line.get_label() for line in axes.lines] for axes in figure.axes}
    assert "target 2" in panels["latency\n(ms)"]
    assert f"target {found.costs[1].target:.4g}" in panels["madds\n(million MAdds)"]
    page = report.page(found)
    assert f"<dt>latency</dt><dd>{100 * MADDS:.4g} ms on Abacus 1, batch 1, 2 threads" in page
    of_one = f"<dd>{round(1e6 * MADDS):,}<small>for one image; target"
    assert f"<dt>multiply-adds</dt>{of_one}" in page and "<dt>madds</dt>" not in page


def small_model_fn(features, labels, mode, params):
    step = tf.train.get_or_create_global_step()
    costs = search_costs.load(params)
    weight = tf.get_variable("weight", initializer=1.0)
    scalars = {"rlcontroller/reward": weight}
    for suffix, cost in zip(search_costs.suffixes(costs), costs):
        scalars[f"rlcontroller/estimated_cost{suffix}"] = weight * cost.target / 2
    train_op = tf.group(tf.assign_add(step, 1), list(features.values()))
    return search_summaries.make_spec(mode, weight, train_op, scalars, params)


def test_a_search_says_what_its_cost_is_and_resumes(tmp_path, file, capsys, monkeypatch):
    monkeypatch.setattr(model_fn, "model_fn", small_model_fn)
    monkeypatch.setattr(replicate, "replicate_model_fn", lambda model_fn, **_: model_fn)
    flags = ["search", f"--checkpoint_dir={tmp_path / 'run'}", "--max_global_step=2"]
    flags += ["--num_towers=1", "--train_batch_size=8", "--cost_model", file, "madds"]
    flags += ["--cost_model_weights", "0.7", "0.3"]
    assert PROGRAM.main(flags) == 0
    shown = capsys.readouterr()
    assert (
        "Cost: latency, ms on Abacus 1, batch 1, 2 threads; target 1, weight 0.7.\n"
        "Cost: madds, million MAdds; target 0.0111, weight 0.3.\n"
    ) in shown.out
    costs = "latency 0.5 (50% of target), madds 0.00555 (50% of target)"
    assert costs in shown.err.splitlines()[-1]
    kept = cost_model_io.from_json((tmp_path / "run" / "cost_model.json").read_text())
    assert str(kept) == str(latency_model())
    assert PROGRAM.main(flags) == 0
    assert PROGRAM.main([*flags[:-6], "--cost_model", "madds"]) == 2
    assert "cost_model was [" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        ("{", "error: A cost model must be JSON by `fit-cost`, but '{' cannot be read"),
        ("another", "error: The cost model of a search must match its settings, but "),
    ],
)
def test_a_kept_model_that_is_damaged_is_told(resolve, file, tmp_path, capsys, kept, message):
    params = resolve(cost_model=[file])
    search_settings.save(params)
    nas_searches.save_checkpoint(tmp_path / "run")
    other = cost_model_io.to_json(latency_model("Abacus 2"))
    (tmp_path / "run" / "cost_model.json").write_text(kept if kept == "{" else other)
    flags = [f"--checkpoint_dir={params['checkpoint_dir']}", "--cost_model", file]
    assert PROGRAM.main(["search", *flags]) == 2
    assert message in capsys.readouterr().err
