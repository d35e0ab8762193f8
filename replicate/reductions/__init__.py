"""What a value made from rows is when the rows are those of all towers; above all, the loss."""

from replicate.reductions import extents
from replicate.reductions.extents import Extents
from replicate.reductions.kinds import MEAN, SUM
from replicate.reductions.whole_loss import Start, WholeLoss

__all__ = ["MEAN", "SUM", "Extents", "Start", "WholeLoss", "extents"]
