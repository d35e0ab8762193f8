"""Costs of networks in a search: one cost model or several, with weights and targets.

A cost is named by an exact objective, `madds` or another of `cost_fit.OBJECTIVES`, or by a file of
`fit-cost`. A search keeps its models beside its checkpoints, in cost_model.json, cost_model_2.json
and so on, so that the files it was given may go.
"""

import hashlib
import math
import os
import reprlib
import uuid
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from examples.nas_search import mobile_cost_model
from examples.nas_search.costs import cost_fit, cost_model_io
from examples.nas_search.costs.cost_model_io import CostModel
from examples.runs import json_file
from examples.runs.errors import UserError
from examples.runs.flags import SettingsError

_MAX_ERROR = 0.005  # relative, of what is computed


class SearchCost(NamedTuple):
    """One of the costs of a search."""

    label: str  # the objective; with a number if another has the same
    model: CostModel
    weight: float
    target: float  # in the unit of the model

    def __str__(self):
        """Returns in words what it is."""
        return f"{self.model}; target {self.target:.4g}"


def resolve(params):
    """Returns the settings that tell what cost is, complete.

    Args:
        params: Settings. Those used are `enable_cost_model`, `ssd`, `image_shape`, `num_classes`,
            `cost_model`, `cost_model_weights` and `rl_cost_model_target`.

    Returns:
        Dict of lists with an entry per cost: `cost_model`, the name of the objective or what the
        file holds, in words and with a hash; `cost_model_files`, the name of the file, None for an
        exact objective; `cost_model_weights`; `rl_cost_model_target`. All are None if cost does not
        count.

    Raises:
        SettingsError: If a model cannot be used for the search, or numbers do not fit together.
    """
    names = ("cost_model", "cost_model_files", "cost_model_weights", "rl_cost_model_target")
    if not params["enable_cost_model"]:
        return dict.fromkeys(names)
    given = params["cost_model"]
    models = [_given_model(name, params) for name in given]
    weights = _numbers(params, "cost_model_weights", len(given))
    targets = _numbers(params, "rl_cost_model_target", len(given))
    return {
        "cost_model": [
            name if name in cost_fit.OBJECTIVES else _identity(model)
            for name, model in zip(given, models)
        ],
        "cost_model_files": [None if name in cost_fit.OBJECTIVES else name for name in given],
        "cost_model_weights": weights or [1 / len(given)] * len(given),
        "rl_cost_model_target": targets or [mobile_cost_model.target_of(each) for each in models],
    }


def load(params, keep=True):
    """Returns the costs of a search.

    Args:
        params: Resolved settings. Those used are `cost_model`, by default `["madds"]`,
            `cost_model_files`, `cost_model_weights`, `rl_cost_model_target`, a number if there is
            one cost, `ssd`, `image_shape`, `num_classes` and `checkpoint_dir`.
        keep: Whether to write models that are not yet in the checkpoint directory there.

    Returns:
        List of `SearchCost`. Their models are those in the checkpoint directory if they are there.

    Raises:
        UserError: If a model there has other settings, or a file is broken or missing.
    """
    _check_settings(params)
    identities = params.get("cost_model") or ["madds"]
    files = params.get("cost_model_files") or [None] * len(identities)
    weights = params.get("cost_model_weights") or [1 / len(identities)] * len(identities)
    targets = params["rl_cost_model_target"]
    targets = targets if isinstance(targets, list) else [targets]  # as published
    models = [
        _kept_model(number, *each, params, keep)
        for number, each in enumerate(zip(identities, files), start=1)
    ]
    objectives = [model.objective for model in models]
    labels = [
        _numbered(objective, 1 + objectives[:place].count(objective))
        for place, objective in enumerate(objectives)
    ]
    return [SearchCost(*each) for each in zip(labels, models, weights, targets)]


def _check_settings(params):
    """Checks settings, which may come from a params.json from elsewhere."""

    def is_positive(value):
        return type(value) in (int, float) and 0 < value < math.inf

    def is_count(value, most):
        return type(value) is int and 0 < value <= most

    shape = params.get("image_shape")
    is_shape = isinstance(shape, (list, tuple)) and len(shape) == 3
    if not is_shape or not all(is_count(size, 2**16) for size in shape):
        raise UserError(
            "`image_shape` in params.json must be height, width and channels, but is "
            f"{reprlib.repr(shape)}. Name another directory."
        )
    if not is_count(params.get("num_classes"), 2**24):
        raise UserError(
            "`num_classes` in params.json must be their number, but is "
            f"{reprlib.repr(params.get('num_classes'))}. Name another directory."
        )
    target = params.get("rl_cost_model_target")
    targets = target if isinstance(target, list) else [target]
    rules = {
        "cost_model": ("texts", lambda value: isinstance(value, str)),
        "cost_model_files": ("texts or null", lambda x: x is None or isinstance(x, str)),
        "cost_model_weights": ("numbers > 0", is_positive),
        "rl_cost_model_target": ("numbers > 0", is_positive),
    }
    for name, (rule, is_right) in rules.items():
        values = targets if name == "rl_cost_model_target" else params.get(name)
        if values is None:
            continue
        is_list = isinstance(values, list) and len(values) == len(targets)
        if not is_list or not all(map(is_right, values)):
            raise UserError(
                f"`{name}` in params.json must be {rule}, one for each cost of the search, but is "
                f"{reprlib.repr(values)}. Name another directory."
            )


def suffixes(costs):
    """Returns what tells the scalars of each cost apart: of a single one nothing, as published."""
    return [""] if len(costs) == 1 else [f"/{cost.label}" for cost in costs]


def _numbered(name, number):
    return name if number == 1 else f"{name}_{number}"


def _numbers(params, name, count):
    """Returns a list of a number for each cost model, or None."""
    numbers = params[name]
    if numbers is None:
        return None
    if len(numbers) != count:
        raise SettingsError(
            f"--{name} must have a number for each --cost_model, which are {count}, but has "
            f"{len(numbers)}. Pass as many, in the same order."
        )
    for number in numbers:
        if not number > 0:
            raise SettingsError(
                f"--{name} must be greater than 0, but is {number}. Pass --enable_cost_model=false "
                "for a search in which cost does not count."
            )
    return numbers


def _given_model(name, params):
    """Returns the model that the user named."""
    if name in cost_fit.OBJECTIVES:
        return _exact_model(name, params)
    if not tf.io.gfile.exists(name):
        raise SettingsError(
            f"--cost_model must be one of {sorted(cost_fit.OBJECTIVES)} or a file that `fit-cost` "
            f"wrote, but there is no {name!r}. A new objective gets its entry in "
            "`cost_fit.OBJECTIVES`; a search keeps a copy of the file in its --checkpoint_dir."
        )
    try:
        model = _read(name)
    except ValueError as error:
        raise SettingsError(f"--cost_model: {error}") from error
    fault = _difference(model, params)
    if fault:
        raise SettingsError(
            f"--cost_model must be for the space and the images of the search, but {name} has "
            f"{fault}. Fit one with `fit-cost`, with the --ssd, --image_size and --num_classes of "
            "the search."
        )
    return model


def _exact_model(objective, params):
    return cost_fit.fit(
        params["ssd"],
        objective,
        input_shape=tuple(params["image_shape"]),
        num_classes=params["num_classes"],
    )


def _kept_model(number, identity, file, params, keep):
    """Returns the model that is kept in the checkpoint directory, which it is kept in from now."""
    name = _numbered("cost_model", number) + ".json"
    path = os.path.join(params["checkpoint_dir"], name)
    if tf.io.gfile.exists(path):
        model = _read(path)
        fault = _difference(model, params) or _other_identity(model, identity)
        if not fault:
            return model
        # Otherwise the file belongs to a search that never began.
        if tf.train.latest_checkpoint(params["checkpoint_dir"]):
            raise UserError(
                f"The cost model of a search must match its settings, but {path} has {fault}. "
                "Search in another directory, or delete the file."
            )
    model = _given_model(file or identity, params)
    fault = _other_identity(model, identity)
    if fault:
        raise UserError(
            f"The cost model of a search must match its settings, but {file} has {fault}. It was "
            "changed; name another directory."
        )
    _warn_of_errors(model)
    if keep:
        _write(path, cost_model_io.to_json(model))
    return model


def _difference(model, params):
    """Returns how a model differs from what the search needs, empty if it does not."""
    wanted = {
        "ssd": params["ssd"],
        "input_shape": tuple(params["image_shape"]),
        "num_classes": params["num_classes"],
    }
    for name, value in wanted.items():
        if getattr(model, name) != value:
            return f"{name} {getattr(model, name)!r} where the search has {value!r}"
    return ""


def _other_identity(model, wanted):
    found = model.objective if wanted in cost_fit.OBJECTIVES else _identity(model)
    return "" if found == wanted else f"{found!r} where the search has {wanted!r}"


def _identity(model):
    """Returns text that tells a model of a file from all others."""
    digest = hashlib.sha256(cost_model_io.to_json(model).encode()).hexdigest()
    return f"{model} ({digest[:8]})"


def _read(path):
    try:
        text = json_file.read_text(path)
    except tf.errors.OpError as error:
        raise UserError(
            f"A cost model must be a file by `fit-cost`, but {path!r} cannot be read: "
            f"{error.message}. Name the file."
        ) from error
    except json_file.JsonError as error:
        raise UserError(
            f"A cost model must be JSON by `fit-cost`, but cannot be read ({error.fault}). Let "
            f"it be fitted again. [File {path}.]"
        ) from error
    try:
        return cost_model_io.from_json(text)
    except ValueError as error:
        raise UserError(f"{error} [File {path}.]") from error


def _warn_of_errors(model):
    error = model.statistics["max_relative_error"]
    if model.measurement is None and error > _MAX_ERROR:
        tf.logging.warning(
            "The cost model of %s is off by up to %.1f%% on networks that it was not fitted to. "
            "Raise `num_networks` of `cost_fit.fit`.",
            model.ssd,
            100 * error,
        )


def _write(path, text):
    """Writes a file at once, so that nobody reads half of it."""
    tf.io.gfile.makedirs(os.path.dirname(path))
    temporary = f"{path}.{uuid.uuid4().hex}"
    with tf.io.gfile.GFile(temporary, "w") as file:
        file.write(text)
    tf.io.gfile.rename(temporary, path, overwrite=True)
