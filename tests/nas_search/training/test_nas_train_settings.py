"""Settings of stand-alone training: published defaults, presets, and what follows from them."""

import json

import pytest

from examples.nas_search import mobile_cost_model
from examples.nas_search.commands import fit_cost
from examples.nas_search.search import search_flags
from examples.nas_search.training import train_flags, train_settings
from examples.runs.errors import UserError
from examples.runs.flags import SettingsError
from nas_search.nas_searches import INDICES, write_search


def resolve(tmp_path, **given):
    return train_settings.resolve(checkpoint_dir=str(tmp_path), **given)


def test_defaults_are_the_published_ones():
    published = {
        "base_learning_rate": 0.165,
        "dropout_rate": None,
        "epochs": None,
        "eval_batch_size": 256,
        "filters_multiplier": 1.0,
        "indices": "",
        "momentum": 0.9,
        "path_dropout_rate": 0,
        "ssd": "proxylessnas_mobile",
        "tpu": "",
        "tpu_iterations_per_loop": 100,
        "train_batch_size": 4096,
        "use_bfloat16": False,
        "use_held_out_test_set": False,
        "warmup_steps_fraction": 0.025,
        "weight_decay": None,
    }
    defaults = {flag.name: flag.default for flag in train_flags.FLAGS}
    assert {name: defaults[name] for name in published} == published
    assert train_flags.PRESETS["imagenet"] == {}
    assert train_flags.MODE.default == "train_and_eval"


@pytest.mark.parametrize("preset", ["digits", "mnist5k", "pulses"])
def test_presets_search_and_train_on_the_same_images(preset):
    alone, search = train_flags.PRESETS[preset], search_flags.PRESETS[preset]
    of_data = ("dataset", "validation_fraction", "test_fraction", "ssd")
    assert {name: alone[name] for name in of_data} == {name: search[name] for name in of_data}
    assert alone["dataset"] == preset
    assert fit_cost.PRESETS[preset] == {"ssd": alone["ssd"]}
    for chosen, flags in ((alone, train_flags.FLAGS), (search, search_flags.FLAGS)):
        assert set(chosen) <= {flag.name for flag in flags}


def test_cifar10_is_searched_as_long_as_published_and_trained_on_the_same_images():
    alone, search = train_flags.PRESETS["cifar10"], search_flags.PRESETS["cifar10"]
    of_data = ("dataset", "image_size", "validation_fraction", "epochs", "train_batch_size")
    assert {name: alone[name] for name in of_data} == {name: search[name] for name in of_data}
    assert fit_cost.PRESETS["cifar10"] == {"ssd": search["ssd"]}
    assert mobile_cost_model.reference_of(search["ssd"]) == alone["ssd"]
    # Of 40,000 training images, and of ImageNet's: steps, and the controller's rate in one.
    steps, published = 90 * 40_000 // 128, 90 * 1_231_121 // 4096
    assert abs(steps / published - 1) < 0.05
    flags = {flag.name: flag.default for flag in search_flags.FLAGS}
    assert search["rl_learning_rate"] * 128 == pytest.approx(flags["rl_learning_rate"] * 4096)


def test_settings_follow_from_batch_and_data(tmp_path):
    params = resolve(tmp_path, indices="0:1", train_batch_size=128, epochs=20)
    num_images = _num_images(params, "train")
    assert params["learning_rate"] == 0.165 * 128 / 256
    assert params["max_global_step"] == 20 * num_images // 128
    assert params["warmup_steps"] == int(0.025 * params["max_global_step"])
    assert params["image_shape"] == [8, 8, 1]
    assert params["num_classes"] == 10
    assert params["num_towers"] == len(params["devices"]) == 2
    assert (params["train_split"], params["eval_split"]) == ("train", "validation")
    assert json.loads(json.dumps(params)) == params


def test_with_the_test_set_held_out_validation_images_are_trained_on(tmp_path):
    params = resolve(tmp_path, use_held_out_test_set=True)
    assert (params["train_split"], params["eval_split"]) == ("train+validation", "test")
    num_images = _num_images(params, "train") + _num_images(params, "validation")
    assert params["max_global_step"] == params["epochs"] * num_images // params["train_batch_size"]


def _num_images(params, part):
    from examples import data

    return data.open_data(params).sizes[part]


def test_steps_may_be_given(tmp_path):
    assert resolve(tmp_path, max_global_step=7)["max_global_step"] == 7


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({}, "epochs", 90),
        ({"use_held_out_test_set": True}, "epochs", 360),
        ({"epochs": 3}, "epochs", 3),
        ({}, "weight_decay", 4e-5),
        ({"use_bfloat16": True}, "weight_decay", 3e-5),
        ({"weight_decay": 0.0}, "weight_decay", 0.0),
        ({}, "dropout_rate", 0.0),
        ({"epochs": 149}, "dropout_rate", 0.0),
        ({"epochs": 150}, "dropout_rate", 0.15),
        ({"epochs": 150, "ssd": "mobilenet_v3_large"}, "dropout_rate", 0.25),
        ({"epochs": 150, "ssd": "mobilenet_v3_large", "dropout_rate": 0.0}, "dropout_rate", 0.0),
        ({"use_held_out_test_set": True}, "dropout_rate", 0.15),
    ],
)
def test_what_is_not_given_follows_from_the_rest(tmp_path, given, name, value):
    given = {"preset": "imagenet", "dataset": "digits", "train_batch_size": 64, **given}
    assert resolve(tmp_path, **given)[name] == value


def test_a_search_gives_network_and_data(tmp_path):
    search = write_search(tmp_path / "search", dataset="digits", test_fraction=0.3)
    params = resolve(tmp_path / "alone", search_dir=str(search))
    assert params["indices"] == ":".join(map(str, INDICES))
    assert params["ssd"] == "digits_search"
    assert params["test_fraction"] == 0.3
    assert params["checkpoint_dir"] == str(tmp_path / "alone")


@pytest.mark.parametrize("given", [{"test_fraction": 0.5}, {"validation_fraction": 0.1}])
def test_images_that_the_search_saw_stay_seen(tmp_path, given):
    search = write_search(tmp_path / "search", test_fraction=0.2, validation_fraction=0.2)
    (name,) = given
    message = (
        f"--{name} must be that of the search, .* is {given[name]}, and in .* it is 0.2. Leave"
    )
    with pytest.raises(SettingsError, match=message):
        resolve(tmp_path, search_dir=str(search), **given)


def test_what_is_given_wins_over_the_search(tmp_path):
    search = write_search(tmp_path / "search", dataset="digits", test_fraction=0.3)
    params = resolve(
        tmp_path, search_dir=str(search), indices="1:1", image_size=16, ssd="digits_search"
    )
    assert params["indices"] == "1:1"
    assert params["image_size"] == 16


def spoil_settings(search):
    (search / "params.json").write_text("{")


def remove_events(search):
    for path in search.glob("events*"):
        path.unlink()


@pytest.mark.parametrize(
    ("spoil", "given", "message"),
    [
        (None, {"ssd": "mobilenet_v2"}, "--ssd must be that of the search, but is 'mobilenet_v2'"),
        (spoil_settings, {}, r"params\.json cannot be read: .*Name the --checkpoint_dir of a run"),
        (remove_events, {}, "no event file"),
    ],
)
def test_searches_that_give_no_network(tmp_path, spoil, given, message):
    search = write_search(tmp_path)
    if spoil:
        spoil(search)
    with pytest.raises(UserError, match=message):
        resolve(tmp_path, search_dir=str(search), **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"epochs": 1, "train_batch_size": 10**6},
            "--train_batch_size is 1,000,000, and there are 1,119 images",
        ),
        ({"dropout_rate": 1.5}, r"--dropout_rate.* in \[0, 1\], but is 1\.5"),
        ({"filters_multiplier": -1.0}, "--filters_multiplier.* at least 0, but is -1"),
        ({"colour": "red"}, "no setting called colour"),
        ({"num_towers": 2, "tpu": "local"}, "exclude each other"),
    ],
)
def test_bad_settings(tmp_path, given, message):
    with pytest.raises(SettingsError, match=message):
        resolve(tmp_path, **given)


def test_evaluation_takes_the_settings_of_training(tmp_path):
    params = resolve(tmp_path / "old", indices="0:1", num_towers=1)
    (tmp_path / "params.json").write_text(json.dumps(params))
    got = train_settings.resolve_evaluation(
        checkpoint_dir=str(tmp_path), eval_batch_size=7, num_towers=3, split="test"
    )
    changed = {name for name in params if got[name] != params[name]}
    assert changed == {"checkpoint_dir", "eval_batch_size", "devices", "num_towers"}
    assert (got["eval_batch_size"], len(got["devices"])) == (7, 3)
    assert got["checkpoint_dir"] == str(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"params\.json cannot be read: .*Name the --checkpoint_dir"),
        ("{", r"params\.json cannot be read"),
        ('{"ssd": "digits_search"}', "must be that of a network trained alone.*train --search_dir"),
    ],
)
def test_what_cannot_be_evaluated(tmp_path, content, message):
    if content is not None:
        (tmp_path / "params.json").write_text(content)
    with pytest.raises(SettingsError, match=message):
        train_settings.resolve_evaluation(checkpoint_dir=str(tmp_path))
