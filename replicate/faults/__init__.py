"""Recovers training that is cut short, stands still or finds a damaged checkpoint."""

from replicate.faults import checkpoints, loss_scale_hook, recovery
from replicate.faults.accumulation_hook import COUNTERS
from replicate.faults.preemption import PreemptionHook, config_of
from replicate.faults.stall import StallError, StallHook

__all__ = [
    "COUNTERS",
    "PreemptionHook",
    "StallError",
    "StallHook",
    "checkpoints",
    "config_of",
    "loss_scale_hook",
    "recovery",
]
