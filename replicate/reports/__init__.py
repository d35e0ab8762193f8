"""Reports progress, and which work and which transfers towers do in a step."""

from replicate.reports import progress_values, report
from replicate.reports.progress_bar import ProgressBar, import_tqdm
from replicate.reports.progress_log import Mark, ProgressLog, RateSummary
from replicate.reports.report import tower_report
from replicate.reports.tower_monitor import TowerMonitorHook

__all__ = [
    "Mark",
    "ProgressBar",
    "ProgressLog",
    "RateSummary",
    "TowerMonitorHook",
    "import_tqdm",
    "progress_values",
    "report",
    "tower_report",
]
