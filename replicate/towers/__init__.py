"""The model as towers: copies of its graph, what they share, and what comes out of them all."""

from replicate.towers import (
    boundary,
    gathered_gradients,
    hyperparameters,
    placement,
    prefetching,
    references,
    specs,
    summaries,
    whole_gradients,
)
from replicate.towers.copies import last_id
from replicate.towers.group import Towers, current
from replicate.towers.per_tower import PerTower
from replicate.towers.tower_index import TowerIndex
from replicate.towers.variables import SharedVariables
from replicate.towers.whole_gradients import own_gradients

__all__ = [
    "PerTower",
    "SharedVariables",
    "TowerIndex",
    "Towers",
    "boundary",
    "current",
    "gathered_gradients",
    "hyperparameters",
    "last_id",
    "own_gradients",
    "placement",
    "prefetching",
    "references",
    "specs",
    "summaries",
    "whole_gradients",
]
