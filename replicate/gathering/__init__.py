"""Sums over devices: how tensors get to where they are added up, and in which type."""

from replicate.gathering import chosen, collectives, nccl, packing, transport
from replicate.gathering.gather import Gather
from replicate.gathering.transport import Transport

__all__ = ["Gather", "Transport", "chosen", "collectives", "nccl", "packing", "transport"]
