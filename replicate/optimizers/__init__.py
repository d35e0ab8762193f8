"""What an optimizer does with gathered gradients: checks, clips, accumulates, applies them once."""

from replicate.optimizers import ancestor, unwrapped
from replicate.optimizers.training_step import TrainingStep
from replicate.optimizers.wrapped_optimizer import AnswersAsKeras, WrappedOptimizer

__all__ = ["AnswersAsKeras", "TrainingStep", "WrappedOptimizer", "ancestor", "unwrapped"]
