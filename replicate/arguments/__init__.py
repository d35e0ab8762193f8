"""The arguments of `replicate_model_fn`, and those of the `model_fn` that it returns."""

from replicate.arguments import (
    call_arguments,
    call_devices,
    named,
    surroundings,
    tower_params,
)
from replicate.arguments.checks import check

__all__ = ["call_arguments", "call_devices", "check", "named", "surroundings", "tower_params"]
