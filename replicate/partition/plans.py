"""Keeps the plans by which graphs were changed, for reports."""

from __future__ import annotations

from typing import Any

from replicate.graphs import GraphLocal
from replicate.partition.plan import Plan

_plans = GraphLocal()
_coverages = GraphLocal()


def keep(graph: Any, plan: Plan) -> None:
    """Keeps the plan of a graph for the lifetime of the graph."""
    _plans[graph] = plan


def keep_coverage(graph: Any, coverage: Any) -> None:
    """Keeps the `Coverage` of a graph for the lifetime of the graph."""
    _coverages[graph] = coverage


def coverage_of(graph: Any) -> Any:
    """Returns the `Coverage` of a graph that is trained in towers, None for any other."""
    return _coverages.get(graph)


def plan_of(graph: Any) -> Plan | None:
    """Returns the plan of a graph that runs in towers, None for any other."""
    found: Plan | None = _plans.get(graph)
    return found
