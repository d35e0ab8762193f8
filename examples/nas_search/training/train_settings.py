"""The settings of stand-alone training: what the flags say, and what follows from them.

*Resolved* settings are complete, as those of a search are, see `search_settings.py`. They have the
names of the flags, see `train_flags.py`, and also

    max_global_step, warmup_steps    steps of training, and those with a rising rate
    learning_rate                    the peak rate for the batch, no longer for 256 images
    train_split, eval_split          which images are for what
    num_classes, image_shape         of the data, which also say what `augmentation` auto means
    devices, num_towers, use_tpu     as of a search
"""

import reprlib

from examples import data as data_lib
from examples.classifiers import settings as classifier_settings
from examples.nas_search.mobile_search_space_v3 import MOBILENET_V3_LIKE_SSDS
from examples.nas_search.reports import search_analysis
from examples.nas_search.spaces import space_files
from examples.nas_search.training.train_flags import FLAGS, PRESETS
from examples.runs import engines, settings_file, training_flags
from examples.runs.flags import SettingsError, check, with_defaults

_LONG_TRAINING = 150  # epochs from which on the published networks are trained with dropout
# Settings that a network shares with the search that found it.
_OF_SEARCH = ("preset", "ssd", *(flag.name for flag in training_flags.DATA))


def resolve(**given):
    """Returns the resolved settings of stand-alone training, a dict that can be written as JSON.

    Args:
        **given: Values of `train_flags.FLAGS` by name; those left out, or None, are those of the
            search in `search_dir`, if that is given, and else the preset's.

    Raises:
        SettingsError: If a setting is out of range, or they do not fit together.
        UnreadableError: If `search_dir` has no search that could be analysed.
        DataError: If the data are missing, empty or damaged.
    """
    given = {name: value for name, value in given.items() if value is not None}
    if "search_dir" in given:
        given = _with_search(given)
    preset = PRESETS.get(given.get("preset", "digits"), {})
    preset = {**preset, **data_lib.defaults(given.get("dataset"))}
    params = with_defaults(given, FLAGS, preset)
    params.update(space_files.resolve(params["ssd"], params["checkpoint_dir"]))
    if params["from_search"]:
        _check_from_search(params)
    else:
        del params["from_search"]  # Older trainings, which resume, do not have it.
    params.update(engines.resolve(params))
    if params["epochs"] is None:
        params["epochs"] = 360 if params["use_held_out_test_set"] else 90
    if params["weight_decay"] is None:
        params["weight_decay"] = 3e-5 if params["use_bfloat16"] else 4e-5
    if params["dropout_rate"] is None:
        rate = 0.25 if params["ssd"] in MOBILENET_V3_LIKE_SSDS else 0.15
        params["dropout_rate"] = rate if params["epochs"] >= _LONG_TRAINING else 0.0
    params["learning_rate"] = params["base_learning_rate"] * params["train_batch_size"] / 256

    data, of_data = classifier_settings.data_settings(params)
    params.update(of_data)
    space_files.check_builds(params["ssd"], params["image_shape"], params["num_classes"])
    params["max_global_step"] = training_flags.last_step(
        params, data.size(params["train_split"]), "Training"
    )
    params["warmup_steps"] = int(params["warmup_steps_fraction"] * params["max_global_step"])
    return params


def resolve_evaluation(**given):
    """Returns the settings with which a network was trained, but with what is given for evaluation.

    Args:
        **given: Values of `training_flags.EVALUATE` by name, `checkpoint_dir` among them.

    Returns:
        Settings as `resolve` returns them.

    Raises:
        SettingsError: If a setting is out of range, or no network was trained there.
    """
    params = classifier_settings.evaluation(given, "train_split", _other_run, FLAGS)
    space_files.read_kept(params.get("ssd"), params["checkpoint_dir"])
    return params


def _check_from_search(params):
    if not params["search_dir"]:
        raise SettingsError(
            "--from_search starts with the weights of a search, but there is no --search_dir. Pass "
            "it, or leave out --from_search."
        )
    if params["filters_multiplier"] != 1:
        raise SettingsError(
            "--from_search needs the widths of the search, but --filters_multiplier is "
            f"{params['filters_multiplier']:g}. Leave out one of the two."
        )
    if params["tpu"]:
        raise SettingsError(
            "--from_search is for towers, but --tpu is given. Train on GPUs or CPUs, or leave out "
            "--from_search."
        )


def _other_run(directory):
    return (
        f"--checkpoint_dir must be that of a network trained alone, but {directory} is of another "
        "run. Train the network that a search found: `python -m examples.nas_search train "
        f"--search_dir {directory} --checkpoint_dir NEW`."
    )


def _with_search(given):
    """Returns the settings given, with those taken over from the search in `search_dir`."""
    directory = given["search_dir"]
    searched = settings_file.read(directory)
    check(searched, training_flags.DATA)
    if not all(isinstance(searched.get(name, ""), str) for name in ("preset", "ssd")):
        raise SettingsError(
            "--search_dir must name a search, whose preset and ssd are texts, but in "
            f"{directory} they are {reprlib.repr([searched.get('preset'), searched.get('ssd')])}. "
            "Name another one."
        )
    space_files.read_kept(searched.get("ssd"), directory)
    if "ssd" in given:
        given = {**given, **space_files.resolve(given["ssd"], given.get("checkpoint_dir"))}
        given.pop("ssd_file", None)  # The search tells the space.
    if given.get("ssd", searched.get("ssd")) != searched.get("ssd"):
        raise SettingsError(
            f"--ssd must be that of the search, but is {given['ssd']!r}, and --search_dir "
            f"{directory} searched {searched.get('ssd')!r}. Leave out one of the two."
        )
    for name in ("dataset", "validation_fraction", "test_fraction"):
        if given.get(name, searched.get(name)) != searched.get(name):
            raise SettingsError(
                f"--{name} must be that of the search, so that no image that the search saw "
                f"counts as unseen, but is {given[name]!r}, and in --search_dir {directory} it is "
                f"{searched.get(name)!r}. Leave it out."
            )
    taken = {name: searched[name] for name in _OF_SEARCH if searched.get(name) is not None}
    if "indices" not in given:
        taken["indices"] = ":".join(map(str, search_analysis.analyze(directory).indices))
    return {**taken, **given}
