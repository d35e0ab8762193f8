"""Answers questions about a graph: its state, its source lines, the ancestors of operations."""

from replicate.graphs import state, step_reads
from replicate.graphs.ancestors import ancestors, descendants, followers, takers
from replicate.graphs.conditional import operations, run_if
from replicate.graphs.functions import (
    INLINED,
    call_of,
    call_site,
    code_of,
    is_users,
    line_of,
    names_in,
    unwrapped,
)
from replicate.graphs.garbage import uncollected
from replicate.graphs.graph_local import Eager, GraphLocal, graph_here, graph_of_variables
from replicate.graphs.initialising import OF_SESSION, initialise

__all__ = [
    "INLINED",
    "OF_SESSION",
    "Eager",
    "GraphLocal",
    "ancestors",
    "call_of",
    "call_site",
    "code_of",
    "descendants",
    "followers",
    "graph_here",
    "graph_of_variables",
    "initialise",
    "is_users",
    "line_of",
    "names_in",
    "operations",
    "run_if",
    "state",
    "step_reads",
    "takers",
    "uncollected",
    "unwrapped",
]
