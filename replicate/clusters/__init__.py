"""Knows the tasks of a TensorFlow cluster, whether they are alive, and how they train together."""

from replicate.clusters import cluster
from replicate.clusters.cluster import PS_DEVICE, Cluster, is_chief, worker_here
from replicate.clusters.heartbeats import Heartbeats, Report
from replicate.clusters.sync import SyncHook, check_not_synchronised

__all__ = [
    "PS_DEVICE",
    "Cluster",
    "Heartbeats",
    "Report",
    "SyncHook",
    "check_not_synchronised",
    "cluster",
    "is_chief",
    "worker_here",
]
