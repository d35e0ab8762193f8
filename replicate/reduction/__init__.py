"""Sums over devices: how tensors get to where they are added up, and in which type."""

from replicate.reduction import chosen, collectives, nccl, packing, transport
from replicate.reduction.gather import Gather
from replicate.reduction.transport import Transport

__all__ = ["Gather", "Transport", "chosen", "collectives", "nccl", "packing", "transport"]
