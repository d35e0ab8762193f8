"""Stages of an update: unscale, check, accumulate, transform, clip and apply gradients."""

from replicate.optimizer import ancestor
from replicate.optimizer.training_step import TrainingStep
from replicate.optimizer.wrapped_optimizer import AnswersAsKeras, WrappedOptimizer

__all__ = [
    "AnswersAsKeras",
    "TrainingStep",
    "WrappedOptimizer",
    "ancestor",
]
