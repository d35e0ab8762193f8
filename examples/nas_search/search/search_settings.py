"""The settings of a search: what the flags say, and what follows from them.

*Resolved* settings are complete: no default remains to be looked up, so that params.json tells all
that a result depends on. They have the names of the flags, see `search_flags.py`, and also

    max_global_step                  steps of the search; `rl_delay_steps`, `model_warmup_steps`,
                                     `skip_delay_steps`, `increase_ops_warmup_steps` and
                                     `increase_filters_warmup_steps` are shares of it
    num_classes, image_shape         of the data, which also say what `augmentation` auto means
    devices, num_towers              canonical names, none on a TPU
    use_tpu, use_bfloat16            true or false
    supernet_steps                   only of strategies without controller, as are their other
                                     settings: steps that train the weights, all of which the
                                     controller waits for; warm-ups are shares of them
    ssd, ssd_file                    of a space of a file its identity and path, see
                                     `space_files.py`; otherwise there is no `ssd_file`
    cost_model_files                 see `search_costs.resolve`, with all that tells what cost is

Learning rates are those for the batch, no longer those for 256 images.
"""

from examples import data as data_lib
from examples.data import tpu
from examples.nas_search import mobile_cost_model
from examples.nas_search.search import search_costs, strategies
from examples.nas_search.search.search_flags import FLAGS, PRESETS
from examples.nas_search.spaces import search_spaces, space_files
from examples.runs import engines, settings_file
from examples.runs.flags import SettingsError, with_defaults
from examples.runs.settings_file import save, write_json
from examples.runs.training_flags import last_step

_WARMUPS = ("increase_ops_warmup", "increase_filters_warmup")  # The controller waits for them.

__all__ = ("SettingsError", "check_same", "resolve", "save", "write_json")


def resolve(**given):
    """Returns the resolved settings of a search, a dict that can be written as JSON.

    Args:
        **given: Values of `search_flags.FLAGS` by name; those left out, or None, are the preset's.

    Raises:
        SettingsError: If a setting is out of range, or they do not fit together.
        DataError: If the data are missing, empty or damaged.
    """
    preset = PRESETS.get(given.get("preset") or "digits", {})
    preset = {**preset, **data_lib.defaults(given.get("dataset"))}
    params = strategies.resolve(with_defaults(given, FLAGS, preset))
    _check_space(params["ssd"])
    params.update(space_files.resolve(params["ssd"], params["checkpoint_dir"]))
    params.update(engines.resolve(params))
    _check_batches(params)
    params["use_bfloat16"] = tpu.computes_in_bfloat16(params)
    if params["model_weight_decay"] is None:
        params["model_weight_decay"] = 3e-5 if params["use_bfloat16"] else 4e-5
    for name in ("model_learning_rate", "rl_learning_rate"):
        params[name] *= params["train_batch_size"] / 256

    _check_fractions(params)
    data = data_lib.open_data(params)
    params.update(data.settings)
    space_files.check_builds(params["ssd"], params["image_shape"], params["num_classes"])
    data.size("validation")
    params.update(_steps(params, data.size("train")))
    params.update(search_costs.resolve(params))
    return params


def completed(params):
    """Returns settings with what the published program's lack.

    That is `use_tpu`, False; `slice_widths`, True; `seed`, None; and the `image_shape` and
    `num_classes` that the space is made for. `use_bfloat16` becomes a bool.

    Args:
        params: Settings, resolved ones or those of the published program.

    Raises:
        ValueError: If `use_bfloat16` is none; see `tpu.computes_in_bfloat16`.
    """
    image_shape, num_classes = mobile_cost_model.inputs_of(params["ssd"])
    made_for = {"image_shape": image_shape, "num_classes": num_classes}
    defaults = {"use_tpu": False, "slice_widths": True, "seed": None, "skip_delay_steps": 0}
    made = {**defaults, **made_for, **params}
    return {**made, "use_bfloat16": tpu.computes_in_bfloat16(made)}


def check_same(params, may_change=()):
    """Checks that the search, if it resumes, had the same settings; see `settings_file.py`.

    The paths of cost models and of the space may change: their contents are another setting. So may
    the way in which widths are computed. Older searches name no strategy, and started with uniform
    draws.
    """
    may_change = ("cost_model_files", "ssd_file", "slice_widths", *may_change)
    no_delay = {"skip_delay_steps_fraction": 0.0, "skip_delay_steps": 0}
    added_later = {"strategy": "reinforce", "start_at_target": False, **no_delay}
    settings_file.check_same(params, may_change, added_later=added_later)


def _check_space(ssd):
    if space_files.is_file(ssd):  # It may have gone, and a copy be there.
        return
    try:
        search_spaces.get_search_space_spec(ssd)
    except ValueError as error:
        raise SettingsError(f"--ssd: {error}") from error


def _check_batches(params):
    """Checks that all towers get the same number of images."""
    rows, towers = params["train_batch_size"], params["num_towers"] or 1
    validation_rows = rows * params["rl_batch_size_multiplier"]
    if rows % towers:
        below, above = rows // towers * towers, (rows // towers + 1) * towers
        sizes = f"{below} or {above}" if below else above
        raise SettingsError(
            f"Towers must get the same number of images, but --train_batch_size {rows} is not "
            f"divisible by {towers} towers. Pass --train_batch_size {sizes}, or another "
            "--num_towers."
        )
    if validation_rows != round(validation_rows) or not validation_rows:
        raise SettingsError(
            "--rl_batch_size_multiplier times --train_batch_size must be a whole number of images "
            f"> 0, but is {params['rl_batch_size_multiplier']:g} · {rows} = {validation_rows:g}. "
            "Pass e.g. --rl_batch_size_multiplier 1."
        )
    if towers > 1 and max(validation_rows, rows) % min(validation_rows, rows):
        raise SettingsError(
            "On several towers a step must take a whole number of validation images for each "
            "training image, or the other way round, but takes "
            f"{validation_rows:g} and {rows}. Pass a whole --rl_batch_size_multiplier like "
            f"{max(1, round(params['rl_batch_size_multiplier']))}."
        )
    if validation_rows % towers:
        raise SettingsError(
            f"Towers must get the same number of images, but the {validation_rows:g} validation "
            f"images of a step are not divisible by {towers} towers. Pass --train_batch_size and "
            "--rl_batch_size_multiplier whose product is, or another --num_towers."
        )


def _check_fractions(params):
    delay = params["rl_delay_steps_fraction"]
    for name in (f"{warmup}_steps_fraction" for warmup in _WARMUPS):
        if params[name] > delay:
            raise SettingsError(
                "The controller can only learn from choices of its own, so it must not start "
                f"before their warm-up ends; but --{name} is {params[name]} and "
                f"--rl_delay_steps_fraction {delay}. Raise the second or lower the first."
            )
    held_out = params["validation_fraction"] + params["test_fraction"]
    if held_out >= 1:
        raise SettingsError(
            "Images must be left to train on, but --validation_fraction "
            f"{params['validation_fraction']} and --test_fraction {params['test_fraction']} add "
            "up to 1 or more. Lower one of them."
        )


def _steps(params, num_images):
    """Returns the settings that count steps."""
    end = last_step(params, num_images, "A search")
    steps = {"max_global_step": end}
    training = strategies.supernet_steps(params, end)
    if not strategies.has_controller(params):
        steps["supernet_steps"] = training
    for name in ("model_warmup", "rl_delay", "skip_delay", *_WARMUPS):
        steps[f"{name}_steps"] = int(params[f"{name}_steps_fraction"] * training)
    return steps
