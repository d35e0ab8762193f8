"""Stages of an update: unscale, check, accumulate, transform, clip and apply gradients."""

from replicate.optimizer import ancestor, overrides
from replicate.optimizer.attributes import SharesAttributes
from replicate.optimizer.training_step import TrainingStep
from replicate.optimizer.wrapped_optimizer import AnswersAsKeras, WrappedOptimizer

__all__ = [
    "AnswersAsKeras",
    "SharesAttributes",
    "TrainingStep",
    "WrappedOptimizer",
    "ancestor",
    "overrides",
]
