"""Settings that all trainings of classifiers share, see `training_flags.py`."""

import reprlib

from examples import data as data_lib
from examples.runs import engines, settings_file, training_flags
from examples.runs.flags import SettingsError, check, with_defaults


def data_settings(params):
    """Opens the data of a training, and returns what follows from them.

    Args:
        params: Dict of settings, with those of `engines.resolve`.

    Returns:
        A pair of the open `Data`, and a dict of settings: those of the data, such as `num_classes`
        and `image_shape`, and `train_split` and `eval_split`, which images are for what.

    Raises:
        SettingsError: If a setting is out of range, or a batch has fewer images than there are
            towers, or more than there are.
        DataError: If the data are missing, empty or damaged.
    """
    rows, towers = params["train_batch_size"], params["num_towers"] or 1
    if rows < towers:
        raise SettingsError(
            f"Each of {towers} towers must have an image of a batch, but --train_batch_size is "
            f"{rows}. Enlarge it, or pass fewer --devices."
        )
    train_split, eval_split = (
        ("train+validation", "test") if params["use_held_out_test_set"] else ("train", "validation")
    )
    data = data_lib.open_data(params)
    images, _ = (data.size(split) for split in (train_split, eval_split))
    if rows > images:
        raise SettingsError(
            f"A batch takes each image once at most, but --train_batch_size is {rows:,}, and "
            f"there are {images:,} images to train on. Lower it."
        )
    return data, {**data.settings, "train_split": train_split, "eval_split": eval_split}


def evaluation(given, mark, what, flags):
    """Returns the settings with which a network was trained, but with what is given for evaluation.

    Args:
        given: Dict of values of `training_flags.EVALUATE` by name, `checkpoint_dir` among them.
        mark: Name of a setting that such a network has, and no other run.
        what: Function of a directory without it, that returns the error's text: what it must be,
            and the way out.
        flags: The `Flag`s of such a training.

    Raises:
        SettingsError: If a setting is out of range, or no such network was trained there.
    """
    given = with_defaults(given, training_flags.EVALUATE, {})
    directory = given["checkpoint_dir"]
    params = settings_file.read(directory)
    if mark not in params:
        raise SettingsError(what(directory))
    _check_settings(params, directory, flags)
    params["checkpoint_dir"] = directory  # It may have been moved.
    if given["eval_batch_size"]:
        params["eval_batch_size"] = given["eval_batch_size"]
    # Where it is evaluated need not be where it was trained.
    params.update({name: given[name] for name in ("tpu", "gcp_project", "tpu_zone")})
    engine = {"engine": params["engine"]} if "engine" in params else {}
    params.update(engines.resolve({**given, **engine}))
    return params


def _check_settings(params, directory, flags):
    """Checks the settings of a run, which may be from elsewhere."""

    def is_count(value, most):
        return type(value) is int and 0 < value <= most

    shape = params.get("image_shape")
    rules = {
        "image_shape": isinstance(shape, list)
        and len(shape) == 3
        and all(is_count(size, 2**16) for size in shape),
        "num_classes": is_count(params.get("num_classes"), 2**24),
        "eval_batch_size": is_count(params.get("eval_batch_size"), 2**31 - 1),
        "eval_split": isinstance(params.get("eval_split"), str),
        "dataset": isinstance(params.get("dataset"), str),
        "engine": isinstance(params.get("engine", ""), str),
    }
    wrong = [name for name, is_right in rules.items() if not is_right]
    try:
        if wrong:
            raise SettingsError(f"{wrong[0]} is {reprlib.repr(params.get(wrong[0]))}.")
        check(params, flags)
    except SettingsError as error:
        raise SettingsError(
            f"params.json in {directory} must hold the settings of a training, but: {error} Name "
            "the --checkpoint_dir of another one."
        ) from error
