"""Losses times a scale, gradients divided by it, and whether these are finite."""

from replicate.scaling import finite, loss_scale_hook
from replicate.scaling.finite_check import only_if_finite
from replicate.scaling.scaling import scaled, unscaled, update_gathered

__all__ = ["finite", "loss_scale_hook", "only_if_finite", "scaled", "unscaled", "update_gathered"]
