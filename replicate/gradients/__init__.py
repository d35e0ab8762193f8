"""What becomes of gradients once they are made: added up, checked, unscaled, clipped, applied once.

They are made and gathered in `towers.whole_gradients`, summed over devices in `gathering`.
"""

from replicate.gradients import ancestor, unwrapped
from replicate.gradients.training_step import TrainingStep
from replicate.gradients.wrapped_optimizer import AnswersAsKeras, WrappedOptimizer

__all__ = [
    "AnswersAsKeras",
    "TrainingStep",
    "WrappedOptimizer",
    "ancestor",
    "unwrapped",
]
