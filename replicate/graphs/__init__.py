"""What a graph tells: of state, of rows, and what a value of rows is of those of all towers."""

from replicate.graphs import extents, state, updates, ways
from replicate.graphs.conditional import operations, run_if
from replicate.graphs.extents import Extents
from replicate.graphs.functions import call_site, code_of, line_of, names_in, unwrapped
from replicate.graphs.garbage import uncollected
from replicate.graphs.graph_local import GraphLocal
from replicate.graphs.loss_operations import DIVISIONS
from replicate.graphs.reduction_kinds import MEAN, ROWS, SUM, WHOLE, axis_of
from replicate.graphs.rows import Rows
from replicate.graphs.static_values import static_value
from replicate.graphs.updates import ancestors
from replicate.graphs.whole_loss import Start, WholeLoss

__all__ = [
    "DIVISIONS",
    "MEAN",
    "ROWS",
    "SUM",
    "WHOLE",
    "Extents",
    "GraphLocal",
    "Rows",
    "Start",
    "WholeLoss",
    "ancestors",
    "axis_of",
    "call_site",
    "code_of",
    "extents",
    "line_of",
    "names_in",
    "operations",
    "run_if",
    "state",
    "static_value",
    "uncollected",
    "unwrapped",
    "updates",
    "ways",
]
