"""Stages of an update: add gradients up, unscale, check, transform, clip and apply them."""

from replicate.optimizer import ancestor
from replicate.optimizer.training_step import TrainingStep
from replicate.optimizer.wrapped_optimizer import AnswersAsKeras, WrappedOptimizer

__all__ = [
    "AnswersAsKeras",
    "TrainingStep",
    "WrappedOptimizer",
    "ancestor",
]
