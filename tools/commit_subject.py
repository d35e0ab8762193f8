"""Refuses a commit whose subject is longer than 72 characters: a commit-msg hook of git.

    python tools/commit_subject.py .git/COMMIT_EDITMSG

Exits with 0 if the subject is short enough, else with 1. `.pre-commit-config.yaml` calls it.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Sequence

LONGEST = 72
# `git rebase --autosquash` removes these.
_AUTOSQUASH = ("fixup! ", "squash! ", "amend! ")


def subject(message: str) -> str:
    """Returns the first line of a message that is neither empty nor a comment, '' if none is."""
    lines = (line.strip() for line in message.splitlines() if not line.startswith("#"))
    found = next(filter(None, lines), "")
    while found.startswith(_AUTOSQUASH):
        found = found.partition(" ")[2]
    return found


def check(message: str) -> str | None:
    """Returns what is wrong with the subject of a message, None if nothing is."""
    found = subject(message)
    if len(found) <= LONGEST:
        return None
    return (
        f"The subject of a commit must have at most {LONGEST} characters, but has {len(found)}:\n"
        f"  {found}\nShorten it, and move the rest to a paragraph below."
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Checks the message in the file that git names; returns the exit status."""
    (path,) = sys.argv[1:] if argv is None else argv
    fault = check(pathlib.Path(path).read_text(encoding="utf-8"))
    if fault is not None:
        print(fault, file=sys.stderr)
    return int(fault is not None)


if __name__ == "__main__":
    sys.exit(main())
