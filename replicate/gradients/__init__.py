"""Stages of an update: add gradients up, unscale, check, transform, clip and apply them."""

from replicate.gradients import ancestor
from replicate.gradients.training_step import TrainingStep
from replicate.gradients.wrapped_optimizer import AnswersAsKeras, WrappedOptimizer

__all__ = [
    "AnswersAsKeras",
    "TrainingStep",
    "WrappedOptimizer",
    "ancestor",
]
