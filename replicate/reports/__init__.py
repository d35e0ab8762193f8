"""Reports progress, and which work and which transfers towers do in a step."""

from replicate.reports import progress_values, report
from replicate.reports.progress_bar import ProgressBar, import_tqdm
from replicate.reports.progress_log import ProgressLog, RateSummary
from replicate.reports.report import tower_report

__all__ = [
    "ProgressBar",
    "ProgressLog",
    "RateSummary",
    "import_tqdm",
    "progress_values",
    "report",
    "tower_report",
]
