"""Runs a graph in towers, after it is built: one device's graph, or the program of one tower."""

from replicate.partition import model, placement, specs, summaries
from replicate.partition.build import partition
from replicate.partition.placement import Placement
from replicate.partition.plans import coverage_of, plan_of
from replicate.partition.program import Program, current
from replicate.partition.references import read_before_written
from replicate.partition.rows import Rows
from replicate.partition.surgery import SCOPE, Partitioned
from replicate.partition.towers import build_towers

__all__ = [
    "SCOPE",
    "Partitioned",
    "Placement",
    "Program",
    "Rows",
    "build_towers",
    "coverage_of",
    "current",
    "model",
    "partition",
    "placement",
    "plan_of",
    "read_before_written",
    "specs",
    "summaries",
]
