"""Sums over devices: how tensors reach the device of the sum, and in which type."""

from replicate.reduction import chosen, collectives, nccl, packing, transport
from replicate.reduction.options import Reduction
from replicate.reduction.transport import Transport

__all__ = ["Reduction", "Transport", "chosen", "collectives", "nccl", "packing", "transport"]
