"""Settings: what flags make of themselves, what is refused, and what a rerun may change."""

import json
import pathlib

import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search import mobile_cost_model, search_space_utils
from examples.nas_search.search import search_flags, search_settings
from examples.runs import engines, settings_file
from examples.runs.errors import UserError
from examples.runs.flags import Flag, SettingsError, boolean, with_defaults
from nas_search import nas_searches

# Flags of the published `mobile_architecture_search` and their values; those without a value are
# resolved to what the space, the type to compute in and the engine ask for.
PUBLISHED = {
    "tpu": "",
    "gcp_project": None,
    "tpu_zone": None,
    "checkpoint_dir": None,
    "dataset_dir": None,
    "model_learning_rate": 0.165,
    "model_warmup_steps_fraction": 0.025,
    "model_momentum": 0.9,
    "model_weight_decay": None,
    "train_batch_size": 4096,
    "rl_learning_rate": 0.0003,
    "use_exponential_rl_learning_rate_schedule": True,
    "rl_entropy_regularization": 0.0,
    "rl_baseline_momentum": 0.95,
    "rl_batch_size_multiplier": 4.0,
    "rl_delay_steps_fraction": 0.25,
    "increase_ops_warmup_steps_fraction": 0.25,
    "increase_filters_warmup_steps_fraction": 0.25,
    "rl_reward_function": "abs",
    "enable_cost_model": True,
    "rl_cost_model_target": None,
    "rl_cost_model_exponent": -0.10,
    "epochs": 90,
    "tpu_iterations_per_loop": 100,
    "use_bfloat16": "auto",
    "use_gradient_sync_barrier": True,
    "ssd": "proxylessnas_search",
}


@pytest.fixture
def resolve(tmp_path):
    """Resolves settings of a search in a directory that does not exist yet."""

    def resolve_given(**given):
        return search_settings.resolve(**{"checkpoint_dir": str(tmp_path / "run"), **given})

    return resolve_given


class FakeImages:
    """ImageNet's training images without their pixels."""

    settings = {  # noqa: RUF012
        "num_classes": 1000,
        "image_shape": [224, 224, 3],
        "augmentation": "imagenet",
    }

    def size(self, split):
        return {"train": 1231121, "validation": 50046, "test": 50000}[split]


@pytest.fixture
def imagenet(resolve, monkeypatch):
    """Resolves settings of the preset `imagenet`."""
    monkeypatch.setattr(search_settings.data_lib, "open_data", lambda params: FakeImages())
    monkeypatch.setattr(mobile_cost_model, "target_cost", lambda *args: 320.5)
    return lambda **given: resolve(**{"preset": "imagenet", **given})


def test_flags_and_their_values_are_the_published_ones():
    assert search_flags.PRESETS["imagenet"] == {}
    flags = {flag.name: flag.default for flag in search_flags.FLAGS}
    assert {name: flags[name] for name in PUBLISHED} == PUBLISHED


def test_the_published_search_is_resolved(imagenet):
    params = imagenet(devices=[f"/cpu:{i}" for i in range(8)])
    resolved = {
        "model_learning_rate": 0.165 * 4096 / 256,
        "rl_learning_rate": 0.0003 * 4096 / 256,
        "model_weight_decay": 4e-5,
        "use_bfloat16": False,
        "rl_cost_model_target": [320.5],
        "max_global_step": 27050,  # 90 · 1231121 / 4096 = 27050.8
        "model_warmup_steps": 676,  # 0.025 · 27050 = 676.25
        "rl_delay_steps": 6762,  # 0.25 · 27050 = 6762.5
        "increase_ops_warmup_steps": 6762,
        "increase_filters_warmup_steps": 6762,
        "skip_delay_steps": 0,
        "num_classes": 1000,
        "image_shape": [224, 224, 3],
        "num_towers": 8,
        "use_tpu": False,
    }
    assert {name: params[name] for name in resolved} == resolved
    kept = set(PUBLISHED) - set(resolved) - {"checkpoint_dir"}
    assert {name: params[name] for name in kept} == {name: PUBLISHED[name] for name in kept}


def test_the_digits_are_what_is_searched_on_by_default(resolve):
    params = resolve()
    assert params["preset"] == "digits"
    assert params["dataset"] == "digits"
    assert params["ssd"] == "digits_search"
    assert params["image_shape"] == [8, 8, 1]
    assert params["num_classes"] == 10
    assert params["seed"] == 0
    assert params["rl_cost_model_target"] == [mobile_cost_model.target_cost("digits_search")]
    assert params["cost_model"] == ["madds"]
    assert (params["cost_model_weights"], params["cost_model_files"]) == ([1.0], [None])
    assert params["devices"] == ["/device:CPU:0", "/device:CPU:1"]
    assert json.loads(json.dumps(params)) == params


def test_what_is_given_has_precedence_over_the_preset(resolve):
    params = resolve(train_batch_size=32, max_global_step=50, num_towers=1, epochs=None)
    assert params["train_batch_size"] == 32
    assert params["max_global_step"] == 50
    assert params["rl_delay_steps"] == 12  # a quarter
    assert params["devices"] == ["/device:CPU:0"]
    assert params["epochs"] == search_flags.PRESETS["digits"]["epochs"]


@pytest.mark.parametrize(
    ("when", "ssd", "on_tpu", "computed"),
    [
        ("auto", "proxylessnas_search", True, False),
        ("auto", "mobilenet_v3_like_search", True, True),
        ("auto", "mobilenet_v3_like_search", False, False),
        ("ontpu", "proxylessnas_search", True, True),
        ("ontpu", "proxylessnas_search", False, False),
        ("true", "proxylessnas_search", False, True),
        ("false", "mobilenet_v3_like_search", True, False),
    ],
)
def test_bfloat16_and_its_weight_decay(imagenet, when, ssd, on_tpu, computed):
    params = imagenet(use_bfloat16=when, ssd=ssd, tpu="local" if on_tpu else None)
    assert params["use_bfloat16"] is computed
    assert params["model_weight_decay"] == (3e-5 if computed else 4e-5)
    assert (
        imagenet(use_bfloat16=when, ssd=ssd, model_weight_decay=1e-3)["model_weight_decay"] == 1e-3
    )


def test_without_cost_model_there_is_no_target(resolve):
    params = resolve(enable_cost_model=False)
    assert params["rl_cost_model_target"] is params["cost_model"] is None
    assert resolve(rl_cost_model_target=0.2)["rl_cost_model_target"] == [0.2]


def test_tpus_have_no_towers(imagenet):
    params = imagenet(tpu="my-tpu", train_batch_size=100)
    assert (params["use_tpu"], params["devices"], params["num_towers"]) == (True, [], None)


def test_every_gpu_is_a_tower(monkeypatch):
    gpus = [f"/device:GPU:{i}" for i in range(3)]
    monkeypatch.setattr(engines.devices_lib, "local", lambda config=None: ["/device:CPU:0", *gpus])
    none = {"devices": None, "num_towers": None, "tpu": ""}
    assert engines.resolve(none)["devices"] == gpus
    assert engines.resolve({**none, "num_towers": 2})["devices"] == gpus[:2]
    with pytest.raises(
        SettingsError, match=r"at most the number of GPUs, which is 3, but is 4\. Pa"
    ):
        engines.resolve({**none, "num_towers": 4})


def test_the_reward_functions_are_those_there_are():
    [flag] = [flag for flag in search_flags.FLAGS if flag.name == "rl_reward_function"]
    assert set(flag.choices) == set(search_space_utils.RL_REWARDS)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epochs": 1, "train_batch_size": 10**6}, "must make a step, but --epochs 1 of .* images"),
        ({"ssd": "nothing"}, r"--ssd: `ssd` must be one of \[.*'digits_search'.*but is 'nothing'"),
        ({"dataset": "cifar"}, r"`dataset` must be one of digits, .*tfds:NAME, but is 'cifar'"),
        ({"dataset": "image_folder"}, r"Pass --dataset_dir, .* dataset_dir/<class>/"),
        ({"preset": "tiny"}, r"--preset must be one of .*, cifar10, imagenet, but is 'tiny'"),
        ({"checkpoint_dir": None}, r"Pass --checkpoint_dir: directory"),
        (
            {"rl_delay_steps_fraction": 1.5},
            r"--rl_delay_steps_fraction must be in \[0, 1\], but is 1",
        ),
        ({"validation_fraction": -0.1}, r"--validation_fraction must be in \[0, 1\], but is -0.1"),
        ({"test_fraction": float("nan")}, r"--test_fraction must be a finite number, but is nan"),
        ({"epochs": 0}, r"--epochs must be at least 1, but is 0"),
        ({"seed": -1}, r"--seed must be in \[0, 2147483647\], but is -1"),
        (
            {"rl_cost_model_exponent": 0.1},
            r"--rl_cost_model_exponent must be at most 0, but is 0.1",
        ),
        (
            {"rl_cost_model_target": 0.0},
            r"_target must be greater than 0, but is 0.0\. Pass --enab",
        ),
        ({"rl_reward_function": "sum"}, r"one of abs, mnas, mnas_hard, but is 'sum'"),
        ({"use_bfloat16": "maybe"}, r"--use_bfloat16 must be one of auto, true, .*but is 'maybe'"),
        ({"rl_speed": 1}, r"no setting called rl_speed\. Settings are preset, checkpoint_dir, "),
        (
            {"train_batch_size": 64, "num_towers": 3},
            r"--train_batch_size 64 is not divisible by 3 towers\. Pass .*_size 63 or 66, or",
        ),
        (
            {"train_batch_size": 2, "num_towers": 3},
            r"--train_batch_size 2 is not divisible by 3 towers\. Pass --train_batch_size 3, or",
        ),
        (
            {"train_batch_size": 10, "rl_batch_size_multiplier": 0.25},
            r"must be a whole number of images > 0, but is 0\.25 · 10 = 2\.5\. Pass",
        ),
        ({"rl_batch_size_multiplier": 0.0}, r"number of images > 0, but is 0 · 64 = 0\. Pass"),
        (
            {"train_batch_size": 64, "rl_batch_size_multiplier": 1.5},
            r"whole number of validation images .*but takes 96 and 64\. Pass .* like 2\.",
        ),
        (
            {"train_batch_size": 6, "rl_batch_size_multiplier": 0.5, "num_towers": 2},
            r"the 3 validation images of a step are not divisible by 2 towers\. Pass",
        ),
        (
            {"increase_ops_warmup_steps_fraction": 0.5},
            r"must not start before.*but --increase_ops_warmup_steps_fraction is 0.5 and "
            r"--rl_delay_steps_fraction 0.25\. Raise the second or lower the first",
        ),
        (
            {"rl_delay_steps_fraction": 0.1, "increase_ops_warmup_steps_fraction": 0.1},
            r"--increase_filters_warmup_steps_fraction is 0.25 and --rl_delay_steps_fraction 0.1",
        ),
        (
            {"validation_fraction": 0.5, "test_fraction": 0.5},
            r"left to train on, but --validation_fraction 0.5 and --test_fraction 0.5 add up to 1",
        ),
        ({"validation_fraction": 0.0}, r"The split 'validation' must have images, but has none"),
        (
            {"train_batch_size": 4096, "epochs": 1},
            r"--epochs 1 of \d+ training images make no batch of --train_batch_size 4096\. Lower",
        ),
        (
            {"num_towers": 2, "tpu": "local"},
            r"exclude each other, but got --num_towers and --tpu\. Pass one",
        ),
        ({"devices": ["/gpu:99"]}, r"--devices: `devices` must exist, but /device:GPU:99 does not"),
        ({"devices": ["cpu"]}, r"--devices: A device is named by its type and index.*got 'cpu'"),
    ],
)
def test_settings_that_do_not_fit_are_an_error(resolve, given, message):
    with pytest.raises(UserError, match=message):
        resolve(**given)


def test_on_one_tower_batches_need_not_fit(resolve):
    params = resolve(num_towers=1, train_batch_size=64, rl_batch_size_multiplier=1.5)
    assert params["num_towers"] == 1


def test_a_target_needs_no_cost_model_of_the_space(imagenet, monkeypatch):
    monkeypatch.setattr(mobile_cost_model, "target_cost", None)
    assert imagenet(rl_cost_model_target=84.0)["rl_cost_model_target"] == [84.0]


# Flags.


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("True", True), ("1", True), ("yes", True), ("false", False), ("0", False)],
)
def test_texts_stand_for_truth_values(text, value):
    assert boolean(text) is value


def test_another_text_is_no_truth_value():
    with pytest.raises(ValueError, match="must be true or false, but is 'maybe'"):
        boolean("maybe")


def test_none_is_not_given():
    flags = (Flag("size", int, 3, "size"), Flag("name", str, "a", "name"))
    assert with_defaults({"size": None}, flags, {"size": 4}) == {"size": 4, "name": "a"}
    assert with_defaults({"size": 5}, flags, {"size": 4}) == {"size": 5, "name": "a"}


# The settings of a run that is resumed.


@pytest.fixture
def saved(resolve):
    """Settings that are saved."""
    params = resolve(num_towers=2)
    search_settings.save(params)
    return params


@pytest.fixture
def begun(saved, tmp_path):
    """Settings of a search that has begun."""
    nas_searches.save_checkpoint(tmp_path / "run")
    return saved


def test_settings_are_saved_for_people_to_read(saved, tmp_path):
    text = (tmp_path / "run" / "params.json").read_text()
    assert text == json.dumps(saved, indent=2, sort_keys=True) + "\n"
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["params.json"]


def test_a_run_that_never_began_may_be_given_other_settings(saved, resolve):
    search_settings.check_same(resolve(num_towers=4, epochs=3))


def test_the_same_settings_may_resume(begun, resolve):
    search_settings.check_same(resolve(num_towers=2))
    search_settings.check_same(resolve(devices=["/cpu:2", "/cpu:5"]))  # as many
    search_settings.check_same({**begun, "tpu_zone": "elsewhere"})
    search_settings.check_same({**begun, "seed": 7}, may_change=["seed"])
    search_settings.check_same({**begun, "slice_widths": False})  # The same up to rounding.


def test_a_new_run_may_have_any_settings(resolve):
    search_settings.check_same(resolve())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"epochs": 3},
            r"epochs was \d+ and is 3; increase_filters_warmup_steps was \d+ and is \d+;",
        ),
        ({"ssd": "proxylessnas_search"}, r'ssd was "digits_search" and is "proxylessnas_search"'),
        ({"num_towers": 4}, r'devices was \["/device:CPU:0", .*; num_towers was 2 and is 4\. Pass'),
        ({"seed": 1}, r"differ: seed was 0 and is 1\. Pass the old values, or name a new --checkp"),
        (
            {"enable_cost_model": False},
            r'differ: cost_model was \["madds"\] and is null; .* enable_cost_model was true and is',
        ),
        ({"cost_model": "params"}, r'cost_model was \["madds"\] and is \["params"\]; rl_cost'),
    ],
)
def test_changed_settings_are_named(begun, resolve, change, message):
    with pytest.raises(SettingsError, match=message):
        search_settings.check_same(resolve(**{"num_towers": 2, **change}))


def test_settings_that_came_or_went_are_named(begun):
    now = {**begun, "new": None}
    del now["seed"]
    with pytest.raises(
        SettingsError, match=r"new was not set and is null; seed was 0 and is not set"
    ):
        search_settings.check_same(now)


def test_checkpoints_without_settings_are_an_error(resolve, tmp_path):
    params = resolve()
    with tf.Session() as session:
        tf.get_variable("v", initializer=0.0)
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, str(tmp_path / "run" / "model.ckpt"))
    with pytest.raises(SettingsError, match=r"has checkpoints and no params\.json .* Name a new"):
        search_settings.check_same(params)


def test_broken_settings_are_an_error(begun):
    with open(settings_file.path(begun["checkpoint_dir"]), "w") as file:
        file.write("{")
    with pytest.raises(SettingsError, match=r"params\.json must be the settings .*Name a new"):
        search_settings.check_same(begun)


def test_a_directory_that_cannot_be_made_is_an_error(resolve, tmp_path):
    params = resolve()
    (tmp_path / "run").write_text("a file")
    with pytest.raises(
        SettingsError, match=r"--checkpoint_dir must be .* be written to, but .*/run"
    ):
        search_settings.save(params)


def test_cost_may_be_what_one_likes(resolve):
    params = resolve(cost_model="params")
    target = mobile_cost_model.target_cost("digits_search", objective="params")
    assert params["rl_cost_model_target"] == [target]
    with pytest.raises(
        SettingsError, match=r"one of \['madds', 'params'\] or a file .* no 'watts'.*OBJECTIVES"
    ):
        resolve(cost_model="watts")


def test_a_tpu_that_is_not_there_is_an_error(imagenet, monkeypatch):
    def nothing(*args, **kwargs):
        raise OSError("no route to my-tpu")

    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", nothing)
    message = r"--tpu must be .* but 'my-tpu' is not: no route to my-tpu\. Leave it out"
    with pytest.raises(SettingsError, match=message):
        engines.make_estimator(None, imagenet(tpu="my-tpu", train_batch_size=100))


def test_the_table_of_presets_is_that_of_the_program():
    readme = pathlib.Path(search_flags.__file__).parents[1] / "README.md"
    text = readme.read_text(encoding="utf-8")
    table = text[text.index("| `--preset` |") :].split("\n\n")[0]
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()[2:]]
    defaults = {flag.name: flag.default for flag in search_flags.FLAGS}

    def share(value):
        return f"{100 * value:g} %" if value else ""

    expected = []
    for name, preset in search_flags.PRESETS.items():
        params = {**defaults, **preset}
        expected.append(
            [
                f"`{name}`",
                f"`{params['ssd']}`",
                f"{params['epochs']}",
                f"{params['train_batch_size']:,}",
                f"{params['rl_batch_size_multiplier']:g}",
                f"{params['rl_cost_model_exponent']:g}".replace("-", "−"),
                f"{params['rl_learning_rate']:g}",
                share(params["rl_delay_steps_fraction"]),
                share(params["skip_delay_steps_fraction"]),
                share(params["increase_ops_warmup_steps_fraction"]),
                "at the target's cost" if params["start_at_target"] else "uniform",
            ]
        )
    assert rows == expected
