"""`replicate.compare`: runs a user's model on one device and over towers, step by step."""

from replicate.comparing.comparison import Comparison
from replicate.comparing.deviations import Deviation, deviation
from replicate.comparing.flow import compare

__all__ = ["Comparison", "Deviation", "compare", "deviation"]
