"""Partitions one device's graph over towers, after it is built."""

from replicate.partition import model
from replicate.partition.build import partition
from replicate.partition.placement import Placement
from replicate.partition.rows import Rows
from replicate.partition.surgery import Partitioned

__all__ = ["Partitioned", "Placement", "Rows", "model", "partition"]
