"""What a value made from rows is when the rows are those of all towers; above all, the loss."""

from replicate.reductions import extents
from replicate.reductions.extents import Extents
from replicate.reductions.kinds import MEAN, ROWS, SUM, WHOLE, axis_of
from replicate.reductions.loss_operations import DIVISIONS
from replicate.reductions.whole_loss import Start, WholeLoss

__all__ = [
    "DIVISIONS",
    "MEAN",
    "ROWS",
    "SUM",
    "WHOLE",
    "Extents",
    "Start",
    "WholeLoss",
    "axis_of",
    "extents",
]
