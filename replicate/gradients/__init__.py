"""Gradients of the whole batch: where they are made, and how several batches add up."""

from replicate.gradients import (
    accumulation,
    accumulation_hook,
    tower_accumulation,
    tower_gathering,
    whole_gradients,
)
from replicate.gradients.accumulation import COUNTERS, Accumulation
from replicate.gradients.whole_gradients import own_gradients

__all__ = [
    "COUNTERS",
    "Accumulation",
    "accumulation",
    "accumulation_hook",
    "own_gradients",
    "tower_accumulation",
    "tower_gathering",
    "whole_gradients",
]
