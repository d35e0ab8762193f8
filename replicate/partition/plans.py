"""The plans by which graphs were changed, for what tells of them."""

from __future__ import annotations

from typing import Any

from replicate.graphs import GraphLocal
from replicate.partition.plan import Plan

_plans = GraphLocal()
_coverages = GraphLocal()


def keep(graph: Any, plan: Plan) -> None:
    """Keeps the plan of a graph, as long as there is the graph."""
    _plans[graph] = plan


def keep_coverage(graph: Any, coverage: Any) -> None:
    """Keeps the `Coverage` of a graph, as long as there is the graph."""
    _coverages[graph] = coverage


def coverage_of(graph: Any) -> Any:
    """Returns the `Coverage` of a graph that is trained in towers, None of any other."""
    return _coverages.get(graph)


def plan_of(graph: Any) -> Plan | None:
    """Returns the plan of a graph that runs in towers, None of any other."""
    found: Plan | None = _plans.get(graph)
    return found
