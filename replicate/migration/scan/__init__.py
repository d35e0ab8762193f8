"""`python -m replicate scan`: reads a codebase, and lists the changes that moving it takes.

A *rule* is a kind of finding; a *module* is a file that is analysed. Nothing here needs TensorFlow:
its names are in a table.
"""

from replicate.migration.scan import command
from replicate.migration.scan.codebase import Found, scan
from replicate.migration.scan.findings import RULES, Finding

__all__ = ["RULES", "Finding", "Found", "command", "scan"]
