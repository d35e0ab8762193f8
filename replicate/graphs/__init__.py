"""What is in a graph: what operations do to state, what depends on rows, what updates what."""

from replicate.graphs import state, updates
from replicate.graphs.conditional import operations, run_if
from replicate.graphs.functions import call_site, code_of, line_of, names_in, unwrapped
from replicate.graphs.graph_local import GraphLocal
from replicate.graphs.rows import Rows
from replicate.graphs.static_values import static_value
from replicate.graphs.updates import ancestors

__all__ = [
    "GraphLocal",
    "Rows",
    "ancestors",
    "call_site",
    "code_of",
    "line_of",
    "names_in",
    "operations",
    "run_if",
    "state",
    "static_value",
    "unwrapped",
    "updates",
]
