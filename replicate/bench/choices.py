"""Named choices of options of `replicate`, for benchmarks to compare.

A choice is a dictionary that JSON can hold: `"replicate_model_fn"` has arguments of
`replicate_model_fn`, and `"TowerOptimizer"` has arguments of `TowerOptimizer`, where `reduction`
may be a dictionary of fields of `replicate.Reduction`. Each may be left out.
"""

from __future__ import annotations

import argparse
import json
from typing import Any, Dict, Mapping

from replicate.reduction import Reduction

Choice = Mapping[str, Dict[str, Any]]

_SPREAD = {"variable_placement": "round_robin"}
_REPLICAS = {"variable_placement": "replicated"}
_BFLOAT16 = {"communication_dtype": "bfloat16"}

# Add a choice here, and all benchmarks find it.
CHOICES: dict[str, Choice] = {
    "default": {},
    "unpacked": {"TowerOptimizer": {"reduction": {"pack_bytes": 0}}},
    "bfloat16": {"TowerOptimizer": {"reduction": _BFLOAT16}},
    "round_robin_variables": {"replicate_model_fn": _SPREAD},
    "round_robin": {"replicate_model_fn": _SPREAD, "TowerOptimizer": {"reduction": "round_robin"}},
    "round_robin_bfloat16": {
        "replicate_model_fn": _SPREAD,
        "TowerOptimizer": {"reduction": {"where": "round_robin", **_BFLOAT16}},
    },
    "replicated": {"replicate_model_fn": _REPLICAS},
    "replicated_in_turn": {
        "replicate_model_fn": _REPLICAS,
        "TowerOptimizer": {"reduction": "round_robin"},
    },
    "replicated_bfloat16": {
        "replicate_model_fn": _REPLICAS,
        "TowerOptimizer": {"reduction": {"where": "round_robin", **_BFLOAT16}},
    },
    "auto": {
        "replicate_model_fn": {"variable_placement": "auto"},
        "TowerOptimizer": {"reduction": "auto"},
    },
    "prefetched": {"replicate_model_fn": {"prefetch_to_devices": True}},
    "nccl": {"TowerOptimizer": {"reduction": "nccl"}},
}
_NEED_GPUS = ("nccl",)
_TAKERS = ("replicate_model_fn", "TowerOptimizer")


def parse(text: str) -> dict[str, Choice]:
    """A type for `argparse`: names in `CHOICES`, separated by commas, or a choice as JSON.

    Returns:
        Dictionary of choices by name; the name of a choice in JSON is its text.

    Raises:
        argparse.ArgumentTypeError: If a name is unknown or repeated, or the JSON is no choice.
    """
    if text.lstrip().startswith("{"):
        try:
            choice = json.loads(text)
        except ValueError:
            choice = None
        if isinstance(choice, dict) and all(
            name in _TAKERS and isinstance(arguments, dict) for name, arguments in choice.items()
        ):
            return {text.strip(): choice}
        raise argparse.ArgumentTypeError(
            "as JSON, a choice must be an object of the arguments of "
            f"{' and '.join(_TAKERS)}, but is {text!r}. Pass e.g. "
            '\'{"replicate_model_fn": {"variable_placement": "round_robin"}}\'.'
        )
    names = text.split(",")
    unknown = [name for name in names if name not in CHOICES]
    if unknown or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(
            f"choices must be distinct names out of {', '.join(CHOICES)}, separated by commas, "
            f"or JSON, but are {text!r}. Leave the option out for 'default'."
        )
    return {name: CHOICES[name] for name in names}


def that_run_on(kind: str) -> list[str]:
    """Returns the names in `CHOICES` that run on devices of a kind, `"CPU"` or `"GPU"`."""
    return [name for name in CHOICES if kind == "GPU" or name not in _NEED_GPUS]


def model_fn_arguments(choice: Choice) -> dict[str, Any]:
    """Returns the arguments of `replicate_model_fn` for a choice."""
    return choice.get("replicate_model_fn", {})


def optimizer_arguments(choice: Choice) -> dict[str, Any]:
    """Returns the arguments of `TowerOptimizer` for a choice."""
    arguments = dict(choice.get("TowerOptimizer", {}))
    for name in ("reduction", "gather"):  # `gather` is the old name.
        if isinstance(arguments.get(name), dict):
            arguments[name] = Reduction(**arguments[name])
    return arguments


def as_code(choice: Choice) -> str:
    """Returns the code of a choice in a program."""
    calls = [
        f"{taker}(..., {', '.join(f'{key}={_value(value)}' for key, value in given.items())})"
        for taker, given in choice.items()
        if given
    ]
    return " and ".join(f"`{call}`" for call in calls) or "the default"


def _value(value: Any) -> str:
    if not isinstance(value, dict):
        return repr(value)
    return f"replicate.Reduction({', '.join(f'{key}={each!r}' for key, each in value.items())})"
