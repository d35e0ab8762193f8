"""TensorFlow clusters: which task this is, whether the others live, who trains together."""

from replicate.clusters import cluster
from replicate.clusters.cluster import Cluster, is_chief
from replicate.clusters.heartbeats import Heartbeats, Report
from replicate.clusters.sync import SyncHook, check_not_synchronised

__all__ = [
    "Cluster",
    "Heartbeats",
    "Report",
    "SyncHook",
    "check_not_synchronised",
    "cluster",
    "is_chief",
]
