"""The settings of training: what the flags say, and what follows from them.

*Resolved* settings are complete: no default remains to be looked up, so that params.json tells all
that a result depends on. They have the names of the flags, see `train_flags.py`, and also

    every field of `RevNetConfig`     the network; classes and image shape are those of the data
    train_split, eval_split           which images are for what
    devices, num_towers, use_tpu      see `runs/engines.py`
"""

import dataclasses

from examples import data as data_lib
from examples.classifiers import settings as classifier_settings
from examples.revnet.network.config import RevNetConfig, preset
from examples.revnet.training.train_flags import DEFAULTS, FLAGS, NETWORK
from examples.runs import engines
from examples.runs.flags import SettingsError, with_defaults

_FIELDS = tuple(field.name for field in dataclasses.fields(RevNetConfig))


def resolve(**given):
    """Returns the resolved settings of training, a dict that can be written as JSON.

    Args:
        **given: Values of `train_flags.FLAGS` by name; those left out, or None, are the preset's.

    Raises:
        SettingsError: If a setting is out of range, or they do not fit together.
        DataError: If the data are missing, empty or damaged.
    """
    defaults = DEFAULTS.get(given.get("preset") or "digits", {})
    params = with_defaults(given, FLAGS, {**defaults, **data_lib.defaults(given.get("dataset"))})
    _check_schedule(params["learning_rates"], params["boundaries"])
    params.update(engines.resolve(params))
    _, of_data = classifier_settings.data_settings(params)
    params.update(of_data)
    params.update(_network(params))
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
    params = classifier_settings.evaluation(given, "recompute", _other_run, FLAGS)
    try:
        network(params)
    except (KeyError, TypeError, ValueError) as error:
        raise SettingsError(
            f"params.json in {params['checkpoint_dir']} must hold the settings of a RevNet, but "
            f"they make none: {error}. Name the --checkpoint_dir of another run."
        ) from error
    return params


def network(params):
    """Returns the `RevNetConfig` of resolved settings."""
    return RevNetConfig(**{name: params[name] for name in _FIELDS})


def _network(params):
    """Returns the fields of the network as settings: what is given, else the preset's."""
    names = [*(flag.name for flag in NETWORK), "num_classes", "image_shape", "seed"]
    given = {name: params[name] for name in names if params[name] is not None}
    try:
        config = preset(params["preset"], **given)
    except ValueError as error:
        raise SettingsError(f"These settings make no network: {error}") from error
    fields = dataclasses.asdict(config)
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()
    }


def _check_schedule(rates, boundaries):
    if len(rates) != len(boundaries) + 1:
        raise SettingsError(
            "There must be one more of --learning_rates than of --boundaries, between which they "
            f"hold, but there are {len(rates)} rates and {len(boundaries)} boundaries. Pass both, "
            "and --boundaries alone for a single rate."
        )
    if sorted(set(boundaries)) != list(boundaries):
        raise SettingsError(
            f"--boundaries must be rising steps, but are {' '.join(map(str, boundaries))}. Sort "
            "them, and leave out what is there twice."
        )


def _other_run(directory):
    return (
        f"--checkpoint_dir must be that of a RevNet, but {directory} is of another run. Name one "
        "that `python -m examples.revnet train` wrote."
    )
