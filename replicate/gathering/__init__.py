"""Sums over devices: how tensors get to where they are added up, and in which type."""

from replicate.gathering import collectives, nccl, packing
from replicate.gathering.gather import Gather

__all__ = ["Gather", "collectives", "nccl", "packing"]
