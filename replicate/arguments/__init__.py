"""What `replicate_model_fn` is given, and what a `model_fn` is called with."""

from replicate.arguments import (
    call_arguments,
    call_devices,
    named,
    surroundings,
    tower_params,
)
from replicate.arguments.checks import check

__all__ = ["call_arguments", "call_devices", "check", "named", "surroundings", "tower_params"]
