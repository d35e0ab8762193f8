"""The settings of a front, and the plan that follows from them; nothing is trained here.

*Settings* are a dict of the values of `front_flags.FLAGS` by name. They are complete, except for
those of the preset, and are kept in settings.json in the directory `out`.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from examples import data as data_lib
from examples.nas_search.costs import cost_range
from examples.nas_search.costs.cost_model_io import CostModel
from examples.nas_search.fronts import random_networks
from examples.nas_search.fronts.front_flags import DATA, FLAGS, PRESETS
from examples.nas_search.search import search_costs, search_settings
from examples.nas_search.training import train_settings
from examples.runs import json_file, settings_file
from examples.runs.flags import SettingsError, with_defaults

SETTINGS = "settings.json"
# Settings that do not change what is trained.
_MAY_CHANGE = ("out", "cost_model_file", "reference_accuracy")


class Search(NamedTuple):
    """A search of a front."""

    target: float
    number: int  # among those of its target, from 0
    params: dict[str, Any]  # resolved settings


class Plan(NamedTuple):
    """The searches and random networks of a front."""

    settings: dict[str, Any]
    model: CostModel
    cost_range: tuple[float, float]  # smallest and largest cost of the space
    searches: tuple[Search, ...]
    random: dict[float, list[str]]  # indices of the random networks, by target
    training: dict[str, Any]  # settings that all trainings share, for `alone.train`

    @property
    def out(self) -> pathlib.Path:
        """The directory for everything that is written."""
        return pathlib.Path(self.settings["out"])


def resolve(**given: Any) -> Plan:
    """Returns the plan of a front, after checking all that can be checked before it begins.

    Args:
        **given: Values of `front_flags.FLAGS` by name; those left out, or None, are the preset's.

    Raises:
        SettingsError: If a setting is out of range, they do not fit together, or the directory has
            a front with other settings.
        UserError: If there are not enough random networks that cost about as much as a target.
        DataError: If the data are missing, empty or damaged.
    """
    preset = PRESETS.get(given.get("preset") or "digits", {})
    preset = {**preset, **data_lib.defaults(given.get("dataset"))}
    settings = with_defaults(given, FLAGS, preset)
    settings["targets"] = sorted(settings["targets"])
    _check_numbers(settings)
    _check_directory(settings["out"])
    searches = tuple(
        Search(target, number, _search_params(settings, target, number))
        for target in settings["targets"]
        for number in range(settings["num_seeds"])
    )
    params = searches[0].params
    model = search_costs.load(params, keep=False)[0].model
    settings["cost_model_file"] = params["cost_model_files"][0]
    settings["cost_model"] = params["cost_model"][0]  # which a changed file changes
    ends = cost_range.cost_range(model)
    _check_targets(settings["targets"], ends, model)
    check_same(settings)
    random = _random_networks(settings, model)
    training = _training(settings)
    first = random[settings["targets"][0]][0]
    train_settings.resolve(indices=first, checkpoint_dir=settings["out"], **training)
    return Plan(settings, model, ends, searches, random, training)


def check_same(settings: dict[str, Any]) -> None:
    """Checks that the front in the directory `out`, if there is one, has the same settings.

    Raises:
        SettingsError: If some differ, or they cannot be read; names each that differs.
    """
    path = os.path.join(settings["out"], SETTINGS)
    if not tf.io.gfile.exists(path):
        return
    try:
        before = json_file.read(path)
    except (tf.errors.OpError, json_file.JsonError) as error:
        raise _unreadable(path, json_file.reason(error)) from error
    if not isinstance(before, dict):
        raise _unreadable(path, "It must hold an object")
    changed = settings_file.changes(before, settings, _MAY_CHANGE)
    if changed:
        raise SettingsError(
            f"A front resumes with the settings it started with, but those in {settings['out']} "
            f"differ: {'; '.join(changed)}. Pass the old values, or name a new --out."
        )


def _unreadable(path: str, reason: str) -> SettingsError:
    return SettingsError(
        f"{path} must hold the settings of a front, but cannot be read: {reason}. Name a new --out."
    )


def _check_numbers(settings: dict[str, Any]) -> None:
    targets = settings["targets"]
    if len(set(targets)) < 2:
        raise SettingsError(
            "A front needs networks at two different costs or more, but --targets are "
            f"{' '.join(map(str, targets))}. For a single cost, use the command `search`."
        )
    if len(set(targets)) < len(targets):
        raise SettingsError(
            "--targets must name each cost once, but are "
            f"{' '.join(map(str, targets))}. For more searches of each, pass --num_seeds."
        )
    if settings["num_random"] < settings["num_seeds"]:
        raise SettingsError(
            "There must be as many random networks for each target as searches, so that as many "
            f"can be compared, but --num_random is {settings['num_random']} and --num_seeds "
            f"{settings['num_seeds']}. Raise the first, or lower the second."
        )


def _check_directory(out: str) -> None:
    if tf.io.gfile.exists(out) and not tf.io.gfile.isdir(out):
        raise SettingsError(f"--out must be a directory, but {out} is a file. Name another one.")


def _check_targets(targets: list[float], ends: tuple[float, float], model: CostModel) -> None:
    least, largest = ends
    # Estimates are rounded.
    outside = [each for each in targets if not 0.9999 * least <= each <= 1.0001 * largest]
    if outside:
        raise SettingsError(
            f"--targets must be costs that networks of {model.ssd} have, {least:.6g} to "
            f"{largest:.6g} {model.unit}, but {' and '.join(map(str, outside))} "
            f"{'is' if len(outside) == 1 else 'are'} not among them. Pass others."
        )


def _search_params(settings: dict[str, Any], target: float, number: int) -> dict[str, Any]:
    """Returns the resolved settings of a search."""
    shared = (*DATA, "preset", "max_global_step", "devices", "num_towers")
    return search_settings.resolve(
        checkpoint_dir=os.path.join(settings["out"], f"search_{target}_{number}"),
        seed=settings["seed"] + number,
        cost_model=[settings["cost_model"]],
        rl_cost_model_target=[target],
        **{name: settings[name] for name in shared},
    )


def _random_networks(settings: dict[str, Any], model: CostModel) -> dict[float, list[str]]:
    window, number, seed = (settings[name] for name in ("window", "num_random", "seed"))
    return {
        target: random_networks.distinct_networks(model.ssd, target, window, number, seed, model)
        for target in settings["targets"]
    }


def _training(settings: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings that all trainings share: they run on one tower."""
    devices = settings["devices"]
    place = {"devices": devices[:1]} if devices else {"num_towers": 1}
    return {**{name: settings[name] for name in (*DATA, "preset", "epochs")}, **place}
