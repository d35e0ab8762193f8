"""Training that is cut short, stands still or finds a damaged checkpoint, and goes on."""

from replicate.faults import checkpoints, recovery
from replicate.faults.preemption import PreemptionHook, config_of
from replicate.faults.stall import StallError, StallHook

__all__ = ["PreemptionHook", "StallError", "StallHook", "checkpoints", "config_of", "recovery"]
