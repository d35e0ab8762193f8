"""How towers hold the tensors of one device's graph: layouts, their rules, and their inference."""

from replicate.layouts import dims
from replicate.layouts.arrays import array_of
from replicate.layouts.costs import MULTIPLIES, Costs
from replicate.layouts.dims import ROWS, Dim, Monomial, symbol
from replicate.layouts.facts import Facts, Measure
from replicate.layouts.found import Layouts, Source, sources_of_ragged, sources_of_sparse
from replicate.layouts.inference import infer
from replicate.layouts.kinds import MADE_OUTSIDE, PASS_ON, RANDOM, differs, takes_moments
from replicate.layouts.layout import (
    MEAN,
    PER_TOWER,
    SIZE,
    SUM,
    WHOLE,
    Blocks,
    Even,
    Grown,
    Indices,
    Layout,
    Own,
    Partial,
    Shard,
    Share,
    Strategy,
    Unit,
    adds_offset,
    is_shard,
    meets_in_round,
)
from replicate.layouts.rule import pointing_rule_of, reason_of, rule_of
from replicate.layouts.traffic import runs_once_to_send_less

__all__ = [
    "MADE_OUTSIDE",
    "MEAN",
    "MULTIPLIES",
    "PASS_ON",
    "PER_TOWER",
    "RANDOM",
    "ROWS",
    "SIZE",
    "SUM",
    "WHOLE",
    "Blocks",
    "Costs",
    "Dim",
    "Even",
    "Facts",
    "Grown",
    "Indices",
    "Layout",
    "Layouts",
    "Measure",
    "Monomial",
    "Own",
    "Partial",
    "Shard",
    "Share",
    "Source",
    "Strategy",
    "Unit",
    "adds_offset",
    "array_of",
    "differs",
    "dims",
    "infer",
    "is_shard",
    "meets_in_round",
    "pointing_rule_of",
    "reason_of",
    "rule_of",
    "runs_once_to_send_less",
    "sources_of_ragged",
    "sources_of_sparse",
    "symbol",
    "takes_moments",
]
