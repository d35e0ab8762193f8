"""`python -m replicate scan`: reads a codebase, and says what moving it takes.

A *rule* is a kind of finding; a *module* is a file that is looked at. Nothing here needs
TensorFlow: what it has is in a table.
"""

from replicate.scan.codebase import Found, scan
from replicate.scan.findings import RULES, Finding

__all__ = ["RULES", "Finding", "Found", "scan"]
